"""How a site goes from one configuration to the next: gathering, forming, recovering, installing.

Given: beacons and the messages of rounds, and the present configuration, which it freezes and finishes.
Promised: every phase ends in bounded time, in a new configuration or back in gathering with fewer sites to wait for;
a number is synced before it is answered, and never answered twice; what was answered for and not installed is
reported as hidden; a fault undoes nothing that was done.

    operational ──suspicion, foreign site──▶ gathering ──proposal──▶ forming ──all states──▶ recovering
         ▲  ▲                                  │    ▲                   │                       │
         │  └──────nothing to change───────────┘    └──no answer, no progress, someone left─────┤
         └──────────────────────────────all have recovered: step 6──────────────────────────────┘
"""

from collections.abc import Callable
from enum import Enum

from msgspec import msgpack
from msgspec.structs import replace

from reconvene.core.effects import Changed, ConfKind
from reconvene.core.evs.configuration import Configuration
from reconvene.core.evs.recovery import Exchange, Recovery
from reconvene.core.membership.disputes import Disputes
from reconvene.core.membership.gathering import Gathering, members_of
from reconvene.core.membership.hearing import Hearing
from reconvene.core.membership.proposals import Proposal, acceptable, deserted, proven, well_formed
from reconvene.core.membership.round import Round
from reconvene.core.multicast.multicast import Counters, Multicast
from reconvene.core.options import Options
from reconvene.core.order.engine import OrderEngine
from reconvene.core.outgoing import Outgoing
from reconvene.core.record import Kept, Record
from reconvene.ids import ConfigurationId, configuration_number, counter_of, proposer_of
from reconvene.site_list import NextList, SiteList
from reconvene.wire.messages import Alive, Frame, Nack, Progress, Propose, Rebroadcast, State

__all__ = ["Changes", "MakeEngine", "Phase"]

MakeEngine = Callable[[int, tuple[int, ...], int], OrderEngine]
"""(configuration's number, members, this site's rank) to the engine that orders it."""

_REPAIR_BYTES = 65_536
"""What a site sends again at once in recovery; the rest when it is asked again."""


class Phase(Enum):
    OPERATIONAL = "operational"
    GATHERING = "gathering"
    FORMING = "forming"
    RECOVERING = "recovering"


