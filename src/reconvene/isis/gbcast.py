"""GBCAST: something that happens to a group at the same place at each of its members (4.3.3).

announce   an agreed message: one order of all GBCASTs of all groups. Each site with a member, and the newcomer's
           site, sets a gate in front of these processes' queues
ready      a safe message of each of these sites, once all earlier gates are passed there: which CBCASTs its
           members have received, all of which have arrived at all members; and a priority above all ABCASTs
           that it has seen. One for all GBCASTs that are concluded together (`isis.rounds`)
conclude   when all are ready: the highest priority is the barrier. What any member received before the gate, and
           ABCASTs below the barrier, come first everywhere; then the GBCAST; then all else
"""

from collections.abc import Iterable, Mapping

from reconvene.core.groups.events import Process
from reconvene.isis.abcast import Abcasts
from reconvene.isis.control import ControlQueue
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import CastId
from reconvene.isis.here import Here
from reconvene.isis.lasting import Lasting
from reconvene.isis.local import Gate, Local, Outcome
from reconvene.isis.messages import Action, AttemptId, Got, Priority, Ready
from reconvene.isis.own import OwnCasts
from reconvene.isis.pool import Entry, Pool
from reconvene.isis.rounds import Round, rounds, start
from reconvene.isis.table import Group, OpenGbcast, Table

__all__ = ["Gbcasts", "Pushes"]


class Pushes:
    """Casts that must arrive at other sites before this site goes on."""

    def __init__(self, here: Here, pool: Pool) -> None:
        self._here = here
        self._pool = pool
        self._records: dict[tuple[int, int], int] = {}
        """By incarnation of a site, (site, born)."""

    def push(self, entries: Mapping[CastId, Entry], sites: Iterable[int] | None) -> None:
        """To the sites of their destinations; only to those in `sites`, if it is given."""
        here = self._here
        among = None if sites is None else frozenset(sites)
        for entry in entries.values():
            for site in entry.sites:
                if site != here.site and (among is None or site in among):
                    there = (site, self._born(site))
                    self._records[there] = max(self._pool.offer(entry, site), self._records.get(there, 0))

    def _born(self, site: int) -> int:
        view = self._here.view
        return 0 if view is None or site not in view.members else view.members[site].number

    def arrived(self) -> bool:
        arrived = self._here.channels.arrived
        return all(arrived(site) >= n for (site, born), n in self._records.items() if self._born(site) == born)


