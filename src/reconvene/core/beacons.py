"""Beacons of a site: what it reports to all others, when, and what it makes of theirs.

A beacon is sent when it is time, when there is news, and to single sites that ask. In the same rhythm the site looks
for silence and for acknowledgements that stand still.
"""

from msgspec import Raw

from reconvene.core.changes import Changes, Phase
from reconvene.core.evs.configuration import Configuration
from reconvene.core.multicast.multicast import Counters
from reconvene.core.options import Timing
from reconvene.core.outgoing import Outgoing
from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES
from reconvene.site_list import SiteList
from reconvene.wire.codec import decode_reports, encode
from reconvene.wire.messages import VERSION, Beacon

__all__ = ["Beacons"]

_NEWS_GAP_NS = 5_000_000
"""News are reported at once, but not more often than this."""


class Beacons:
    def __init__(
        self,
        site: int,
        others: tuple[int, ...],
        changes: Changes,
        counters: Counters,
        out: Outgoing,
        timing: Timing,
        now: int,
    ) -> None:
        """`others`: the sites that datagrams can be sent to."""
        self._site = site
        self._known_others = others
        self._changes = changes
        self._counters = counters
        self._out = out
        self._timing = timing
        self._list_sent: tuple[SiteList, bytes] | None = None
        """The list of sites, and its bytes as beacons carry it."""
        self._beacon_at = now
        self._beaconed_at = now - _NEWS_GAP_NS
        self._watch_at = now
        self._reported = 0
        """The version of this site's report that the last beacon carried."""
        self._probed_by: set[int] = set()

    def deadline(self) -> int:
        """When it wants a turn though nothing happens."""
        at = self._beacon_at if self._beacon_at < self._watch_at else self._watch_at
        if self._reported != self._changes.hearing.report.version:
            at = min(at, self._beaconed_at + _NEWS_GAP_NS)
        return at

    def receive(self, beacon: Beacon, now: int) -> None:
        changes = self._changes
        hearing = changes.hearing
        if beacon.version != VERSION or beacon.site >= MAX_SITES or beacon.site == self._site:
            self._counters.stale += 1
            return
        try:
            if not changes.disputes.agrees(beacon.site, beacon.sites, changes.sites):
                self._counters.other_lists += 1
                return
            news = changes.disputes.news
            if news is not None and (news.managed or news.proposal is not None):
                changes.learn(news)
            if beacon.site >= hearing.sites:
                self._counters.stale += 1
                return
            if changes.sites.excludes(beacon.site):
                changes.askers.add(beacon.site)  # it has been away, and learns from this site that it was removed
                self._counters.stale += 1
                return
            reports = decode_reports(beacon.reports) if hearing.is_news(beacon) else []
        except Malformed:
            self._counters.malformed += 1
            return
        hearing.beacon(beacon, now, reports)
        if beacon.probe:
            self._probed_by.add(beacon.site)

    def speak(self, current: Configuration, now: int) -> None:
        """To all where it is time or there is news; else to single sites that ask."""
        changes = self._changes
        hearing = changes.hearing
        if now >= self._watch_at:
            self._watch(current, now)
        news = self._reported != hearing.report.version and now >= self._beaconed_at + _NEWS_GAP_NS
        if news or now >= self._beacon_at:
            self._reported = hearing.report.version
            self._beaconed_at = now
            self._beacon_at = now + self._interval()
            self._out.send(self._others(), self._beacon(now))
        elif self._probed_by or changes.askers:
            for site in sorted((self._probed_by | changes.askers) - {self._site}):
                self._out.send((site,), self._beacon(now, only=site))
        else:
            return
        self._probed_by.clear()
        changes.askers.clear()

    def _others(self) -> tuple[int, ...]:
        sites = self._changes.sites
        if not sites.managed:
            return self._known_others
        return tuple(site for site in range(len(sites.names)) if sites.listed >> site & 1 and site != self._site)

    def set_round_trips(self, current: Configuration) -> None:
        """Repair in the present configuration goes by them from its first frame on."""
        trips = self._changes.hearing.round_trips.smoothed_ns
        current.multicast.nacks.round_trip_ns = [trips[site] for site in current.members]

    def _beacon(self, now: int, only: int | None = None, probe: bool = False) -> Beacon:
        sites = self._changes.sites
        if self._list_sent is None or self._list_sent[0] is not sites:
            self._list_sent = sites, encode(sites if sites.names else None)
        return self._changes.hearing.make_beacon(now, Raw(self._list_sent[1]), only, probe)

    def _interval(self) -> int:
        if self._changes.phase is Phase.OPERATIONAL:
            return self._timing.beacon_every_ns
        return self._timing.gather_every_ns

    def _watch(self, current: Configuration, now: int) -> None:
        """Looks for silence and for acks that stand still; keeps what depends on round trips up to date."""
        hearing = self._changes.hearing
        probes = hearing.check(now)
        for site in probes:
            self._out.send((site,), self._beacon(now, only=site, probe=True))
        self._watch_at = now + (self._timing.probe_every_ns if probes else self._interval())
        self.set_round_trips(current)
        trips = hearing.round_trips
        trips.spreads[self._site] = trips.spread()
        current.engine.round_trips([trips.spreads[site] for site in current.members])
        if not current.frozen:
            patience = [self._timing.stall_after_ns + 6 * trips.smoothed_ns[site] for site in current.members]
            for rank in current.multicast.stalled(now, patience):
                hearing.leave_out(current.members[rank], now)
