"""The present set of replicas: as of the green line, with the changes that are on the way, and how far each has come.

Given: every change that becomes green, in order. Promised: the same set at every replica at the same green line.
"""

from reconvene.corel.batch import Heading, Kind, messages_of
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.sets import Change, ReplicaSet, applies, decode_change
from reconvene.errors import Malformed

__all__ = ["CurrentReplicas"]


class CurrentReplicas:
    def __init__(self, name: str, queue: Queue, writes: Writes) -> None:
        """`name`: of this site."""
        self.green_lines: dict[str, int] = {}
        """By site: the highest green line that it reported."""
        self.changed = False
        """The set has changed since the configuration began."""
        self._name = name
        self._queue = queue
        self._writes = writes
        self._record = writes.record

    @property
    def set(self) -> ReplicaSet:
        return self._record.replicas

    def pending_sets(self) -> list[ReplicaSet]:
        """The set at the green line, and those that pending changes would make of it."""
        sets = [self.set]
        for entry in self._queue.pending():
            if entry.heading.kind is Kind.CHANGE:
                change = self._change(entry.heading)
                if change is not None and applies(change, sets[-1]):
                    sets.append(change.result)
        return sets

    def change_under_way(self) -> bool:
        """A change is accepted or logged, and not green."""
        return len(self.pending_sets()) > 1 or any(
            waiting.heading.kind is Kind.CHANGE for waiting in self._queue.accepted
        )

    def apply(self, heading: Heading) -> ReplicaSet | None:
        """A change is green. Returns the new set; None where the change was made for another set than the present."""
        change = self._change(heading)
        if change is None or not applies(change, self.set):
            return None
        self.replace(change.result)
        self._record.forced = False
        self.changed = True
        return change.result

    def replace(self, replicas: ReplicaSet) -> None:
        """This is the set from now on. A site that is not in it, or is in it under another number, accepts nothing
        until it has entered as one of them."""
        for name in list(self.green_lines):
            if replicas.number_of(name) != self.set.number_of(name):
                del self.green_lines[name]  # it is another replica, or none
        self._record.replicas = replicas
        self._record.names.update(replicas.by_number())
        if replicas.number_of(self._name) != self._queue.own:
            self._queue.own = None
        self._writes.touch()

    def report_green(self, name: str, green: int) -> None:
        """A replica reported its green line."""
        self.green_lines[name] = max(self.green_lines.get(name, 0), green)

    def _change(self, heading: Heading) -> Change | None:
        body = self._queue.bodies.get(heading.id)
        try:
            return decode_change(messages_of(body)[0])
        except Malformed:
            return None  # the same bytes, and the same answer, at every replica