class Gbcasts:
    def __init__(
        self,
        here: Here,
        table: Table,
        pool: Pool,
        own: OwnCasts,
        abcasts: Abcasts,
        delivery: Delivery,
        control: ControlQueue,
        lasting: Lasting,
    ) -> None:
        self._lasting = lasting
        self._here = here
        self._table = table
        self._pool = pool
        self._own = own
        self._abcasts = abcasts
        self._delivery = delivery
        self._control = control
        self.held = False
        """A change of the site view is under way: it concludes what is open."""
        self._pushes: dict[int, tuple[Pushes, list[AttemptId]]] = {}
        """By round: what this site has begun to push for it."""
        self._premature: list[Action] = []
        self._said: set[int] = set()
        """Rounds of which this site has said in this site view that it is ready."""
        self._unpassed: dict[int, tuple[int, CastId | None]] = {}
        """By GBCAST that is concluded: how many local processes are not past its gate; its id, if it has one."""
        self._got: dict[CastId, frozenset[int]] = {}
        """By own GBCAST that is not concluded here: sites whose members have it."""

    # -- announce

    def take_announce(self, actions: Iterable[Action]) -> None:
        before = list(self._table.open)
        opened = [gbcast for action in actions for gbcast in self._table.announce(action)]
        for gbcast in opened:
            self._set_gates(gbcast)
        if not self.held:
            start(opened, before)

    def _set_gates(self, gbcast: OpenGbcast) -> None:
        """At those that it concerns, not at those that a later one adds: several may be opened at once, and the first
        of them may be concluded while sites of the others have still to pass other gates."""
        for local in self._delivery.locals.values():
            if local.process in gbcast.concerned and not local.dead:
                local.gates.append(Gate(gbcast.number, gbcast.action.group, gbcast.locks))

    # -- ready

    def work(self) -> None:
        """Says of what can be concluded that this site is ready."""
        if self.held or not self._table.open:
            return
        me, early = self._here.site, self._early()
        for number, round_ in rounds(self._table.open).items():
            if number in early or number in self._said or me in round_[0].ready:
                continue
            if me in self._sites(round_):
                self._prepare(round_)

    def _early(self) -> set[int]:
        """Rounds before which a process here has still to pass another gate."""
        of = {gbcast.number: gbcast.round for gbcast in self._table.open}
        early: set[int] = set()
        for local in self._delivery.locals.values():
            places = [of.get(gate.number, 0) for gate in local.gates]
            early.update(place for place in places if place != places[0])
        return early

    def _sites(self, round_: Round) -> set[int]:
        """Those that have to be ready before it is concluded."""
        return {site for gbcast in round_ for site in self._table.sites(gbcast)}

    def _prepare(self, round_: Round) -> None:
        first = round_[0].number
        numbers = {gbcast.number for gbcast in round_}
        gated = [
            local for local in self._delivery.locals.values() if local.gates and local.gates[0].number in numbers
        ]
        if first not in self._pushes:
            self._pushes[first] = self._push(round_, gated)
        pushes, casts = self._pushes[first]
        if not pushes.arrived() or not all(map(self._is_prepared, round_)):
            return
        priority = self._here.priority()
        for local in gated:
            for gate in local.gates:
                if gate.number in numbers:
                    gate.counted, gate.proposed = True, priority
        self._said.add(first)
        self._control.conclude(Ready(first, priority, casts))

    def _is_prepared(self, gbcast: OpenGbcast) -> bool:
        """ABCASTs of this site's members have their place in the view that it ends, and what it brings may come."""
        group = gbcast.action.group
        if gbcast.locks and self._abcasts.unfinished(group, self._members(group)):
            return False
        return not gbcast.grows or self.may_grow(group)

    def _push(self, round_: Round, gated: list[Local]) -> tuple[Pushes, list[AttemptId]]:
        entries = self.received_by(gated)
        numbers = {gbcast.number for gbcast in round_}
        for group in sorted({gbcast.action.group for gbcast in round_ if gbcast.locks}):
            self.add_own(entries, group)
        for local in gated:
            for gate in local.gates:
                gate.counted = gate.counted or gate.number in numbers
        pushes = Pushes(self._here, self._pool)
        pushes.push(entries, self._sites(round_))
        return pushes, [entry.key for entry in entries.values()]

    def may_grow(self, group: str) -> bool:
        """What this site has to store before it lets processes into this group is stored."""
        return self._lasting.may_grow(group)

    def received_by(self, gated: Iterable[Local]) -> dict[CastId, Entry]:
        """Casts that these processes have received, or that wait for them here, and all that precede those: also what
        only passed through this site. Of causal ABCASTs that wait, only what precedes them."""
        processes = {local.process for local in gated}
        waiting = {entry.id for local in gated for entry in local.waiting}
        queued = {
            item.id for local in gated for queue in local.queues.values() for item in queue if item.entry is not None
        }
        found: dict[CastId, Entry] = {}
        for cast_id, entry in self._pool.entries.items():
            if cast_id in queued:
                self._add_causes(found, entry)
            elif cast_id in waiting or not processes.isdisjoint(entry.received):
                self._add_causes(found, entry)
                found[cast_id] = entry
        return found

    def _add_causes(self, found: dict[CastId, Entry], entry: Entry) -> None:
        for cast_id in entry.causes:
            cause = self._pool.entries.get(cast_id)
            if cause is not None:
                found[cast_id] = cause

    def add_own(self, found: dict[CastId, Entry], group: str) -> None:
        """Casts of members of this site to the group: they belong to the view that ends."""
        senders = set(self._members(group))
        for cast_id, entry in self._pool.entries.items():
            if entry.copy.group == group and entry.copy.sender in senders and cast_id.site == self._here.site:
                self._add_causes(found, entry)
                found[cast_id] = entry

    def _members(self, group: str) -> list[Process]:
        """Of this site; also the dead, whose casts are not everywhere yet."""
        return [local.process for local in self._delivery.locals.values() if group in local.groups]

    def take_ready(self, ready: Ready, site: int) -> None:
        for gbcast in self._table.open:
            if gbcast.number == gbcast.round == ready.number:
                gbcast.ready[site] = ready

    # -- conclude

    def conclude_ready(self) -> None:
        again = not self.held
        while again:
            again = False
            for round_ in rounds(self._table.open).values():
                said = round_[0].ready
                if not said.keys() >= self._sites(round_):
                    continue
                barrier = max((ready.priority for ready in said.values()), default=(0, 0))
                before = frozenset(cast for ready in said.values() for cast in ready.casts)
                for gbcast in round_:
                    self.conclude(gbcast, barrier, before)
                again = True
            if again:
                self.go_on()

    def go_on(self) -> None:
        """Something was concluded: what waited for that begins."""
        self.announce_again()
        waiting = [gbcast for gbcast in self._table.open if not gbcast.round]
        start(waiting, [gbcast for gbcast in self._table.open if gbcast.round])

    def hold(self) -> None:
        """A change of the site view begins: it concludes what is open, whoever was ready."""
        self.held = True
        for gbcast in self._table.open:
            gbcast.round = 0
            gbcast.ready = {}

    def release(self) -> None:
        """The change is over."""
        self.held = False
        for name in dict.fromkeys(gbcast.action.group for gbcast in self._table.open):
            self._drop_gates(self._table.groups[name])
        self.go_on()

    def conclude(self, gbcast: OpenGbcast, barrier: Priority, before: frozenset[AttemptId]) -> None:
        here = self._here
        if here.view is not None and self._table.is_premature(gbcast, here.view):
            self.void(gbcast, barrier, before)
            if not self._table.has_failed(gbcast.action.process, gbcast.action.group):
                self._premature.append(gbcast.action)
            return
        group = self._table.groups[gbcast.action.group]
        barrier = group.barrier = max(barrier, group.barrier)
        members = group.members()
        if gbcast.locks:
            self._accept(group.name, barrier, before)
        outcome = self._table.conclude(gbcast)
        if outcome.deleted:
            self._lasting.deleted(group.name)
            self._premature += self._table.release_waiting(group)
        here.pass_barrier(barrier)
        self._pushes.pop(gbcast.number, None)
        self._said.discard(gbcast.number)
        cast_id = gbcast.action.id if gbcast.action.kind == "cast" else None
        if cast_id is not None:
            self._await(cast_id, members)
        self._drop_gates(group)
        self.open_gates(gbcast.number, outcome, barrier, before, cast_id)

    def _accept(self, name: str, barrier: Priority, before: frozenset[AttemptId]) -> None:
        """Own casts to the group that come before it grows or ends are accepted, even if all who received them are
        lost before they can say so."""
        gained = self._table.groups[name].gained
        for cast in self._own.open.values():
            if cast.judged and cast.group == name and cast.view >= gained:
                first = AttemptId(*cast.id, cast.attempt) in before or self._abcasts.is_below(cast.id, barrier)
                cast.accepted = cast.accepted or first

    def _drop_gates(self, group: Group) -> None:
        """Processes that are no members any more are not asked for a priority: a barrier may lie below that of an
        earlier gate. So they have no gate, unless they join again before it."""
        among = set(group.members())
        for gbcast in group.open:
            if gbcast.grows:
                among.add(gbcast.action.process)
            for process in gbcast.concerned - among:
                local = self._delivery.living(process)
                if local is not None:
                    local.gates = [gate for gate in local.gates if gate.number != gbcast.number]
            gbcast.concerned &= among

    def announce_again(self) -> None:
        """Joins that came too early: failures that they have to wait for are decided now. And those that waited for
        what does not matter any more."""
        premature, self._premature = self._premature, []
        self.take_announce(premature)

    def void(self, gbcast: OpenGbcast, barrier: Priority, before: frozenset[AttemptId]) -> None:
        """It is dropped, alike everywhere: its gates open, and nothing happens."""
        self._table.drop(gbcast)
        self._drop_gates(self._table.groups[gbcast.action.group])
        self._pushes.pop(gbcast.number, None)
        self._said.discard(gbcast.number)
        self.open_gates(gbcast.number, Outcome(), barrier, before, None)

    def open_gates(
        self, number: int, outcome: Outcome, barrier: Priority, before: frozenset[AttemptId], cast_id: CastId | None
    ) -> None:
        view = self._here.view
        assert view is not None
        outcome.number, outcome.conf = view.number, view.conf
        count = 0
        for local in self._delivery.locals.values():
            gate = _gate(local, number)
            if gate is not None:
                gate.barrier, gate.before, gate.outcome = barrier, before, outcome
                count += 1
        self._unpassed[number] = (count, cast_id)
        self._report_got(number)

    def passed(self, gate: Gate) -> None:
        """One process is past it, or is over."""
        if gate.number in self._unpassed:
            count, cast_id = self._unpassed[gate.number]
            self._unpassed[gate.number] = (count - 1, cast_id)
            self._report_got(gate.number)

    def _report_got(self, number: int) -> None:
        count, cast_id = self._unpassed[number]
        if count:
            return
        del self._unpassed[number]
        if cast_id is None:
            return
        if cast_id.site == self._here.site:
            self.take_got(cast_id, self._here.site)
        elif self._here.knows(cast_id):
            self._here.send(cast_id.site, Got(cast_id))

    # -- the sender's site

    def _await(self, cast_id: CastId, members: Iterable[Process]) -> None:
        cast = self._own.open.get(cast_id)
        if cast is None:
            return
        got = self._got.pop(cast_id, frozenset())
        for site in sorted({process.site for process in members}):
            if self._here.alive(site) and site not in got:
                cast.parts.add(("got", site))
        self._own.done(cast, "gbcast")

    def take_got(self, cast_id: CastId, site: int) -> None:
        cast = self._own.open.get(cast_id)
        if cast is None:
            return
        if "gbcast" in cast.parts:  # it is concluded there, and not here yet
            self._got[cast_id] = self._got.get(cast_id, frozenset()) | {site}
        else:
            self._own.done(cast, ("got", site))

    # -- site views

    def adopt(self, departed: Iterable[int]) -> None:
        """A site view begins: what was said in the last one is said again, if it did not come through."""
        self._said.clear()
        for cast in list(self._own.open.values()):
            for site in departed:
                if ("got", site) in cast.parts:
                    self._own.done(cast, ("got", site))

    def reset(self) -> None:
        self.held = False
        self._pushes.clear()
        self._said.clear()
        self._premature.clear()
        self._unpassed.clear()
        self._got.clear()


def _gate(local: Local, number: int) -> Gate | None:
    for gate in local.gates:
        if gate.number == number:
            return gate
    return None
