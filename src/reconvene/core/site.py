"""A site: the layers put together, sans-IO.

A turn is any number of `receive`, `submit`, `synced` and `tick`, then one `flush`, which gives what is to be done.
`now` is the site's clock in ns and never goes back.
"""

from collections.abc import Collection, Sequence
from functools import partial

from msgspec import Raw, msgpack

from reconvene.core.changes import KEY, Changes, Phase, Record
from reconvene.core.effects import Effects
from reconvene.core.evs.configuration import Configuration
from reconvene.core.membership.disputes import Disputes
from reconvene.core.multicast.multicast import Counters
from reconvene.core.multicast.packing import Outbox
from reconvene.core.options import Options
from reconvene.core.order import make_engine
from reconvene.core.outgoing import Outgoing
from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES, Service, configuration_number, counter_of
from reconvene.site_list import SiteList
from reconvene.wire.codec import decode, decode_reports, encode
from reconvene.wire.messages import (
    VERSION,
    Alive,
    Beacon,
    Frame,
    Nack,
    Progress,
    Propose,
    Rebroadcast,
    Relay,
    State,
)

__all__ = ["KEY", "Site", "boot", "incarnation_of", "replacement", "stored_list"]

_NEWS_GAP_NS = 5_000_000
"""What is new is told at once, but not more often than this."""


def boot(stored: bytes | None, ordinal: int, token: int = 0, sites: SiteList | None = None) -> bytes:
    """What is to be synced before a site starts, given what its storage holds: a new incarnation, a new number.

    `token`: drawn at random for this start. 0: it has none, and an older storage goes unnoticed.
    `sites`: what the site knows of the cluster's list, its storage and its file taken together (`read_list`).
    """
    record = Record(0, 0) if stored is None else msgpack.decode(stored, type=Record)
    number = configuration_number(counter_of(record.number) + 1, ordinal)
    return msgpack.encode(Record(record.incarnation + 1, number, token, sites or record.sites))


def replacement(incarnation: int, number: int, sites: SiteList | None = None) -> bytes:
    """A record for a site whose storage is lost: what others know, of the site and of the cluster's list, stands in
    for what it has forgotten. `boot` goes on from there."""
    return msgpack.encode(Record(incarnation, number, sites=sites))


def incarnation_of(record: bytes) -> int:
    """Of what `boot` gave."""
    return msgpack.decode(record, type=Record).incarnation


def stored_list(stored: bytes | None) -> SiteList | None:
    """What a site's record says of the cluster's list."""
    return None if stored is None else msgpack.decode(stored, type=Record).sites


