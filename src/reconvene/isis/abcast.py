"""ABCAST: one order of the casts of a label, by priorities (4.3.1).

    ASK       the coordinator, the sender's site, asks every site with destinations for a priority
    PROPOSE   each puts the cast into its queues, above all that it has seen, and answers
    COMMIT    the coordinator chooses the highest; then each delivers by it

Before a site view is adopted, every site tells all others which final priorities it knows: so each of them stays,
even if all who knew it are lost. Where the coordinator of a cast that has none is lost, the sites that have the cast
send it to the oldest site of its destinations, which asks again. Only sites that have adopted the new site view
answer.

A causal ABCAST asks by a CBCAST, so that it follows what its sender has seen.
"""

from collections.abc import Iterable, Iterator

from reconvene.core.groups.events import Process
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import CastId
from reconvene.isis.here import Here, SiteView
from reconvene.isis.local import AbEntry
from reconvene.isis.messages import Ask, AttemptId, Commit, Copy, Decided, Priority, Propose, Raise, Takeover
from reconvene.isis.own import OwnCast, OwnCasts
from reconvene.isis.pool import Entry, Pool
from reconvene.isis.receipts import Receipts
from reconvene.isis.table import Table

__all__ = ["Abcasts"]

_TOLD_TOGETHER = 16_384
"""Final priorities in one control message."""


class _Round:
    """One coordinator's run of the protocol for one attempt."""

    __slots__ = ("ask", "awaiting", "cast", "highest", "least", "records")

    def __init__(self, ask: Ask, awaiting: set[int], highest: Priority, cast: OwnCast | None) -> None:
        self.ask = ask
        self.awaiting = awaiting
        """Sites that have not proposed."""
        self.highest = highest
        self.least: Priority = (0, 0)
        """Where a site is lost that may have had a higher one: the highest barrier that it may have passed before."""
        self.cast = cast
        """None: taken over from a lost site."""
        self.records: dict[int, int] | None = None
        """Once it is committed: the record that says so, by site."""


