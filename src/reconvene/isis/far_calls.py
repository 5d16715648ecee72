"""Replies to casts between clusters: what a cast asks of its destinations, and what became of that.

A reply is a CBCAST back, which names the request. A destination that is over counts as a reply, once its cluster says
so, behind all that it sent; so does one whose cluster is out of reach, which is reported as that.
"""

from collections.abc import Iterable

from reconvene.core.groups.events import Process
from reconvene.ids import MessageId
from reconvene.isis.events import ALL
from reconvene.isis.far_events import FarCallOver, FarFailed, FarProcess, FarUnreachable
from reconvene.isis.here import Here

__all__ = ["FarCalls"]


class _Call:
    __slots__ = ("id", "pending", "process", "wanted")

    def __init__(self, process: Process, id_: MessageId, wanted: int, to: Iterable[FarProcess]) -> None:
        self.process = process
        self.id = id_
        self.wanted = wanted
        """Replies that are still wanted; ALL: of everyone."""
        self.pending = set(to)


class FarCalls:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._open: dict[int, _Call] = {}
        """By the cast's counter."""
        self.pending: dict[FarProcess, set[int]] = {}
        """By destination that has not replied: the casts."""

    def __len__(self) -> int:
        return len(self._open)

    def of(self, process: Process) -> int:
        """How many calls of the process are open."""
        return sum(1 for call in self._open.values() if call.process == process)

    def open(self, process: Process, id_: MessageId, replies: int, to: Iterable[FarProcess]) -> None:
        call = self._open[id_.counter] = _Call(process, id_, replies, to)
        for one in call.pending:
            self.pending.setdefault(one, set()).add(id_.counter)

    def answered(self, counter: int, sender: FarProcess) -> None:
        """Its reply has been received."""
        call = self._open.get(counter)
        if call is not None and sender in call.pending:
            self._count(call, sender)

    def over(self, failed: FarProcess) -> None:
        """Its cluster says that it is over."""
        for counter in sorted(self.pending.get(failed, ())):
            call = self._open[counter]
            self._here.events.append(FarFailed(call.process, failed, call.id))
            self._count(call, failed)

    def unreachable(self, domain: str) -> None:
        for one in sorted(one for one in self.pending if one.domain == domain):
            for counter in sorted(self.pending.get(one, ())):
                call = self._open[counter]
                self._here.events.append(FarUnreachable(call.process, one, call.id))
                self._count(call, one)

    def end(self, process: Process) -> None:
        """The process that asked is over."""
        for call in [call for call in self._open.values() if call.process == process]:
            self._close(call)

    def _count(self, call: _Call, one: FarProcess) -> None:
        call.pending.discard(one)
        self._forget(call, one)
        if call.wanted != ALL:
            call.wanted -= 1
        if not call.pending or not call.wanted:
            self._close(call)
            self._here.events.append(FarCallOver(call.process, call.id))

    def _close(self, call: _Call) -> None:
        del self._open[call.id.counter]
        for one in call.pending:
            self._forget(call, one)

    def _forget(self, call: _Call, one: FarProcess) -> None:
        counters = self.pending[one]
        counters.discard(call.id.counter)
        if not counters:
            del self.pending[one]

    def invariants(self) -> None:
        assert all(self._open[counter].pending for counters in self.pending.values() for counter in counters)
