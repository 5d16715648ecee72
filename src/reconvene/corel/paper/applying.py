"""What follows from a batch that becomes green, at every replica alike, and from another replica's base.

Given: green batches in their order. Promised: the set of replicas, client sessions and commits' needs are those of
the green line, and are written with it.
"""

from collections.abc import Iterator, Sequence

from msgspec import msgpack

from reconvene.corel.batch import Heading, Kind
from reconvene.corel.clients.accepting import Accepting
from reconvene.corel.clients.holds import Holds
from reconvene.corel.clients.session_table import Row
from reconvene.corel.clients.sessions import Sessions
from reconvene.corel.events import Green
from reconvene.corel.keeping.layout import BASE, Base
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.messages import BaseSent
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.standing import Standing
from reconvene.corel.turn_share import TurnShare
from reconvene.storage.tables import Put

__all__ = ["Applying"]

_BASE_ROWS = 128
"""Client sessions in one message."""


class Applying:
    def __init__(
        self,
        queue: Queue,
        writes: Writes,
        turn: TurnShare,
        *,
        replicas: CurrentReplicas,
        standing: Standing,
        sessions: Sessions,
        holds: Holds,
        accepting: Accepting,
    ) -> None:
        self._queue = queue
        self._writes = writes
        self._turn = turn
        self._replicas = replicas
        self._standing = standing
        self._sessions = sessions
        self._holds = holds
        self._accepting = accepting

    def advance(self) -> None:
        """The first yellow batch becomes green, and is reported at once (`Queue.advance`)."""
        heading, position = self._queue.advance()
        self.apply(heading, position)
        self._turn.report(Green(heading, position))

    def apply(self, heading: Heading, position: int) -> None:
        """A batch is green. What follows is written with its place."""
        queue, ops = self._queue, self._writes.ops
        if heading.kind is Kind.CHANGE:
            replicas = self._replicas.apply(heading)
            if replicas is not None:
                self._standing.number_replacements(replicas)
        before = queue.green_size
        queue.green_size += heading.size
        needed = heading.sourced or heading.kind is Kind.COMMIT
        self._turn.spend(heading.size if needed else 0, heading.count)
        if needed:
            body = queue.bodies.get(heading.id)
            if heading.sourced:
                ops += self._sessions.take(heading, body, position)
            if heading.kind is Kind.COMMIT and not self._sessions.voids(position, heading):
                ops += self._holds.take(heading, body, position, before)
        self._accepting.ordered(heading.id)

    def base_messages(self) -> Iterator[BaseSent]:
        """What was truncated here, for another replica."""
        base, rows = msgpack.encode(self._queue.base), list(self._sessions.folded.rows())
        for start in range(0, len(rows) - _BASE_ROWS, _BASE_ROWS):
            yield BaseSent(base, rows[start : start + _BASE_ROWS], last=False)
        done = max(0, -(-len(rows) // _BASE_ROWS) - 1) * _BASE_ROWS
        yield BaseSent(base, rows[done:], last=True)

    def restore(self, base: Base, sessions: Sequence[Row]) -> None:
        """Takes another replica's base for its own. Raises Malformed, and changes nothing then."""
        record, queue = self._writes.record, self._queue
        ops = [*self._sessions.restore(sessions), *self._holds.restore()]
        queue.restore(base)
        self._writes.ops += (*ops, Put(BASE, msgpack.encode(base)))
        self._sessions.restart(queue.headings())
        record.names.update(base.names)
        if base.replicas.epoch >= record.replicas.epoch:
            self._replicas.replace(base.replicas)
        self._writes.touch()
        self._accepting.recount()
