"""The log as a site's other parts see it: connections of clients, the program around an embedded site, HTTP.

Everything here runs in the site's loop. Positions, counters and numbers are of messages, not of batches.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Protocol

from reconvene.corel.batch import Kind
from reconvene.corel.events import Color
from reconvene.entries import EntryBatch
from reconvene.ids import UNNAMED
from reconvene.room import Room, Waiter
from reconvene.wire.client_log import Appended

__all__ = ["SiteLog"]


class SiteLog(Protocol):
    name: str
    """Of the site."""
    author: str
    """The site as the author of messages that it accepts now."""

    @property
    def base(self) -> int:
        """The first position that can be read: what is below is truncated."""

    @property
    def green(self) -> int:
        """The green line: positions below it can be read."""

    def append(
        self,
        messages: Sequence[bytes],
        session: bytes | None = None,
        number: int = 0,
        kind: Kind = Kind.DATA,
        request: int = 0,
    ) -> Appended:
        """Takes all of them, or raises: Rejected (too large, keeps no replica), Unavailable (limit, disk, stopping).

        `session`, `number`: a client's own name and the number of its first message; the others follow. What the log
        has of a session already is not taken again. `request`: the client's number of it, for the answer.
        """

    def committed(self, session: bytes) -> tuple[int, int] | None:
        """Of a transaction: the number and the position of its last commit that is green here and counts."""

    room: Room
    """How many messages `append` would take, or refuse at once, now."""

    def when_room(self, count: int, enter: Callable[[], None]) -> Waiter:
        """As `room.when`. Where the log begins by itself, and has not begun yet, it waits a while for that."""

    def durable(self, counter: int) -> Future[None]:
        """Done once this site's message of that counter, and all before it, are on stable storage here."""

    def ordered(self, counter: int) -> Future[int]:
        """Done once it is green: its position. Unavailable if the log no longer knows (a snapshot covered it)."""

    def find(self, author: str, first: int, count: int, since: int, retried: bool) -> Future[list[tuple[int, int]]]:
        """Done once all of these messages of an author are green: (position, count) …, in their order.

        since: none of them is below that position. retried: some of them may be retries of what the log has
        elsewhere, and count there. Unavailable where the log no longer knows.
        """

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        """Green messages from `start` on, whole batches but for the first, about so many or so many bytes.

        Raises Rejected where `start` is truncated or beyond the green line.
        """

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        """The same without the messages of applications (`left_out` counts them): at most so many batches, and
        as many as take a moment to find."""

    def pending(self, messages: int, newest: bool = False) -> list[tuple[Color, EntryBatch]]:
        """Of applications, and not staged: so many messages or a few more, the first or the last, in their order:
        yellow ones, red ones, then those that are not logged yet. The first ones have the positions that they
        would get if nothing came between."""

    def watch(self, moved: Callable[[int], None]) -> Callable[[], None]:
        """`moved` is told the green line whenever it has moved, once a turn. What is returned ends it."""

    def watch_colors(self, changed: Callable[[list[tuple[Color, str, int, int, int]]], None]) -> Callable[[], None]:
        """Changes of colour, once a turn: (colour, author, incarnation, first, count), in order."""

    def barrier(self) -> Future[None]:
        """Done once everything that was green anywhere when it was asked is green here."""

    def status(self) -> dict[str, object]:
        """JSON-able: primary, green, yellow and red counts, base, replicas, quorum, lag of each replica, disk."""

    # -- snapshots of applications' state machines

    def snapshot(self, name: str = UNNAMED) -> tuple[int, int] | None:
        """(position, bytes) of the newest one of this name that is kept here."""

    def read_snapshot(self, offset: int, size: int, name: str = UNNAMED) -> bytes: ...

    def save_snapshot(self, position: int, data: bytes, name: str = UNNAMED) -> Future[None]:
        """The state after everything below `position`. Done once it is durable. Raises Rejected if it is larger than
        the limit or beyond the green line, or if there are too many names."""

    def use_snapshot(self, name: str, start: int) -> Future[None]:
        """A machine of this name is run, which has everything below `start`. Done once that is durable. Raises
        Rejected if there are too many names, or what it needs is truncated."""

    def drop_snapshot(self, name: str) -> Future[None]:
        """No machine of this name is run any more. Done once that is durable. Raises Rejected if none was."""

    # -- administration

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> Future[int]:
        """Through the log: its position once it is green. `add` and `remove` together replace one by the other.
        Waits a while for a primary component, and for a change before it; who cancels it meanwhile changes nothing.
        Raises Rejected where the new set makes no sense; it fails with Unavailable where it waited in vain."""

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        """What may be lost if these replicas are given up: JSON-able, for people to read before they decide."""

    def check_readable(self) -> None:
        """Raises Rejected where the log went on without what this site holds."""

    def init(self, without: Sequence[str] = ()) -> None:
        """Begins a new log; it begins in a configuration that follows. Raises Rejected where it has begun,
        Unavailable where replicas are absent that `without` does not name."""

    def force_lost(self, lost: Sequence[str]) -> None:
        """Gives them up. Raises Rejected where the rest still is a quorum."""
