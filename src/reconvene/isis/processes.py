"""The life of this site's processes: they begin, are served turn by turn, die, and are buried."""

from reconvene.core.groups.events import Process
from reconvene.errors import Unavailable
from reconvene.isis.calls import Calls
from reconvene.isis.casting import Casting
from reconvene.isis.control import ControlQueue
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import Begun, Blocked, Ended, Flushed, Killed
from reconvene.isis.far import Far
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Local
from reconvene.isis.messages import Action, Announce
from reconvene.isis.monitor import Monitor
from reconvene.isis.own import OwnCasts
from reconvene.isis.state import StateTransfers
from reconvene.isis.table import Table

__all__ = ["Processes"]


class Processes:
    def __init__(
        self,
        here: Here,
        table: Table,
        own: OwnCasts,
        delivery: Delivery,
        casting: Casting,
        calls: Calls,
        monitor: Monitor,
        state: StateTransfers,
        control: ControlQueue,
        limits: IsisLimits,
    ) -> None:
        self._here = here
        self._table = table
        self._own = own
        self._delivery = delivery
        self._casting = casting
        self._calls = calls
        self._monitor = monitor
        self._state = state
        self._control = control
        self._limits = limits
        self.next = 1
        """The number of the next process."""
        self.far: Far | None = None
        """Casts to other clusters, where there are any."""

    def open(self, name: str = "", *, answers: bool = False, state: bool = False) -> Process:
        """A new process. `answers`: it replies to what asks for replies; else its site does, with nothing. `state`:
        it gives and takes state. Raises Unavailable at the limit."""
        if len(self._delivery.locals) >= self._limits.processes:
            raise Unavailable(f"{self._limits.processes} processes are open: no room for more")
        return self._begin(name, answers=answers, state=state)

    def _begin(self, name: str, *, answers: bool, state: bool) -> Process:
        process = Process(self._here.site, self._here.incarnation, self.next)
        self.next += 1
        self._delivery.locals[process] = Local(process, name, answers=answers, state=state)
        self._here.events.append(Begun(process, name))
        return process

    def end(self, local: Local) -> None:
        self._delivery.end(local)
        self._calls.end(local)
        self._monitor.end(local)
        if self.far is not None:
            self.far.end(local.process)
        self._state.end(local.process)
        self._here.events.append(Ended(local.process))

    def block(self) -> None:
        """The site is outside of the primary component."""
        for local in self._delivery.locals.values():
            if not local.dead:
                self._here.events.append(Blocked(local.process))

    def lose(self, first_process: int) -> None:
        """Those below this number are over, and go on as others."""
        over = [local for local in self._delivery.locals.values() if local.process.number < first_process]
        for local in over:
            del self._delivery.locals[local.process]
            if not local.dead:
                if self.far is not None:
                    self.far.end(local.process)
                self._here.events.append(Ended(local.process))
        for local in over:
            if not local.dead and not local.closing:
                process = self._begin(local.name, answers=local.answers, state=local.state)
                self._here.events.append(Killed(process, local.process))

    def serve(self) -> bool:
        """Carries out what waits. Returns whether that was anything."""
        moved = False
        for local in list(self._delivery.locals.values()):
            moved = self._serve(local) or moved
        return moved

    def _serve(self, local: Local) -> bool:
        if local.dead:
            return self._bury(local)
        moved = self._casting.pump(local)
        for flush in list(local.flushes):
            if flush.casts.isdisjoint(self._own.open) and flush.pushed():
                local.flushes.remove(flush)
                self._here.events.append(Flushed(local.process, flush.last))
                if flush.done is not None:
                    flush.done(flush.last)
        if local.closing and not local.groups and not local.held:
            self.end(local)
            return True
        return moved

    def _bury(self, local: Local) -> bool:
        """All that a dead process sent is everywhere: now its failure is announced."""
        if self._casting.unfinished(local.process):
            return False
        self._calls.died(local)
        del self._delivery.locals[local.process]
        self._monitor.died(local.process)
        if self.far is not None:
            self.far.watches.buried(local.process)
        if local.joining or any(group.knows(local.process) for group in self._table.groups.values()):
            self._control.announce(Announce([Action("failed", "", local.process)]))
        return True
