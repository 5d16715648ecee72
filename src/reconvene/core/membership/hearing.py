"""Which sites are heard, which sites hear each other, and how long a round trip takes.

Given: every sign of life, and the reports that beacons carry.
Promised: this site's own report, whose version grows with each change; the newest report of every site that any site
forwards. A site is no longer heard once it was silent for too long, or was excluded because it made no progress.
"""

from msgspec import Raw
from msgspec.structs import replace

from reconvene.core.membership.past import contradicts
from reconvene.core.membership.round_trips import RoundTrips
from reconvene.core.options import Timing
from reconvene.ids import MAX_SITES
from reconvene.wire.codec import encode
from reconvene.wire.messages import VERSION, Beacon, Report

__all__ = ["NUMBERS_AHEAD", "Hearing"]

_NEVER = -(1 << 62)
_LATE_DATAGRAMS = 8
"""Times the patience with a silent site: no late datagram is delayed for longer than this."""
_SILENT_BEACONS = 3
NUMBERS_AHEAD = 1 << 48
"""A configuration number this far above all others is false, and would soon be too large for the wire."""


class Hearing:
    def __init__(self, site: int, sites: int, incarnation: int, conf: int, timing: Timing, token: int = 0) -> None:
        self.site = site
        self.sites = sites
        self.report = Report(site, incarnation, 1, 1 << site, conf, 0, False, conf, token, conf)
        """This site's own report."""
        self.reports: dict[int, Report] = {site: self.report}
        """The newest report of each site, by ordinal."""
        self.incarnations = [0] * MAX_SITES
        """The highest known incarnation of each site, also of sites that only others report."""
        self.incarnations[site] = incarnation
        self.round_trips = RoundTrips(sites)
        self.changed = True
        """Something in `reports` has changed since `take_changed`."""
        self._timing = timing
        self._last = [_NEVER] * sites
        self._left_out_until = [_NEVER] * sites
        self._left_out_at = [_NEVER] * sites
        self._leaving = False
        self._excluded = 0
        """Sites that the cluster's list does not have, as a mask: they are not heard."""
        self._known_since = [_NEVER] * sites
        """When the present incarnation of each site became known."""
        self.behind: dict[int, str] = {}
        """Sites, perhaps this one, whose storage is older than what is known of them, and why. They are not heard."""
        self._encoded: bytes | None = None
        self._raw: list[bytes] = [b""] * sites
        """The last reports section of each site's beacon, undecoded."""

    # -- this site's report

    def update(self, **changes: int) -> None:
        """Changes fields of this site's report, by name, and increases its version."""
        self.report = replace(self.report, version=self.report.version + 1, **changes)
        self.reports[self.site] = self.report
        self.changed = True
        self._encoded = None

    def highest(self) -> int:
        """The highest configuration number in any report."""
        return max(report.highest for report in self.reports.values())

    def list_changed(self, sites: int, excluded: int) -> None:
        """The cluster's list has so many numbers now, and does not have these sites."""
        more = sites - self.sites
        if more > 0:
            self.sites = sites
            for times in (self._last, self._left_out_until, self._left_out_at, self._known_since):
                times += [_NEVER] * more
            self._raw += [b""] * more
            self.round_trips.grow(sites)
        self._excluded = excluded
        if excluded >> self.site & 1:
            self.leave()
        elif self.report.hears & excluded:
            self.update(hears=self.report.hears & ~excluded)

    # -- signs of life

    def hears(self, site: int) -> bool:
        return bool(self.report.hears >> site & 1)

    def sign(self, site: int, now: int) -> None:
        """Something was received from this site, in its newest incarnation."""
        self._last[site] = now
        if (
            not self.report.hears >> site & 1
            and now >= self._left_out_until[site]
            and not self._leaving
            and not self._excluded >> site & 1
        ):
            self.update(hears=self.report.hears | 1 << site)

    def beacon(self, beacon: Beacon, now: int, reports: list[Report]) -> None:
        """A beacon came directly from its sender; `reports` are those it carries, empty if unchanged."""
        site = beacon.site
        if beacon.inc < self.incarnations[site]:
            self._check_late(site, beacon.inc, now)
            return
        own = next((report for report in reports if report.site == site), None)
        if own is not None and not self._follows(own):
            return
        if own is None and site in self.behind:
            return
        if beacon.inc > self.incarnations[site]:
            self.incarnations[site] = beacon.inc
            self._known_since[site] = now
            self.changed = True
        self.round_trips.beacon(beacon, self.site, now)
        self.sign(site, now)
        for report in reports:
            self._learn(report)

    def _follows(self, report: Report) -> bool:
        """Whether a site's own report can follow what is known of it."""
        known = self.reports.get(report.site)
        why = None if known is None else contradicts(report, known)
        if why is None:
            self.behind.pop(report.site, None)
            return True
        self.behind[report.site] = why
        return False

    def _check_late(self, site: int, incarnation: int, now: int) -> None:
        """A datagram of an earlier incarnation. Soon after the later one was first heard, it is only late."""
        if now - self._known_since[site] > _LATE_DATAGRAMS * self.patience_ns():
            known = self.incarnations[site]
            self.behind[site] = f"start {known} is known, and this is its start {incarnation}"

    def _hear_of_itself(self, report: Report) -> None:
        """What others know of this site. If this site's storage is older, it no longer takes part."""
        why = contradicts(self.report, report)
        if why is not None and self.site not in self.behind:
            self.behind[self.site] = why
            self.leave()

    def is_news(self, beacon: Beacon) -> bool:
        """The beacon's reports differ from those of its sender's last beacon."""
        raw = bytes(beacon.reports)
        if raw == self._raw[beacon.site]:
            return False
        self._raw[beacon.site] = raw
        return True

    def _learn(self, report: Report) -> None:
        site = report.site
        if site == self.site:
            self._hear_of_itself(report)
            return
        if report.highest > self.highest() + NUMBERS_AHEAD:
            return
        known = self.reports.get(site)
        if known is not None and (report.inc, report.version) <= (known.inc, known.version):
            return
        self.reports[site] = report
        self.incarnations[site] = max(self.incarnations[site], report.inc)
        self.changed = True
        self._encoded = None

    def take_changed(self) -> bool:
        changed, self.changed = self.changed, False
        return changed

    # -- silence

    def patience_ns(self) -> int:
        """How long a site may be silent. It grows with the number of sites: beacons then wait for each other."""
        return self._timing.suspect_base_ns + self._timing.suspect_per_site_ns * self.sites

    def check(self, now: int) -> list[int]:
        """Drops sites that were silent for too long. Returns the sites to probe: silent for half as long."""
        patience = self.patience_ns()
        mask = self.report.hears
        probes: list[int] = []
        for site in range(self.sites):
            if site == self.site or not mask >> site & 1:
                continue
            silent = now - self._last[site]
            if silent > patience:
                mask &= ~(1 << site)
            elif silent > patience // 2:
                probes.append(site)
        if mask != self.report.hears:
            self.update(hears=mask)
        return probes

    def is_silent(self, site: int, now: int) -> bool:
        """Nothing was heard from it for longer than a few beacons take."""
        return now - self._last[site] > _SILENT_BEACONS * self._timing.beacon_every_ns

    def leave_out(self, site: int, now: int) -> None:
        """The site did not answer or makes no progress: it does not count as heard for a while. If it is also silent,
        it is only suspected early, and counts again with its first sign of life."""
        if not self.is_silent(site, now):
            span = self._timing.leave_out_ns
            if now - self._left_out_at[site] < 10 * span:
                span *= 2
            self._left_out_at[site] = now
            self._left_out_until[site] = now + span
        if self.hears(site):
            self.update(hears=self.report.hears & ~(1 << site))

    def leave(self) -> None:
        """This site is about to stop: it reports that it hears no site, so that no clique contains it."""
        self._leaving = True
        if self.report.hears != 1 << self.site:
            self.update(hears=1 << self.site)

    def slept(self, gap_ns: int, now: int) -> None:
        """This site was paused: it missed the others, and they were not silent."""
        self.round_trips.slept(now)
        self._last = [last if last == _NEVER else last + gap_ns for last in self._last]

    # -- beacons

    def make_beacon(self, now: int, sites: Raw, only: int | None = None, probe: bool = False) -> Beacon:
        """To all sites, or `only` to one of them, which then gets only its own echo. `sites`: this site's list of
        the cluster's sites."""
        if self._encoded is None:
            self._encoded = encode([self.reports[site] for site in sorted(self.reports)])
        trips = self.round_trips
        echoes = trips.echoes(now, only)
        reports = Raw(self._encoded)
        return Beacon(VERSION, self.site, self.report.inc, now, echoes, trips.spread(), reports, probe, sites)
