"""Truncation: green batches that are not needed any more are folded into the base, and deleted.

Given: what is green and on stable storage. Promised: the base sums up everything below it (authors' counters, the
replicas, client sessions), so that a replica that lacks it can go on from there. Only whole batches are deleted, and
a bounded number each turn. Each replica truncates by itself: a replica that lacks what others have truncated gets the
base in recovery.
"""

from msgspec import Struct, msgpack
from msgspec.structs import replace

from reconvene.corel.batch import Heading, Kind, messages_of
from reconvene.corel.clients.holds import Holds
from reconvene.corel.clients.sessions import Sessions
from reconvene.corel.keeping.layout import BASE, Base
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.limits import LogLimits
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.sets import applies, decode_change
from reconvene.errors import Malformed
from reconvene.storage.tables import Put

__all__ = ["Needs", "Truncation", "fold", "may_go"]

_MESSAGES = 16_384
_BATCHES = 256
_BYTES = 4 << 20
"""Deleted in one turn, at most, but for one batch: each is read back."""
_LOOK_AGAIN_NS = 10**9
"""How long truncation waits before it looks again at staged messages that may not go yet."""


class Needs(Struct, frozen=True):
    """What replicas and state machines still need."""

    everywhere: int
    """The lowest green line of any replica; 0 where one was never heard of."""
    snapshot: int | None
    """What a state machine of a name in use needs here begins at this position: the lowest of all names'
    (`Snapshots.floor`). None: no name is in use."""
    retained: int
    """Of the green batches that are not truncated, in bytes."""
    now: int
    """ns since 1970."""


def may_go(limits: LogLimits, needs: Needs, end: int, time: int | None) -> bool:
    """Whether a batch that ends before position `end` may go, where all before it are gone. `time`: its author's
    clock; None: not known, and so not old.

    What a state machine of a name in use needs to start stays, even beyond the limits of retention. Where no name is
    in use, the log is read as a stream, and only these limits delete anything."""
    if needs.snapshot is not None and end > needs.snapshot:
        return False
    if limits.retain_bytes is not None and needs.retained > limits.retain_bytes:
        return True
    if limits.retain_age_ns is not None and time is not None and time < needs.now - limits.retain_age_ns:
        return True
    return needs.snapshot is not None and end <= needs.everywhere and needs.retained > limits.keep_bytes


def fold(base: Base, heading: Heading, body: bytes) -> Base:
    """The base with the next batch in it; client sessions are beside it."""
    replicas = base.replicas
    if heading.kind is Kind.CHANGE:
        try:
            change = decode_change(messages_of(body)[0])
        except Malformed:
            change = None
        if change is not None and applies(change, replicas):
            replicas = change.result
    return replace(
        base,
        position=base.position + heading.count,
        last_green={**base.last_green, heading.author: heading.last},
        replicas=replicas,
        time=max(base.time, heading.time),
        size=base.size + len(body),
        names=base.names if replicas is base.replicas else {**base.names, **replicas.by_number()},
    )


class Truncation:
    def __init__(
        self,
        name: str,
        limits: LogLimits,
        queue: Queue,
        replicas: CurrentReplicas,
        sessions: Sessions,
        holds: Holds,
        writes: Writes,
    ) -> None:
        self._name = name
        self._queue = queue
        self._replicas = replicas
        self._sessions = sessions
        self._holds = holds
        self._writes = writes
        self.asked = 0
        """An administrator said that what is below this position may go."""
        self._limits = limits
        self._retains = limits.retain_bytes is not None or limits.retain_age_ns is not None
        self._first: tuple[int, int | None] = (-1, None)
        """(position, author's clock) of the first batch above the base."""
        self._held_until = 0
        """Staged messages stay until then: there is no need to look before."""

    def step(self, snapshot: int | None, now: int) -> bool:
        """Folds what may go, as much as one turn takes. Returns whether there may be more."""
        queue, durable = self._queue, self._writes.green
        base = queue.base
        if base.position >= durable or not (snapshot is not None or self._retains or self.asked > base.position):
            return False  # as is usual: it is asked every turn
        if now < self._held_until and self.asked <= base.position:
            return False
        needs = self._needs(base, durable, snapshot, now)
        if not self._wanted(needs, base.position + 1):
            return False
        batches: list[tuple[int, Heading]] = []
        ops, read = self._writes.ops, 0
        end = min(durable, base.position + _MESSAGES)
        for position, heading in queue.greens.read_stored(base.position, end):
            self._first = (position, heading.time)
            size = base.size - queue.base.size
            if position + heading.count > durable or not self._goes(needs, position, heading, size):
                break
            body = queue.bodies.get(heading.id)
            base = fold(base, heading, body)
            ops += self._sessions.fold(heading, body, position)
            if heading.kind is Kind.COMMIT:
                ops += self._holds.fold(body, position)
            batches.append((position, heading))
            read += len(body)
            if len(batches) == _BATCHES or read >= _BYTES:
                break
        if not batches:
            return False
        queue.truncate(base, batches)
        ops += (*self._sessions.folded.changes(), Put(BASE, msgpack.encode(base)))
        return True

    def held(self, now: int) -> bool:
        """Whether something would go if later snapshots covered it."""
        base, durable = self._queue.base, self._writes.green
        return base.position < durable and self._wanted(self._needs(base, durable, durable, now), base.position + 1)

    def _needs(self, base: Base, durable: int, snapshot: int | None, now: int) -> Needs:
        others = [name for name in self._replicas.set.names() if name != self._name]
        everywhere = min([durable, *(self._replicas.green_lines.get(name, 0) for name in others)])
        return Needs(everywhere, snapshot, self._queue.green_size - base.size, now)

    def _wanted(self, needs: Needs, end: int) -> bool:
        """Whether it is worth a look at storage."""
        first, time = self._first
        if first != end - 1 and self._limits.retain_age_ns is not None:
            return True
        return end <= self.asked or may_go(self._limits, needs, end, time)

    def _goes(self, needs: Needs, position: int, heading: Heading, gone: int) -> bool:
        end = position + heading.count
        if end <= self.asked:
            return True
        left = replace(needs, retained=needs.retained - gone)
        if not may_go(self._limits, left, end, heading.time):
            return False
        if heading.kind is Kind.STAGED and not self._decided(left, end, heading.time):
            self._held_until = needs.now + _LOOK_AGAIN_NS
            return False
        return True

    def _decided(self, needs: Needs, end: int, time: int) -> bool:
        """Whether staged messages before `end` may go: no commit will name them, and those that may have go too."""
        limits, size = self._limits, self._queue.green_size
        return _is_old(limits, needs, end, time) and all(
            may_go(limits, left, hold.position + 1, hold.time) and _is_old(limits, left, hold.position + 1, hold.time)
            for hold in self._holds.of(end)
            for left in [replace(needs, retained=size - hold.size)]
        )


def _is_old(limits: LogLimits, needs: Needs, end: int, time: int) -> bool:
    """Whether it is beyond the limits of retention, or, where a snapshot covers it, older than `staged_age_ns`."""
    return may_go(limits, replace(needs, snapshot=None), end, time) or time < needs.now - limits.staged_age_ns
