"""The log as a site's other parts see it: connections of clients, the program around an embedded site, HTTP.

Everything here runs in the site's loop. Positions, counters and numbers are of messages, not of batches.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from reconvene.corel.batch import Kind
from reconvene.corel.events import Color
from reconvene.entries import EntryBatch
from reconvene.ids import UNNAMED

__all__ = ["Appended", "AppendedPart", "LogPort"]


class AppendedPart(Struct, frozen=True):
    """What became of some consecutive messages of an append."""

    count: int
    author: str
    """Message i of them is `first + i` of this replica's; empty where they are green, and that is not known."""
    first: int
    new: bool
    """False: the log had them of this session before."""
    position: int | None = None
    """Of green ones: the first one's, the others follow. None: they are not green, or it is not known any more."""
    incarnation: int = 0
    """Of their author; 0: not known."""


class Appended(Struct, frozen=True):
    """What became of an append: of all its messages, in their order."""

    parts: tuple[AppendedPart, ...]


class LogPort(Protocol):
    name: str
    """Of the site."""

    @property
    def base(self) -> int:
        """The first position that can be read: what is below is truncated."""

    @property
    def green(self) -> int:
        """The green line: positions below it can be read."""

    def append(
        self, messages: Sequence[bytes], session: bytes | None = None, number: int = 0, kind: Kind = Kind.DATA
    ) -> Appended:
        """Takes all of them, or raises: Rejected (too large, keeps no replica), Unavailable (limit, disk, stopping).

        `session`, `number`: a client's own name and the number of its first message; the others follow. What the log
        has of a session already is not taken again.
        """

    def committed(self, session: bytes) -> tuple[int, int] | None:
        """Of a transaction: the number and the position of its last commit that is green here and counts."""

    def room(self) -> int:
        """How many messages `append` would take now."""

    async def wait_for_room(self) -> None: ...

    def durable(self, counter: int) -> Future[None]:
        """Done once this site's message of that counter, and all before it, are on stable storage here."""

    def ordered(self, counter: int) -> Future[int]:
        """Done once it is green: its position. Unavailable if the log no longer knows (a snapshot covered it)."""

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        """Green messages from `start` on, whole batches but for the first, about so many or so many bytes.

        Raises Rejected where `start` is truncated or beyond the green line.
        """

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        """The same without the messages of applications (`left_out` counts them): at most so many batches, and
        as many as take a moment to find."""

    def counted(self, start: int, count: int) -> list[int | None]:
        """Of green messages, from `start` on: the position where each counts, which is an earlier one if it is void.
        None: that is not at hand (`origin` looks for it)."""

    async def origin(self, position: int) -> int | None:
        """Of a green message that is void: the position of the one that it repeats, looked for in all that can be
        read. None: it is truncated."""

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
