"""Decides from the reports which sites belong in this site's configuration, and when to propose it.

Promised: a gathering ends as soon as every expected site is heard. Its time-outs matter only for silent sites.
"""

from typing import NamedTuple

from reconvene.core.membership.cliques import component, partition, two_way
from reconvene.core.membership.hearing import Hearing
from reconvene.core.options import Timing

__all__ = ["Gathering", "Outlook", "members_of", "outlook"]

_BEAT_NS = 10_000_000
"""A gathering waits at least this long, so that every site that was just heard can send its report."""
_ROUNDS = 6
"""After this multiple of its patience a gathering continues without the site that should have proposed."""


class Outlook(NamedTuple):
    clique: int
    """The sites that belong in a configuration with this one, itself included, as a mask."""
    agreed: bool
    """Every link in the component is reported by both of its ends: all expected reports are here."""
    busy: bool
    """A site of the clique has answered a proposal that is neither installed nor abandoned."""


def members_of(mask: int) -> tuple[int, ...]:
    return tuple(site for site in range(mask.bit_length()) if mask >> site & 1)


def outlook(hearing: Hearing) -> Outlook:
    """A pure function of the reports: sites with the same reports compute the same cliques."""
    reports = hearing.reports
    hears = {site: reports[site].hears for site in sorted(reports)}
    graph = two_way(hears)
    connected = component(graph, hearing.site)
    clique = next(found for found in partition(graph, connected) if found >> hearing.site & 1)
    agreed = all(
        other == site or (other in hears and bool(hears[other] >> site & 1))
        for site in members_of(connected)
        for other in members_of(hears[site])
    )
    busy = any(reports[site].attempt for site in members_of(clique))
    return Outlook(clique, agreed, busy)


class Gathering:
    """How long this site has been gathering, and whether it is its turn to propose."""

    def __init__(self, hearing: Hearing, timing: Timing, now: int) -> None:
        self.reason = "start"
        """Why the last gathering began."""
        self.outlook = Outlook(1 << hearing.site, True, False)
        self.failures = 0
        """Rounds that failed since the last configuration was installed."""
        self._hearing = hearing
        self._timing = timing
        self._since = now
        self._looked_at = now

    def begin(self, reason: str, now: int) -> None:
        self.reason = reason
        self._since = now

    def look(self, changed: bool, now: int) -> None:
        """Updates the gathering from the present reports."""
        if changed:
            self.outlook = outlook(self._hearing)
        self._looked_at = now

    @property
    def proposer(self) -> int:
        """The site that should propose: the lowest of the clique."""
        return (self.outlook.clique & -self.outlook.clique).bit_length() - 1

    def ready(self, now: int) -> bool:
        """Whether this site should propose now."""
        return self.proposer == self._hearing.site and now - self._since >= self._hold_ns() and not self.outlook.busy

    def overdue(self, now: int) -> bool:
        """The gathering lasted far too long; it starts again."""
        if now - self._since <= _ROUNDS * self._patience_ns() + self._timing.round_patience_ns:
            return False
        self._since = now
        return True

    def _hold_ns(self) -> int:
        """How long to gather before a proposal: a short time if all sites agree, longer after each failure."""
        if not self.outlook.agreed:
            return self._patience_ns()
        if self.failures == 0:
            return _BEAT_NS
        # Until a round trip is over, sites may still answer the proposal that failed. Their reports would look as if
        # they had left the next one for it, and over long links one proposal after the other would fail.
        return max(_BEAT_NS << min(self.failures, 4), _BEAT_NS + self._longest_trip_ns())

    def _patience_ns(self) -> int:
        return self._timing.gather_patience_ns + 2 * self._longest_trip_ns()

    def _longest_trip_ns(self) -> int:
        return self._hearing.round_trips.longest_ns(self._hearing.report.hears)

    def slept(self, gap_ns: int) -> None:
        self._since += gap_ns

    def deadline(self) -> int:
        # Past that point it depends on the others' reports.
        return max(self._since + self._hold_ns(), self._looked_at + _BEAT_NS)
