"""Total order by Lamport clock and rank: the symmetric protocol that the ATOP paper is compared with (6.2.1).

Given by evs: every numbered frame in causal order, own ones included, and the clocks of alive frames, the site's
own alive frames included, once all their senders' earlier frames are there.
Promised: every member orders the same frames the same way. A frame is returned once every member, including this
site, was heard with a clock that is no lower: its later frames have higher ones.

Lazy, only numbered frames count as heard. To count less than was heard is always safe: it can only delay. So that
nothing waits forever, a site whose clock others have awaited for too long sends an empty numbered frame.

An ordered frame whose clock is not above all that was heard of its sender, or whose sender is no member, is
ignored and counted in `ignored`.
"""

from heapq import heappop, heappush

from reconvene.core.order.engine import Key, Note, Stamp
from reconvene.wire.messages import Frame

__all__ = ["LAZY_FOR_NS", "AllAck"]

LAZY_FOR_NS = 10_000_000_000
"""How long a lazy site waits for its own next message to carry its clock."""


class AllAck:
    """One configuration's order at the member with this rank. Eager: an idle site acknowledges at once what
    others wait for. Lazy: it leaves that to its own next message, as the protocol does that the paper measures."""

    def __init__(self, number: int, members: int, rank: int, eager: bool = True) -> None:
        self.number = number
        self.rank = rank
        self.eager = eager
        self.ignored = 0
        self._clocks = [0] * members
        self._limit = 0
        self._pending: list[tuple[int, int, Frame]] = []
        self._theirs = 0
        """The highest clock of an ordered frame of others."""
        self._awaited_since = 0
        """When the first of those came that this site's clock does not cover; without meaning where it covers all."""
        self._skipping = False
        self._last: Key = (0, -1)

    def stamp(self, clock: int, now: int) -> Stamp:
        return Stamp(0, clock)

    def receive(self, frame: Frame, now: int) -> None:
        sender = frame.sender
        clock = frame.clock
        if sender >= len(self._clocks) or clock <= self._clocks[sender]:
            self.ignored += 1
            return
        if frame.slot >= 0:
            heappush(self._pending, (clock, sender, frame))
            if sender != self.rank and clock > self._theirs:
                if not self.awaited():
                    self._awaited_since = now
                self._theirs = clock
        self._hear(sender, clock)

    def heard(self, rank: int, clock: int) -> None:
        if self.eager:
            self._count(rank, clock)

    def _count(self, rank: int, clock: int) -> None:
        if rank < len(self._clocks) and clock > self._clocks[rank]:
            self._hear(rank, clock)

    def _hear(self, rank: int, clock: int) -> None:
        clocks = self._clocks
        lowest = clocks[rank] == self._limit
        clocks[rank] = clock
        if lowest:
            self._limit = self._horizon()

    def _horizon(self) -> int:
        """No member can still send a frame at or below this clock."""
        return min(self._clocks)

    def peek(self) -> tuple[Key, Frame] | None:
        if not self._pending:
            return None
        clock, sender, frame = self._pending[0]
        if clock > self._limit and not self._skipping:
            return None
        return (clock, sender), frame

    def advance(self) -> None:
        clock, sender, _ = heappop(self._pending)
        self._last = (clock, sender)

    def key(self, frame: Frame) -> Key:
        return (frame.clock, frame.sender)

    def timestamp(self, key: Key) -> tuple[int, ...]:
        return (self.number, 0, *key)

    def note(self, now: int) -> Note | None:
        due = self.deadline()
        return None if due is None or now < due or self._skipping else Note(0, 0, [])

    def wants_alive(self) -> bool:
        return self.eager and self.awaited()

    def awaited(self) -> bool:
        return self._theirs > self._clocks[self.rank]

    def deadline(self) -> int | None:
        return None if self.eager or not self.awaited() else self._awaited_since + LAZY_FOR_NS

    def clocks(self) -> list[int]:
        return list(self._clocks)

    def merge(self, clocks: list[int]) -> None:
        for rank, clock in enumerate(clocks):
            self._count(rank, clock)

    def skip_empty(self) -> None:
        self._skipping = self._skip()

    def _skip(self) -> bool:
        """Whether clocks of members that were not heard are skipped in the transitional configuration."""
        return True

    def round_trips(self, spreads: list[int | None]) -> None:
        pass

    def invariants(self) -> None:
        assert self._limit == self._horizon(), "the horizon is up to date"
        assert all(entry[:2] > self._last for entry in self._pending), "nothing comes before what was given"
        assert all(clock <= self._clocks[sender] for clock, sender, _ in self._pending)