class Site:
    def __init__(
        self,
        options: Options,
        ordinal: int,
        sites: int,
        record: bytes,
        now: int,
        peers: Collection[int] | None = None,
    ) -> None:
        """`sites`: how many numbers there are. `peers`: the other sites that datagrams can be sent to; default:
        all."""
        if not 0 <= ordinal < sites <= MAX_SITES:
            raise ValueError(f"ordinal {ordinal} of {sites} sites: at most {MAX_SITES} sites expected")
        booted = msgpack.decode(record, type=Record)
        self.options = options
        self.ordinal = ordinal
        self.incarnation = booted.incarnation
        self.counters = Counters()
        self.outbox = Outbox(options.limits)
        self._out = Outgoing()
        self.changes = Changes(
            ordinal, sites, booted, options, partial(make_engine, options), self.counters, self._out, now
        )
        self._timing = options.timing
        self._others = tuple(site for site in sorted(range(sites) if peers is None else peers) if site != ordinal)
        self._sites_told: tuple[SiteList, bytes] | None = None
        self._current = self.changes.current
        self._peers: tuple[int, ...] = ()
        self._counter = 1
        """Of the next message."""
        self._last = now
        self._beacon_at = now
        self._beaconed_at = now - _NEWS_GAP_NS
        self._watch_at = now
        self._told = 0
        """The version of this site's report that the last beacon told."""
        self._probed_by: set[int] = set()
        self._install(self.changes.current)

    # -- what a shell asks

    @property
    def current(self) -> Configuration:
        return self._current

    @property
    def configuration(self) -> str:
        """The id of the configuration that the site is in; a transitional one lasts for no time at all."""
        return self._current.id

    @property
    def members(self) -> tuple[int, ...]:
        return self._current.members

    @property
    def primary(self) -> bool:
        """The present configuration may be the primary component: it holds all majorities that it needs."""
        return self.changes.agreed.primary(self._current.members)

    @property
    def sites(self) -> SiteList:
        """What this site knows of the cluster's list."""
        return self.changes.sites

    @property
    def disputes(self) -> Disputes:
        """Sites that tell something else of it: they are not heard, and in no configuration with this one."""
        return self.changes.disputes

    @property
    def sites_kept(self) -> bool:
        """All that it knows of the list is durable."""
        return self.changes.kept

    @property
    def phase(self) -> str:
        return self.changes.phase.value

    @property
    def behind(self) -> str | None:
        """Why this site's storage is older than what others know of the site, if it is: then it is in no
        configuration with anyone."""
        return self.changes.hearing.behind.get(self.ordinal)

    @property
    def step(self) -> str:
        """Where in its phase the site is, for the tables of what was tested."""
        round_ = self.changes.round
        if round_ is None:
            return self.phase
        if self.changes.phase is Phase.FORMING:
            return "forming: states" if round_.answered else "forming: sync"
        recovery = self.changes.recovery
        return "recovering: exchange" if recovery is not None and recovery.lacking else "recovering: wait"

    def withdraw(self) -> int:
        """Takes back what was submitted and is not sent yet, but for a message of which fragments are out."""
        return self.outbox.withdraw()

    def room(self) -> int:
        """How many messages `submit` would take now."""
        return self.outbox.room()

    @property
    def drained(self) -> bool:
        """Nothing waits to be sent, and every member has all that this site has sent."""
        return not self.outbox and self._current.multicast.window.empty

    def deadline(self) -> int:
        """When the site wants to be called though nothing happens."""
        at = min(self._beacon_at, self._watch_at)
        if self._told != self.changes.hearing.report.version:
            at = min(at, self._beaconed_at + _NEWS_GAP_NS)
        change = self.changes.deadline()
        if change is not None and change < at:
            at = change
        if self._current.frozen:
            return at
        if self._current.pressed:
            return self._last
        own = self._current.deadline()
        return at if own is None or own > at else own

    # -- inputs

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        """Takes a message to be sent in this configuration or, while it changes, in the next.

        Raises Rejected if it is too large, Unavailable if too much waits already.
        """
        self._wake(now)
        self.outbox.submit(service, payload)

    def submit_many(self, service: Service, payloads: Sequence[bytes], now: int) -> int:
        """Takes as many as there is room for, from the first on; gives how many."""
        self._wake(now)
        return self.outbox.submit_many(service, payloads)

    def renew(self, now: int) -> bool:
        """Asks for a new configuration with the same members; False while one is being found as it is."""
        self._wake(now)
        return self.changes.renew(now)

    def used(self, version: int, number: int, now: int) -> None:
        """The primary configuration of this number is used, and all its members have stored this version of the
        list, the newest that they knew."""
        self._wake(now)
        self.changes.used(version, number)

    def leave(self, now: int) -> None:
        """From now on this site tells everyone that it hears nobody: they go on without it, and at once."""
        self._wake(now)
        self.changes.hearing.leave()

    def synced(self, token: int, now: int) -> None:
        self._wake(now)
        self.changes.synced(token, now)
        self._check_installed(now)

    def tick(self, now: int) -> None:
        self._wake(now)

    def receive(self, data: bytes, now: int) -> None:
        """Takes a datagram; one that is malformed or stale is counted and dropped."""
        self._wake(now)
        try:
            datagram = decode(data)
        except Malformed:
            self.counters.malformed += 1
            return
        changes = self.changes
        match datagram:
            case Frame() | Alive() | Nack():
                self._receive_in_configuration(datagram, True, now)
                return
            case Relay(frame=frame):
                self._receive_in_configuration(frame, False, now)
                return
            case Beacon():
                self._receive_beacon(datagram, now)
                return
            case Propose(number=number, site=proposer, members=members, incs=incs):
                changes.receive_proposal(number, proposer, tuple(members), tuple(incs), now)
            case State():
                changes.receive_state(datagram, now)
            case Progress():
                changes.receive_progress(datagram, now)
            case Rebroadcast():
                changes.receive_rebroadcast(datagram, now)
        self._check_installed(now)

    def flush(self, now: int, effects: Effects | None = None) -> Effects:
        """Ends the turn: adds what it has brought to `effects`, and returns them."""
        effects = Effects() if effects is None else effects
        self._wake(now)
        self.changes.turn(now)
        self._check_installed(now)
        current = self._current
        if not current.frozen:
            sends, self._counter = current.turn(self.outbox, self._counter, now)
            for rank, datagram in sends:
                self._out.send(self._peers if rank is None else (current.members[rank],), datagram)
        self._speak(now)
        self._out.move_to(effects)
        return effects

    def _wake(self, now: int) -> None:
        """Suspects itself first: after a long sleep the silence of the others was its own."""
        gap = now - self._last
        self._last = now
        if gap > 2 * self._timing.beacon_every_ns:
            self.changes.slept(gap, now)

    # -- the present configuration

    def _receive_in_configuration(self, datagram: Frame | Alive | Nack, direct: bool, now: int) -> None:
        """`direct`: it came from its sender itself, which is a sign of life."""
        current = self._current
        if datagram.conf != current.number:
            if self.changes.receive_early(datagram, now):
                self._check_installed(now)
            else:
                self.counters.stale += 1
            return
        sender = datagram.sender
        if sender >= len(current.members) or sender == current.rank:
            # Its own frames come back from others in answer to a nack that was meant for someone else.
            self.counters.stale += 1
            return
        if direct:
            self.changes.hearing.sign(current.members[sender], now)
        if current.frozen:
            self.counters.stale += 1
            return
        match datagram:
            case Frame():
                current.multicast.receive(datagram, now)
            case Alive():
                current.multicast.hear(datagram, now)
            case Nack():
                for frame in current.multicast.answer(datagram, now):
                    again = frame if frame.sender == current.rank else Relay(frame)
                    self._out.send((current.members[sender],), again)

    def _check_installed(self, now: int) -> None:
        if self.changes.current is not self._current:
            self._install(self.changes.current)
            early, self.changes.early = self.changes.early, []
            for datagram in early:
                self._receive_in_configuration(datagram, False, now)

    def _install(self, configuration: Configuration) -> None:
        self._current = configuration
        self._tell_round_trips()
        self._peers = tuple(site for site in configuration.members if site != self.ordinal)
        if self.options.return_unsent:
            self._out.unsent += self.outbox.give_back()
        else:
            self.outbox.restart()

    # -- beacons

    def _receive_beacon(self, beacon: Beacon, now: int) -> None:
        hearing = self.changes.hearing
        if beacon.version != VERSION or beacon.site >= hearing.sites or beacon.site == self.ordinal:
            self.counters.stale += 1
            return
        try:
            if not self.disputes.agrees(beacon.site, beacon.sites, self.changes.sites):
                self.counters.other_lists += 1
                return
            reports = decode_reports(beacon.reports) if hearing.is_news(beacon) else []
        except Malformed:
            self.counters.malformed += 1
            return
        hearing.beacon(beacon, now, reports)
        if beacon.probe:
            self._probed_by.add(beacon.site)

    def _beacon(self, now: int, only: int | None = None, probe: bool = False) -> Beacon:
        sites = self.changes.sites
        if self._sites_told is None or self._sites_told[0] is not sites:
            self._sites_told = sites, encode(sites if sites.names else None)
        return self.changes.hearing.make_beacon(now, Raw(self._sites_told[1]), only, probe)

    def _speak(self, now: int) -> None:
        """Beacons: to all when it is time or there is news, to single ones who ask."""
        hearing = self.changes.hearing
        if now >= self._watch_at:
            self._watch(now)
        news = self._told != hearing.report.version and now >= self._beaconed_at + _NEWS_GAP_NS
        if news or now >= self._beacon_at:
            self._told = hearing.report.version
            self._beaconed_at = now
            self._beacon_at = now + self._beacon_interval()
            self._out.send(self._others, self._beacon(now))
        elif self._probed_by or self.changes.askers:
            for site in sorted((self._probed_by | self.changes.askers) - {self.ordinal}):
                self._out.send((site,), self._beacon(now, only=site))
        else:
            return
        self._probed_by.clear()
        self.changes.askers.clear()

    def _beacon_interval(self) -> int:
        if self.changes.phase is Phase.OPERATIONAL:
            return self._timing.beacon_every_ns
        return self._timing.gather_every_ns

    def _watch(self, now: int) -> None:
        """Looks for silence and for acks that stand still; keeps what depends on round trips up to date."""
        hearing = self.changes.hearing
        probes = hearing.check(now)
        for site in probes:
            self._out.send((site,), self._beacon(now, only=site, probe=True))
        self._watch_at = now + (self._timing.probe_every_ns if probes else self._beacon_interval())
        self._tell_round_trips()
        current = self._current
        trips = hearing.round_trips
        trips.spreads[self.ordinal] = trips.spread()
        current.engine.round_trips([trips.spreads[site] for site in current.members])
        if not current.frozen:
            patience = [self._timing.stall_after_ns + 6 * trips.smoothed_ns[site] for site in current.members]
            for rank in current.multicast.stalled(now, patience):
                hearing.leave_out(current.members[rank], now)

    def _tell_round_trips(self) -> None:
        """Repair in the present configuration goes by them from its first frame on."""
        trips = self.changes.hearing.round_trips.smoothed_ns
        self._current.multicast.nacks.round_trip_ns = [trips[site] for site in self._current.members]

    def invariants(self) -> None:
        self.changes.invariants()
