"""A change of the site view: what lost sites sent is brought everywhere, then their processes' failure is shown.

Part 1 of the GBCAST protocol, once for a site instead of once for a process, as the paper suggests (4.3.3):

    takeover   ABCASTs whose coordinator is lost are decided
    push       every copy of a lost site's casts, and all that this site's group members have received, is sent to
               its destinations, until it has arrived there
    flushed    a safe message: which casts those are, and a priority above all ABCASTs that this site has seen
    conclude   when all sites that go on have said so: the GBCASTs that were open, in their order; then, for each
               group that lost members, one view without them. A lost site's cast that nobody has named is dropped

Another site view meanwhile begins all of it again. Every step can be repeated.
"""

from collections.abc import Collection

from reconvene.isis.abcast import Abcasts
from reconvene.isis.control import ControlQueue
from reconvene.isis.delivery import Delivery
from reconvene.isis.gbcast import Gbcasts, Pushes
from reconvene.isis.here import Here, SiteView
from reconvene.isis.local import Gate
from reconvene.isis.messages import AttemptId, FlushedSite, Priority
from reconvene.isis.pool import Pool
from reconvene.isis.table import Group, OpenGbcast, Table

__all__ = ["Change"]


class Change:
    def __init__(
        self,
        here: Here,
        table: Table,
        pool: Pool,
        abcasts: Abcasts,
        gbcasts: Gbcasts,
        delivery: Delivery,
        control: ControlQueue,
    ) -> None:
        self._here = here
        self._table = table
        self._pool = pool
        self._abcasts = abcasts
        self._gbcasts = gbcasts
        self._delivery = delivery
        self._control = control
        self.active = False
        self._view = 0
        self._heirs: frozenset[int] = frozenset()
        """The sites that go on: each has to say that it is done."""
        self._last = 0
        """The last GBCAST that was announced before this site view: those up to it are concluded with the change."""
        self._flushed: dict[int, FlushedSite] = {}
        self._pushes: Pushes | None = None
        self._casts: list[AttemptId] = []
        self._said = False

    def begin(self, view: int, heirs: Collection[int]) -> None:
        self.active = True
        self._gbcasts.hold()
        self._view = view
        self._heirs = frozenset(heirs)
        self._last = self._table.announced
        self._flushed = {}
        self._pushes = None
        self._said = False
        for local in self._delivery.locals.values():
            if not local.dead and (local.groups or local.gates):
                local.flush = (0, 0) if local.flush is None else local.flush
                local.counted = False
                local.last_gate = self._last
        if self._here.site in self._heirs:
            self._pool.begin_departure()
            # At once: others may wait for these casts before they read on.
            Pushes(self._here, self._pool).push({entry.id: entry for entry in self._pool.of_departed()}, None)
            self._abcasts.take_over()

    @property
    def step(self) -> str:
        if self._pushes is None:
            return "takeover"
        return "flushed" if self._said else "push"

    # -- this site's part

    def work(self) -> None:
        if not self.active or self._said or self._here.site not in self._heirs:
            return
        if self._pushes is None:
            if not self._abcasts.taken_over or self._gates_open():
                return
            self._push()
        assert self._pushes is not None
        if not self._pushes.arrived() or self._unfinished():
            return
        priority = self._here.priority()
        for local in self._delivery.locals.values():
            if local.flush is not None:
                local.flush = priority
        self._said = True
        self._control.conclude(FlushedSite(self._view, priority, self._casts))

    def _gates_open(self) -> bool:
        """Some process is to receive a GBCAST that is concluded already: what comes before it has to be counted."""
        return any(gate.barrier is not None for local in self._delivery.locals.values() for gate in local.gates[:1])

    def _push(self) -> None:
        entries = self._pool.count_departed()
        gated = [local for local in self._delivery.locals.values() if local.flush is not None]
        entries |= self._gbcasts.received_by(gated)
        for gbcast in self._locking():
            self._gbcasts.add_own(entries, gbcast.action.group)
        for local in gated:
            local.counted = True
        self._pushes = Pushes(self._here, self._pool)
        self._pushes.push(entries, None)
        self._casts = [entry.key for entry in entries.values()]

    def _unfinished(self) -> bool:
        """A member's ABCAST to a group that grows or ends has no place yet: it belongs to the view that ends. Or this
        site has not stored yet that the group grows."""
        return any(
            self._abcasts.unfinished(gbcast.action.group, self._table.groups[gbcast.action.group].members())
            or (gbcast.grows and not self._gbcasts.may_grow(gbcast.action.group))
            for gbcast in self._locking()
        )

    def _locking(self) -> list[OpenGbcast]:
        return [gbcast for gbcast in self._table.open if gbcast.locks and gbcast.number <= self._last]

    # -- all sites

    def take_flushed(self, flushed: FlushedSite, site: int) -> None:
        if self.active and flushed.view == self._view:
            self._flushed[site] = flushed

    def conclude(self) -> None:
        """Where all sites that go on have said that they are done."""
        view = self._here.view
        if not self.active or view is None or not self._flushed.keys() >= self._heirs:
            return
        barrier = max(flushed.priority for flushed in self._flushed.values())
        before = frozenset(cast for flushed in self._flushed.values() for cast in flushed.casts)
        self._here.pass_barrier(barrier)
        for gbcast in list(self._table.open):
            if gbcast.number > self._last:
                continue
            if gbcast.grows and not view.has(gbcast.action.process):
                self._gbcasts.void(gbcast, barrier, before)
            else:
                self._gbcasts.conclude(gbcast, barrier, before)
        for name in sorted(self._table.groups):
            self._show_failures(self._table.groups[name], view, barrier, before)
        for local in self._delivery.locals.values():
            local.flush = None
            local.counted = False
        self.reset()
        self._gbcasts.release()
        self._pool.end_departure(before)
        self._abcasts.end_departure()

    def _show_failures(self, group: Group, view: SiteView, barrier: Priority, before: frozenset[AttemptId]) -> None:
        lost = [process for process in group.members() if not view.has(process)]
        if not lost:
            return
        outcome = self._table.fail(group, lost)
        barrier = group.barrier = max(barrier, group.barrier)
        outcome.number, outcome.conf = view.number, view.conf
        for process in group.members():
            local = self._delivery.living(process)
            if local is None:
                continue
            gate = Gate(0, group.name, locks=False)
            gate.barrier, gate.before, gate.outcome = barrier, before, outcome
            # In front of what was announced since.
            place = sum(1 for other in local.gates if other.number <= self._last)
            local.gates.insert(place, gate)

    def reset(self) -> None:
        self.active = False
        self._flushed = {}
        self._pushes = None
        self._casts = []