class Changes:
    def __init__(
        self,
        site: int,
        sites: int,
        record: Record,
        options: Options,
        make_engine: MakeEngine,
        counters: Counters,
        out: Outgoing,
        now: int,
    ) -> None:
        self.site = site
        self.phase = Phase.OPERATIONAL
        self.round: Round | None = None
        self.recovery: Recovery | None = None
        self.obligations = 0
        """The sites whose messages this one must not discard (steps 1 and 5.c), as a mask."""
        self.kept = Kept(record, sites, out)
        self.disputes = Disputes()
        """Sites that report another list of sites."""
        self.early: list[Frame | Alive | Nack] = []
        """Of the configuration that is being installed, from members that have installed it already."""
        self.askers: set[int] = set()
        """Sites that need a beacon: their proposal rests on old reports, or they don't know that all recovered."""
        self.hearing = Hearing(site, sites, record.incarnation, record.number, options.timing, record.token)
        self.gathering = Gathering(self.hearing, options.timing, now)
        self._options = options
        self._timing = options.timing
        self._make_engine = make_engine
        self._counters = counters
        self._out = out
        self._joined: dict[int, int] = {}
        """The version of each member's report when it answered for the present configuration."""
        self._discarded: list[int] = []
        self.agreed = self.kept.sites
        """What the members of the present configuration knew of the list together when they formed it."""
        self.current = self._install(record.number, (site,), (record.incarnation,), now)
        self._note_list()

    @property
    def sites(self) -> SiteList:
        """What this site knows of the cluster's list."""
        return self.kept.sites

    def learn(self, told: SiteList) -> None:
        """What a beacon tells of the list, which does not contradict what this site knows."""
        self.kept.learn(replace(told, disputed=False))
        self._note_list()

    def propose(self, proposal: NextList) -> None:
        self.kept.propose(proposal)

    def used(self, version: int, number: int, chosen: NextList | None) -> None:
        """The primary configuration of this number is used, and all its members have stored this version of the
        list, and the proposal for the next."""
        self.kept.used(version, number, chosen)
        self._note_list()

    def _note_list(self) -> None:
        sites = self.sites
        if sites.managed:
            numbers = len(sites.names)
            self.hearing.list_changed(numbers, ((1 << numbers) - 1) & ~sites.listed)

    @property
    def answered(self) -> int:
        """The highest configuration number that this site has used or answered."""
        return self.kept.answered

    # -- a turn

    def turn(self, now: int) -> None:
        changed = self.hearing.take_changed()
        if self.round is not None:
            self._turn_round(self.round, changed, now)
        if self.round is None and (changed or self.phase is Phase.GATHERING):
            self._look(changed, now)

    def deadline(self) -> int | None:
        if self.round is not None:
            give_up_at = self._give_up_at(self.round)
            return min(self.round.retry_at, give_up_at) if self.round.answered else give_up_at
        if self.phase is Phase.GATHERING:
            return self.gathering.deadline()
        return None

    def slept(self, gap_ns: int, now: int) -> None:
        """This site stood still for so long: no other site is suspected for that time."""
        self.hearing.slept(gap_ns, now)
        self.current.multicast.slept(gap_ns)
        self.gathering.slept(gap_ns)
        if self.round is not None:
            self.round.progress_at += gap_ns

    # -- gathering

    def _look(self, changed: bool, now: int) -> None:
        """Looks at the reports of all sites, and does what follows from them."""
        gathering = self.gathering
        gathering.look(changed, now)
        if not self._needs_change():
            if self.phase is Phase.GATHERING:
                self.phase = Phase.OPERATIONAL
            return
        if self.phase is not Phase.GATHERING:
            self._gather("the reports call for another configuration", now)
        if gathering.overdue(now):
            if gathering.proposer != self.site:
                self.hearing.leave_out(gathering.proposer, now)
        elif gathering.ready(now):
            self._propose(members_of(gathering.outlook.clique), now)

    def _gather(self, reason: str, now: int) -> None:
        self.phase = Phase.GATHERING
        self.gathering.begin(reason, now)

    def _needs_change(self) -> bool:
        """The present configuration is not what it should be, or a member of it can't go on with it."""
        current = self.current
        if current.frozen or members_of(self.gathering.outlook.clique) != current.members:
            return True
        reports = self.hearing.reports
        for site, incarnation in zip(current.members, current.incarnations, strict=True):
            if self.hearing.incarnations[site] != incarnation:
                return True
            report = reports.get(site)
            if report is None or report.inc != incarnation or site == self.site:
                continue
            if report.conf == current.number:
                if report.frozen:
                    return True
            elif report.version > self._joined[site] and report.attempt != current.number:
                # It went on to another one, or gave this one up after others had installed it.
                return True
        return False

    def renew(self, now: int) -> bool:
        """Proposes a configuration with the same members, unless a change is under way anyway: the layer above wants
        everyone to begin again, at one point of the order. Returns whether it did."""
        if self.phase is not Phase.OPERATIONAL or self.round is not None:
            return False
        self._propose(self.current.members, now)
        return True

    # -- forming

    def _propose(self, members: tuple[int, ...], now: int) -> None:
        counter = counter_of(max(self.hearing.highest(), self.answered)) + 1
        number = configuration_number(counter, self.site)
        incarnations = tuple(self.hearing.incarnations[site] for site in members)
        self._begin(number, self.site, members, incarnations, now)

    def receive_proposal(
        self, number: int, proposer: int, members: tuple[int, ...], incarnations: tuple[int, ...], now: int
    ) -> None:
        """Answers it if it is acceptable; else its sender needs newer reports."""
        if self.round is not None and self.round.number == number:
            return
        proposal, answered = Proposal(number, proposer, members, incarnations), self.answered
        if not well_formed(proposal, self.site, self.kept.incarnation, self.hearing.sites, answered):
            self._counters.malformed += 1
            return
        if not acceptable(proposal, self.hearing, answered):
            self.askers.add(proposer)
            return
        if self.round is not None:
            if not set(members) > set(self.round.members) and proposer not in self.round.members:
                return
            self._give_up("a newer proposal", now)
        self._begin(number, proposer, members, incarnations, now)

    def _begin(
        self, number: int, proposer: int, members: tuple[int, ...], incarnations: tuple[int, ...], now: int
    ) -> None:
        """Every member, the proposer too, syncs the number before it proposes or answers it: so it is never used for
        two configurations."""
        round_ = Round(number, proposer, members, incarnations, self.sites, now)
        reports = self.hearing.reports
        round_.baseline = {site: reports[site].version for site in members if site in reports}
        round_.token = self.kept.begin(number, members)
        self.round = round_
        self.recovery = None
        self.phase = Phase.FORMING
        self.hearing.update(attempt=number, highest=number)

    def synced(self, token: int, now: int) -> None:
        self.kept.synced(token)
        round_ = self.round
        if round_ is not None and token == round_.token and not round_.answered:
            self._answer(round_, now)

    def _answer(self, round_: Round, now: int) -> None:
        self.current.freeze()
        self.hearing.update(frozen=True)
        state = self.current.state(
            round_.number, self.site, round_.members, round_.incarnations,
            self.hearing.report.version, self.obligations,
        )  # fmt: skip
        if self.sites.names:
            state.sites = replace(self.sites, disputed=bool(self.disputes.all))
        # The exchange is decided from states as they were sent, not as this site goes on.
        state = msgpack.decode(msgpack.encode(state), type=State)
        round_.answered = True
        round_.add_state(state, now)
        # The proposer's state is also the proposal: it names number and members.
        self._out.send(self._others(round_), state)
        round_.retry_at = now + self._retry_ns(round_)
        if round_.complete():
            self._recover(round_, now)

    def receive_state(self, state: State, now: int) -> None:
        if state.site == self.site:
            return
        members, incarnations = tuple(state.members), tuple(state.incs)
        if self.round is None or self.round.number != state.number:
            # The proposal was lost, or overtaken by an answer to it.
            self.receive_proposal(state.number, proposer_of(state.number), members, incarnations, now)
        round_ = self.round
        if round_ is None or round_.number != state.number:
            return
        if not self.current.matches(state, self._options.limits.ahead_frames):
            self._counters.malformed += 1
            return
        if round_.add_state(state, now) and round_.answered and round_.complete():
            self._recover(round_, now)

    # -- recovering

    def _recover(self, round_: Round, now: int) -> None:
        """Steps 4 and 5.a: which sites go on together, and what they lack of each other."""
        self.phase = Phase.RECOVERING
        together = [s for _, s in sorted(round_.states.items()) if s.conf == self.current.number]
        self.recovery = Recovery(Exchange(together, self.site))
        budget = _REPAIR_BYTES
        for sites, frame in self.recovery.first():
            budget -= self._rebroadcast(round_, sites, frame, now)
            if budget < 0:
                break
        round_.retry_at = now + self._retry_ns(round_)
        self._check_recovered(round_, now)

    def _rebroadcast(self, round_: Round, sites: tuple[int, ...], place: tuple[int, int], now: int) -> int:
        assert self.recovery is not None
        frame = self.current.multicast.held(*place)
        if frame is None:
            # Stable long ago: a site that now lacks it has acknowledged it before.
            self._counters.malformed += 1
            return 0
        to = tuple(site for site in sites if site != self.site)
        self._out.send(to, Rebroadcast(round_.number, frame))
        for site in to:
            self.recovery.sent(site, place, now)
        return sum(map(len, frame.messages)) + 64

    def receive_rebroadcast(self, datagram: Rebroadcast, now: int) -> None:
        round_ = self.round
        if round_ is None or self.recovery is None or datagram.number != round_.number:
            return
        frame = datagram.frame
        if frame.conf != self.current.number or not self.current.multicast.sane(frame):
            self._counters.malformed += 1
        elif self.recovery.takes((frame.sender, frame.seq)):
            self.current.multicast.store(frame)
            round_.progress_at = now
            self._check_recovered(round_, now)

    def _check_recovered(self, round_: Round, now: int) -> None:
        """Step 5.c: it has all that any of them has; others may rely on it from here on."""
        assert self.recovery is not None
        if self.recovery.lacking or round_.recovered >> self.site & 1:
            return
        self.current.multicast.accept_stored(now)
        self.obligations |= self.recovery.exchange.obligations()
        round_.add_recovered(self.site, now)
        self._send_progress(round_)
        self._check_installed(round_, now)

    def receive_progress(self, progress: Progress, now: int) -> None:
        site = progress.site
        if site == self.site:
            return
        if progress.number == self.current.number and site in self.current.members:
            self.askers.add(site)
        round_ = self.round
        if round_ is None or progress.number != round_.number or site not in round_.members:
            return
        if progress.inc != round_.incarnations[round_.members.index(site)]:
            return
        if round_.answered and not progress.states >> self.site & 1:
            self._out.send((site,), round_.states[self.site])
        if progress.recovered:
            round_.add_recovered(site, now)
        elif self.recovery is not None and progress.missing:
            trip = self.hearing.round_trips.smoothed_ns[site]
            budget = _REPAIR_BYTES
            for place in self.recovery.repair(site, progress.missing, now, trip):
                budget -= self._rebroadcast(round_, (site,), place, now)
                if budget < 0:
                    break
        self._check_installed(round_, now)

    def _send_progress(self, round_: Round) -> None:
        recovered = bool(round_.recovered >> self.site & 1)
        missing = self.recovery.missing() if self.recovery is not None else []
        self._out.send(
            self._others(round_),
            Progress(round_.number, self.site, self.kept.incarnation, round_.states_mask(), missing, recovered),
        )

    def _turn_round(self, round_: Round, changed: bool, now: int) -> None:
        if changed:
            if round_.recovered >> self.site & 1 and proven(round_, self.hearing):
                round_.recovered = round_.mask
                self._check_installed(round_, now)
                return
            if deserted(round_, self.hearing, self._others(round_)):
                self._give_up("a member gave up or is no longer heard", now)
                return
        if now >= self._give_up_at(round_):
            lacked = self.recovery.lacked_from() if self.recovery is not None else set()
            for site in round_.blame(self.site, lacked):
                self.hearing.leave_out(site, now)
            self._give_up("no progress", now)
            return
        if now >= round_.retry_at and round_.answered:
            self._repeat(round_, now)

    def _repeat(self, round_: Round, now: int) -> None:
        """A datagram may have been lost. Members that have sent their states know of the round, and say what they
        lack."""
        round_.retry_at = now + self._retry_ns(round_)
        if round_.proposer == self.site and not round_.complete():
            unanswered = tuple(site for site in round_.members if site not in round_.states)
            proposal = Propose(round_.number, self.site, list(round_.members), list(round_.incarnations))
            self._out.send(unanswered, proposal)
        self._send_progress(round_)

    def _give_up_at(self, round_: Round) -> int:
        lacking = self.recovery is not None and bool(self.recovery.lacking)
        longest = self.hearing.round_trips.longest_ns(round_.mask)
        return round_.progress_at + round_.patience_ns(self._timing, longest, lacking)

    def _retry_ns(self, round_: Round) -> int:
        return max(self._timing.retry_every_ns, self.hearing.round_trips.longest_ns(round_.mask) * 5 // 4)

    def _others(self, round_: Round) -> tuple[int, ...]:
        return tuple(site for site in round_.members if site != self.site)

    def _give_up(self, reason: str, now: int) -> None:
        """Back to gathering. What others may have installed is reported as hidden."""
        round_ = self.round
        assert round_ is not None
        if round_.answered:
            conf = ConfigurationId.regular(round_.number)
            self._out.events.append(Changed(ConfKind.HIDDEN, conf, round_.members))
        self.round = None
        self.recovery = None
        self.early.clear()
        self.hearing.update(attempt=0)
        self.gathering.failures += 1
        self._gather(reason, now)

    # -- installing

    def receive_early(self, datagram: Frame | Alive | Nack, now: int) -> bool:
        """Holds a frame of the configuration that is being installed, which proves that all have recovered."""
        round_ = self.round
        if round_ is None or datagram.conf != round_.number or not round_.recovered >> self.site & 1:
            return False
        if len(self.early) < self._options.limits.early_frames:
            self.early.append(datagram)
        else:
            self._counters.overflow += 1
        round_.recovered = round_.mask
        self._check_installed(round_, now)
        return True

    def _check_installed(self, round_: Round, now: int) -> None:
        if round_.all_recovered() and self.recovery is not None:
            # Step 6, one local action.
            self.current.finish(self.recovery.exchange, round_.number, now)
            self._discarded = [s for s in self.current.discarded() if self.obligations >> s & 1]
            self._joined = {site: state.version for site, state in round_.states.items()}
            self.gathering.failures = 0
            self.round = None
            self.recovery = None
            self.obligations = 0
            self.phase = Phase.OPERATIONAL
            self.hearing.update(conf=round_.number, attempt=0, frozen=False)
            self.agreed = round_.sites or self.sites
            self.kept.install(round_.number, round_.members, self.agreed)
            self._note_list()
            self.current = self._install(round_.number, round_.members, round_.incarnations, now)

    def _install(
        self, number: int, members: tuple[int, ...], incarnations: tuple[int, ...], now: int
    ) -> Configuration:
        conf = ConfigurationId.regular(number)
        self._out.events.append(Changed(ConfKind.REGULAR, conf, members, sites=self.agreed))
        rank = members.index(self.site)
        engine = self._make_engine(number, members, rank)
        multicast = Multicast(number, len(members), rank, self._timing, self._options.limits, self._counters, now)
        limit = self._options.limits.message_bytes
        return Configuration(number, members, incarnations, multicast, engine, self._out.events, limit)

    def invariants(self) -> None:
        # A causally complete frame is never discarded, so step 6.a can't touch an obligation.
        assert not self._discarded, f"messages of {self._discarded} were discarded in spite of an obligation"
        assert self.current.number <= self.answered
        assert (self.round is None) == (self.phase in (Phase.OPERATIONAL, Phase.GATHERING))
        assert self.hearing.report.frozen == self.current.frozen
        if self.round is not None:
            assert self.round.number == self.answered == self.hearing.report.attempt
        self.current.invariants()
