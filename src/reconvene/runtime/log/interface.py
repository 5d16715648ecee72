"""The log as a site's other parts see it: connections of clients, the program around an embedded site, HTTP.

Everything here runs in the site's loop. Positions, counters and numbers are of messages, not of batches.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Protocol

from reconvene.corel.events import Color
from reconvene.corel.following.messages import Answer, Ask
from reconvene.entries import EntryBatch
from reconvene.ids import UNNAMED
from reconvene.room import Room, Waiter
from reconvene.runtime.log.durable import DurableWaiters
from reconvene.wire.client_log import Append, Appended, Forward, Order

__all__ = ["SiteLog"]


class SiteLog(Protocol):
    name: str
    """Of the site."""
    author: str
    """The author name of messages that the site accepts now."""

    @property
    def base(self) -> int:
        """The first position that can be read: messages below it are truncated."""

    @property
    def green(self) -> int:
        """The green line: positions below it can be read."""

    def append(self, append: Append) -> Appended:
        """Accepts all of its messages, or raises: Rejected (too large, keeps no replica), Unavailable (limit, disk,
        stopping). Messages of a session that the log already has are not appended again."""

    def forward(self, forward: Forward) -> Appended:
        """Takes what an outpost forwards, as `append` does. Raises Unavailable also if the site is in no primary
        component, or if the messages are not the outpost's next ones."""

    def confirmed(self, session: bytes, first: int) -> list[tuple[int, int, int]]:
        """What is green here of an outpost's messages from `first` on, without a gap: (counter, count, position) …; a
        position of -1 is not known any more."""

    def cursor(self, session: bytes) -> tuple[int, bytes] | None:
        """Of a cursor: the position of its last record that counts here, and its note. None: there is none."""

    def cursors(self, after: bytes, most: int) -> list[tuple[bytes, int, bytes]]:
        """(session, position, note) of cursors, by session, from the first after `after` on, at most so many."""

    def committed(self, session: bytes) -> tuple[int, int] | None:
        """The number and the position of a transaction's last commit that is green here and counts."""

    room: Room
    """How many messages `append` would now accept or refuse at once, without waiting."""

    def why_no_appends(self) -> str | None:
        """Why an append would not be taken now, in one line; None: it would. The site's role and its disk count, and
        whether there is room."""

    def why_no_order(self) -> str | None:
        """Why messages that are accepted here get no position now, in one line; None: they do."""

    @property
    def begins(self) -> bool:
        """The log has not begun, and will by itself (log.begin), soon after its sites are in one configuration."""

    def when_room(self, count: int, enter: Callable[[], None]) -> Waiter:
        """As `room.when`. If the log begins by itself and has not begun yet, waits a while for that."""

    durable: DurableWaiters
    """Appends that wait until this site's messages up to a counter are on stable storage here."""

    def ordered(self, counter: int) -> Future[int]:
        """Done once this site's message with that counter is green; the result is its position. Fails with
        Unavailable if the log no longer knows it (a snapshot covers it)."""

    def find(self, order: Order) -> Future[list[tuple[int, int]] | None]:
        """Done once all of these messages of an author are green: (position, count) …, in their order; None: they
        became green just now, and have to be searched for: ask again. Fails with Unavailable if the log no longer
        knows."""

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        """Green messages from `start` on: about `messages` of them, or about `size` bytes. All batches are whole but
        the first, which begins at `start`.

        Raises Rejected if `start` is truncated or beyond the green line.
        """

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        """Like `read`, without the messages of applications (`left_out` counts them). At most `batches` batches;
        fewer if reading them would take too long."""

    def pending(self, messages: int, newest: bool = False) -> list[tuple[Color, EntryBatch]]:
        """About `messages` messages of applications that are neither green nor staged, in order: yellow ones, red
        ones, then those that are not logged yet. `newest`: the last ones instead of the first. Each of the first ones
        has the position that it gets if no other message is ordered before it."""

    def watch(self, moved: Callable[[int], None]) -> Callable[[], None]:
        """Calls `moved` with the green line when it has moved, once per turn. Returns a function that ends this."""

    def watch_colors(self, changed: Callable[[list[tuple[Color, str, int, int, int]]], None]) -> Callable[[], None]:
        """Calls `changed` with the changes of colour, once per turn: (colour, author, incarnation, first, count), in
        order. Returns a function that ends this."""

    def expect(self, position: int) -> None:
        """Somebody waits until this position can be read. A site that follows asks its source sooner for that."""

    def answer_follower(self, ask: Ask, late: bool = False) -> Answer | None:
        """What a follower asks. None: nothing is to be told yet, and it waits; `late`: long enough."""

    def barrier(self) -> Future[None]:
        """Done once every message that was green at any site at the time of this call is green here."""

    def status(self) -> dict[str, object]:
        """JSON-able: primary, green, yellow and red counts, base, replicas, quorum, lag of each replica, disk."""

    # -- snapshots of applications' state machines

    def snapshot(self, name: str = UNNAMED) -> tuple[int, int] | None:
        """(position, bytes) of the newest snapshot of this name that is kept here."""

    def read_snapshot(self, offset: int, size: int, name: str = UNNAMED) -> bytes: ...

    def save_snapshot(self, position: int, data: bytes, name: str = UNNAMED) -> Future[None]:
        """The state after everything below `position`. Done once it is durable. Raises Rejected if it is larger than
        the limit or beyond the green line, or if there are too many names."""

    def use_snapshot(self, name: str, start: int) -> Future[None]:
        """Registers a state machine of this name that has applied everything below `start`. Done once that is
        durable. Raises Rejected if there are too many names, or if messages that it needs are truncated."""

    def drop_snapshot(self, name: str) -> Future[None]:
        """Removes the state machine of this name and its snapshot. Done once that is durable. Raises Rejected if
        there is none."""

    # -- administration

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> Future[int]:
        """Appends the change to the log; done once it is green, with its position. `add` and `remove` together
        replace one replica by the other. Waits a while for a primary component, and for an earlier change; if it is
        cancelled meanwhile, nothing changes. Raises Rejected if the new set is invalid; fails with Unavailable after
        the wait."""

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        """What may be lost if these replicas are given up, as JSON-able data: operators read it before they
        decide."""

    def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        """What losing these replicas would stop, as JSON-able data. Raises Rejected if one of them is not a
        replica."""

    def check_readable(self) -> None:
        """Raises Rejected if the log has continued without this site's replica."""

    def init(self, without: Sequence[str] = ()) -> None:
        """Begins a new log, in a later configuration. Raises Rejected if the log has begun, Unavailable if replicas
        are absent that `without` does not name."""

    def force_lost(self, lost: Sequence[str]) -> None:
        """Gives these replicas up. Raises Rejected if the others are still a quorum."""