class Abcasts:
    def __init__(
        self, here: Here, table: Table, own: OwnCasts, pool: Pool, delivery: Delivery, receipts: Receipts
    ) -> None:
        self._here = here
        self._table = table
        self._own = own
        self._pool = pool
        self._delivery = delivery
        self._receipts = receipts
        self.items: dict[CastId, AbEntry] = {}
        """ABCASTs with destinations here that their origin has not disposed of."""
        self._rounds: dict[CastId, _Round] = {}
        """Of this site's own."""
        self._taken: dict[AttemptId, _Round] = {}
        """Taken over. Of a cast that went out again, some destinations may have only the one attempt, others only the
        other: both are decided."""
        self.asked_early: dict[AttemptId, tuple[Ask, int]] = {}
        """Causal ones that another site has taken over, before their CBCAST is here."""
        self._deferred: list[AbEntry] = []
        """Causal ones that get their first priority once a gate is passed."""
        self._changing = False
        """Casts of lost sites are being exchanged: all of them are kept."""
        self._orphaned = False
        """There may be casts whose origin is gone."""
        self._floors = 0
        """The last change of a floor that was heard of."""

    # -- the coordinator

    def begin(self, cast: OwnCast, ask: Ask) -> None:
        """A causal one goes out as a CBCAST; its copies here and there are asked by that."""
        here = self._here
        sites = here.sites(ask.to)
        # Its own priority counts even where it has no destination: so the cast comes after all that its sender saw.
        self._rounds[cast.id] = _Round(ask, set(sites), here.priority(), cast)
        cast.parts.add("priority")
        if not ask.causal:
            self._ask(ask, sites)
        self._decide(self._rounds[cast.id])

    def _ask(self, ask: Ask, sites: Iterable[int]) -> None:
        here = self._here
        for site in sites:
            if site != here.site:
                here.send(site, ask)
        if here.site in sites:
            self._take(ask, here.site)

    def receive_proposal(self, proposal: Propose, site: int) -> None:
        self._here.seen(proposal.priority[0])
        key = AttemptId(*proposal.id, proposal.attempt)
        run = self._taken.get(key) if proposal.round else self._rounds.get(proposal.id)
        if run is None or run.ask.attempt != proposal.attempt or run.ask.round != proposal.round:
            return
        if run.records is not None:
            return  # it is decided
        run.highest = max(run.highest, proposal.priority)
        if proposal.deferred:
            self._raise(run)
            return
        run.awaiting.discard(site)
        self._decide(run)

    def _raise(self, run: _Round) -> None:
        """Lets gates be passed for which the cast would otherwise be waited for, while it waits for another gate."""
        here = self._here
        bound = Raise(run.ask.id, run.ask.attempt, run.highest)
        self.receive_raise(bound)
        for site in here.sites(run.ask.to):
            if site != here.site:
                here.send(site, bound)

    def _decide(self, run: _Round) -> None:
        if run.awaiting or run.records is not None:
            return
        here = self._here
        if run.highest < run.least:
            run.highest = here.priority()
        commit = Commit(run.ask.id, run.ask.attempt, run.highest)
        run.records = {}
        for site in here.sites(run.ask.to):
            if site == here.site:
                self._commit(commit)
            else:
                run.records[site] = here.send(site, commit)
                if run.cast is not None:
                    self._own.wait_for(run.cast, site, run.records[site])
        if run.cast is not None:
            self._own.done(run.cast, "priority")

    def undecided(self, cast_id: CastId) -> bool:
        """One of this site's own has no final priority yet."""
        run = self._rounds.get(cast_id)
        return run is not None and run.records is None

    def is_below(self, cast_id: CastId, barrier: Priority) -> bool:
        """One of this site's own has a final priority, below the barrier."""
        run = self._rounds.get(cast_id)
        return run is not None and run.records is not None and run.highest < barrier

    def unfinished(self, group: str, members: Iterable[Process]) -> bool:
        """Some ABCAST of these processes to the group is not committed at all its destinations."""
        senders = frozenset(members)
        return any(
            run.ask.group == group and run.ask.sender in senders and not self._is_committed(run)
            for run in self._rounds.values()
        )

    def settle(self, process: Process) -> bool:
        """Sees to it that every destination knows the place of what the process has received, and returns whether all
        do. This site may have heard of it from a coordinator that is lost before the others hear of it."""
        told = [self._tell(item) for item in self.items.values() if item.final and process in item.handled]
        return all(told)

    def _tell(self, item: AbEntry) -> bool:
        run = self._rounds.get(item.id)
        if run is not None:
            return self._is_committed(run)
        here = self._here
        knowing = (here.site, item.coordinator)
        for site in here.sites(item.ask.to):
            if site not in knowing and site not in item.told:
                item.told[site] = here.send(site, Commit(item.id, item.ask.attempt, item.priority))
        arrived = here.channels.arrived
        return all(arrived(site) >= record for site, record in item.told.items())

    def decided(self, view: int) -> Iterator[Decided]:
        """What this site knows, before it adopts this site view."""
        commits = [Commit(item.id, item.ask.attempt, item.priority) for item in self.items.values() if item.final]
        for first in range(0, len(commits) or 1, _TOLD_TOGETHER):
            last = first + _TOLD_TOGETHER >= len(commits)
            yield Decided(view, commits[first : first + _TOLD_TOGETHER], last)

    def learn(self, decided: Decided) -> None:
        """Another site knows these."""
        for commit in decided.casts:
            self._commit(commit)

    def _is_committed(self, run: _Round) -> bool:
        arrived = self._here.channels.arrived
        return run.records is not None and all(arrived(site) >= record for site, record in run.records.items())

    # -- the destinations

    def receive_ask(self, ask: Ask, site: int) -> None:
        self._here.seen(ask.clock)
        view = self._here.view
        if ask.round and (view is None or ask.round != view.number):
            return  # of an earlier site view: its coordinator asks again in this one
        self._take(ask, site)

    def _take(self, ask: Ask, coordinator: int) -> None:
        item = self.items.get(ask.id)
        if item is not None and item.ask.attempt >= ask.attempt:
            if item.ask.attempt == ask.attempt:
                item.ask, item.coordinator = ask, coordinator
                if item.priority != (0, 0):
                    self._propose(item, ask.round)
            elif ask.round:
                self._answer(coordinator, _nothing(ask))
            return
        here = self._here
        if item is None and ask.round and self._pool.is_old(ask.id):
            # Whoever took it over has an earlier attempt, and has not heard yet that a later one is everywhere.
            self._answer(coordinator, _nothing(ask))
            return
        if ask.causal:
            self.asked_early[AttemptId(*ask.id, ask.attempt)] = (ask, coordinator)
            return
        if item is not None:
            self._forget(item)
        self._enqueue(AbEntry(ask, coordinator, here.local(ask.to), None), ask.round)

    def arrive(self, entry: Entry) -> None:
        """The CBCAST of a causal one is complete."""
        ask, coordinator = self.asked_early.pop(entry.key, (ask_of(entry.copy), entry.id.site))
        for key in [key for key in self.asked_early if key[:3] == entry.id and key.attempt < ask.attempt]:
            earlier, asking = self.asked_early.pop(key)
            self._answer(asking, _nothing(earlier))
        old = self.items.get(entry.id)
        if old is not None:
            self._forget(old)
        item = AbEntry(ask, coordinator, entry.local, entry)
        view = self._here.view
        if not self._here.knows(entry.id) and view is not None:
            self._enqueue(item, ask.round)
            self._give_up(item, view)
        elif self._is_deferred(item):
            self.items[item.id] = item
            self._deferred.append(item)
            self._propose_later(item)
        else:
            self._enqueue(item, ask.round)

    def _enqueue(self, item: AbEntry, round_: int) -> None:
        self.items[item.id] = item
        item.priority = self._here.priority()
        self._delivery.enqueue(item)
        self._propose(item, round_)

    def _propose(self, item: AbEntry, round_: int) -> None:
        self._answer(item.coordinator, Propose(item.id, item.ask.attempt, item.priority, round_))

    def _propose_later(self, item: AbEntry) -> None:
        bound = self._here.priority()
        proposal = Propose(item.id, item.ask.attempt, bound, item.ask.round, deferred=True)
        self._answer(item.coordinator, proposal)

    def _answer(self, coordinator: int, proposal: Propose) -> None:
        if coordinator == self._here.site:
            self.receive_proposal(proposal, self._here.site)
        elif self._here.alive(coordinator):
            self._here.send(coordinator, proposal)

    def _is_deferred(self, item: AbEntry) -> bool:
        """This site has counted what comes before a gate: what it proposes from now on comes behind the gate, and so
        must all that precedes it. But members' own casts of a group that grows or ends come before, and so do all
        casts of lost sites. Where a round has several groups, such a cast comes before all of it, also at a
        destination that has left the group since and has a gate of another one: its sender's site is not ready
        before the cast has its place."""
        if not self._here.knows(item.id):
            return False
        group = None if item.ask.judged else item.ask.group
        locking = [] if group is None else self._table.locking(group)
        for process in item.local:
            local = self._delivery.living(process)
            if local is None:
                continue
            before = [
                gate for gate in local.gates if gate.locks and gate.group == item.ask.group and not item.ask.judged
            ]
            if local.flush is not None:  # it concludes the gates that stood when the change began
                numbers = [*(gate.number for gate in before), *(gbcast.number for gbcast in locking)]
                if local.counted and not any(number <= local.last_gate for number in numbers):
                    return True
            elif any(gate.counted for gate in before):
                continue  # the other gates that are counted belong to the same round: it comes before all of them
            else:
                counted = {gate.number for gate in local.gates if gate.counted}
                rounds = {gbcast.round for gbcast in self._table.open if gbcast.number in counted}
                if counted and not any(gbcast.round in rounds for gbcast in locking):
                    return True
        return False

    def release_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for item in deferred:
            if item.disposed:
                continue
            if self._is_deferred(item):
                self._deferred.append(item)
            else:
                self._enqueue(item, item.ask.round)

    def restate(self) -> None:
        """A GBCAST was concluded: what is deferred comes after it."""
        for item in self._deferred:
            if not item.disposed:
                self._propose_later(item)

    def receive_raise(self, bound: Raise) -> None:
        self._here.seen(bound.priority[0])
        item = self.items.get(bound.id)
        if item is not None and item.ask.attempt == bound.attempt and not item.final and item.priority != (0, 0):
            item.priority = max(item.priority, bound.priority)

    def receive_commit(self, commit: Commit, site: int, number: int) -> None:
        self._commit(commit)
        item = self.items.get(commit.id)
        self._receipts.add(site, number, item if item is not None and item.coordinator == site else None)

    def _commit(self, commit: Commit) -> None:
        self._here.seen(commit.priority[0])
        item = self.items.get(commit.id)
        if item is not None and item.ask.attempt == commit.attempt and not item.final:
            item.priority = commit.priority
            item.final = True
            if item.entry is not None:
                item.entry.undecided = False

    # -- lost coordinators

    def depart(self, sites: Iterable[int]) -> None:
        self._changing = self._orphaned = True
        for run in list(self._rounds.values()):
            if not run.awaiting.isdisjoint(sites):
                run.awaiting.difference_update(sites)
                run.least = self._here.barrier
            for site in sites:
                if run.records is not None:
                    run.records.pop(site, None)
            self._decide(run)
        for item in self.items.values():
            for site in sites:
                item.told.pop(site, None)

    def take_over(self) -> None:
        """This site has adopted a site view in which coordinators are missing."""
        here = self._here
        view = here.view
        assert view is not None
        self._taken.clear()
        for item in list(self.items.values()):
            if not item.final and not here.knows(item.id) and here.sites(item.ask.to):
                self._give_up(item, view)

    def _give_up(self, item: AbEntry, view: SiteView) -> None:
        """Its coordinator is lost: the oldest site of its destinations takes it over."""
        here = self._here
        if item.entry is not None:
            item.entry.undecided = not item.final  # it may be decided at once, if this site was the last to have it
            for site in here.sites(item.ask.to):
                if site != here.site:
                    self._pool.offer(item.entry, site)
        ask = _again(item.ask, view.number)
        coordinator = view.oldest(here.sites(item.ask.to))
        if coordinator == here.site:
            self._begin_takeover(ask)
        else:
            here.send(coordinator, Takeover(ask))

    def receive_takeover(self, ask: Ask) -> None:
        view = self._here.view
        if view is not None and ask.round == view.number and not self._here.knows(ask.id):
            self._begin_takeover(ask)

    def _begin_takeover(self, ask: Ask) -> None:
        key = AttemptId(*ask.id, ask.attempt)
        if key in self._taken:
            return
        here = self._here
        sites = here.sites(ask.to)
        # By the priorities that the destinations proposed before: so it mostly gets the place that the lost
        # coordinator had chosen.
        run = self._taken[key] = _Round(ask, set(sites), (0, 0), None)
        run.least = here.barrier
        self._ask(ask, sites)

    @property
    def taken_over(self) -> bool:
        """No ABCAST of a lost site waits here, nor anywhere for this site."""
        return all(self._is_committed(run) for run in self._taken.values()) and all(
            item.final or self._here.knows(item.id) for item in self.items.values()
        )

    # -- gone

    def forget(self, cast_id: CastId) -> None:
        """One of this site's own: it is everywhere, or superseded."""
        self._rounds.pop(cast_id, None)
        item = self.items.get(cast_id)
        if item is not None:
            self._forget(item)

    def _forget(self, item: AbEntry) -> None:
        item.disposed = True
        self._delivery.withdraw(item)
        del self.items[item.id]

    def collect(self) -> None:
        """What its origin says is everywhere; and, of origins that are gone, what is delivered here."""
        here = self._here
        if self._floors == here.channels.floor_changes and not self._orphaned:
            return
        self._floors = here.channels.floor_changes
        self._orphaned = self._changing
        for item in list(self.items.values()):
            cast_id = item.id
            if cast_id.site == here.site:
                continue
            if here.knows(cast_id):
                if cast_id.counter < here.channels.floor_of(cast_id.site):
                    self._forget(item)
            elif item.released and not self._changing:
                self._forget(item)
            else:
                self._orphaned = True

    def end_departure(self) -> None:
        self._changing = False
        self._taken.clear()
        self.asked_early.clear()

    def reset(self) -> None:
        self.items.clear()
        self._rounds.clear()
        self._taken.clear()
        self.asked_early.clear()
        self._deferred.clear()


def ask_of(copy: Copy) -> Ask:
    """A causal ABCAST as its CBCAST describes it."""
    return Ask(
        copy.id, copy.attempt, copy.sender, copy.queue or "", copy.to, copy.group, copy.view, copy.replies,
        copy.clock, copy.payload, copy.judged, causal=True,
    )  # fmt: skip


def _nothing(ask: Ask) -> Propose:
    """The answer of a site that this attempt does not concern: it is everywhere, or there is a later one."""
    return Propose(ask.id, ask.attempt, (0, 0), ask.round)


def _again(ask: Ask, view: int) -> Ask:
    return Ask(
        ask.id, ask.attempt, ask.sender, ask.queue, ask.to, ask.group, ask.view, ask.replies, ask.clock, ask.payload,
        ask.judged, ask.causal, view,
    )  # fmt: skip
