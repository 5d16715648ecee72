"""A source of followers: answers what they ask, from what a replica or another follower has.

Given: the replica. Promised: an answer holds only what may be read here: green at a replica, green and on stable
storage at a follower. Nothing is kept of who follows.
"""

from collections.abc import Callable, Sequence

from msgspec import msgpack
from msgspec.structs import replace

from reconvene.corel.following.messages import (
    MOST_BATCHES,
    Answer,
    Ask,
    BaseAnswer,
    BaseAsk,
    Joint,
    PieceAnswer,
    PieceAsk,
    Pull,
    Pulled,
    PulledBatch,
)
from reconvene.corel.replica import Replica
from reconvene.errors import Malformed

__all__ = ["Source", "joint_before"]

_SESSIONS = 1_024
"""Client sessions in one answer."""


class Source:
    """`origin`: the cluster whose log it is. `chain`: the source, and everyone from whom it may get the log. `head`:
    the highest green line that it has heard of. `expect` is called with a position for which a follower waits."""

    def __init__(
        self,
        replica: Replica,
        origin: Callable[[], str],
        chain: Callable[[], Sequence[str]],
        head: Callable[[], int] = lambda: 0,
        expect: Callable[[int], None] = lambda position: None,
    ) -> None:
        self._replica = replica
        self._origin = origin
        self._chain = chain
        self._head = head
        self._expect = expect

    def answer(self, ask: Ask, *, late: bool = False) -> Answer | None:
        """None: there is nothing yet, and the follower waits. `late`: it has waited long enough.

        Raises Malformed where storage is damaged."""
        match ask:
            case Pull():
                return self._pulled(ask, late)
            case BaseAsk():
                return self._base(ask)
            case PieceAsk():
                return PieceAnswer(self._piece(ask))

    def _pulled(self, ask: Pull, late: bool) -> Pulled | None:
        replica = self._replica
        base, green, start = replica.base, replica.green, ask.start
        if green < base:
            # A follower that takes over a base that is not on its disk yet.
            return self._answer(green, green) if late or not ask.wait else None
        other = start > base and start <= green and ask.joint not in (None, joint_before(replica, start))
        if start >= green and not other and ask.wait and not late:
            self._expect(start)
            return None
        batches: list[PulledBatch] = []
        if base <= start < green and not other:
            batches = self._batches(start, green, ask.size)
        return self._answer(base, green, other, batches)

    # A name in use is one for the follower too, wherever its machine runs: the follower may be asked for it.
    def _answer(self, base: int, green: int, other: bool = False, batches: Sequence[PulledBatch] = ()) -> Pulled:
        return Pulled(
            self._origin(), list(self._chain()), base, green, max(green, self._head()), other, list(batches),
            [replace(row, here=True) for row in self._replica.snapshots.rows()],
        )  # fmt: skip

    def _batches(self, start: int, green: int, size: int) -> list[PulledBatch]:
        found: list[PulledBatch] = []
        bodies = self._replica.queue.bodies
        for place in self._replica.places(start, green):
            body = bodies.get(place.id)
            found.append(PulledBatch(place.timestamp, place.marked, body))
            size -= len(body)
            if size <= 0 or len(found) == MOST_BATCHES:
                break
        return found

    def _base(self, ask: BaseAsk) -> BaseAnswer | None:
        replica = self._replica
        if replica.green < replica.base:
            return None
        rows = list(replica.sessions.folded.rows())
        end = ask.offset + _SESSIONS
        base = msgpack.encode(replica.queue.base)
        return BaseAnswer(base, rows[ask.offset : end], end >= len(rows), self._origin())

    def _piece(self, ask: PieceAsk) -> bytes | None:
        snapshots = self._replica.snapshots
        newest = snapshots.newest.get(ask.name)
        if newest is None or (newest.position, newest.checksum) != (ask.position, ask.checksum):
            return None
        try:
            return snapshots.piece(ask.name, ask.position, ask.piece)
        except Malformed:
            snapshots.damaged(ask.name)
            return None


def joint_before(replica: Replica, position: int) -> Joint | None:
    """The batch that ends before this position, which is not above the green line. None where it is truncated, or
    where no batch ends there: then this is another log, or the follower's was cut otherwise."""
    if position <= replica.base:
        return None
    start, heading = next(replica.queue.greens.read(position - 1))
    if start + heading.count != position:
        return None
    return Joint(heading.author, heading.first, heading.incarnation, heading.time)
