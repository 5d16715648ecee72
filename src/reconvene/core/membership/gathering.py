"""What the reports add up to: who should be in this site's configuration, and when to propose it.

Promised: a gathering ends as soon as everyone expected is heard; its time-outs are only for the silent.
"""

from typing import NamedTuple

from reconvene.core.membership.cliques import component, partition, two_way
from reconvene.core.membership.hearing import Hearing
from reconvene.core.options import Timing

__all__ = ["Gathering", "Outlook", "members_of", "outlook"]

_BEAT_NS = 10_000_000
"""A gathering waits this long at least, so that all who were just heard can speak."""
_ROUNDS = 6
"""After so many times its patience a gathering does without the one that should have proposed."""


class Outlook(NamedTuple):
    clique: int
    """The sites that belong in a configuration with this one, itself included, as a mask."""
    agreed: bool
    """Nobody in the component hears a site that does not say it hears it too: all expected reports are here."""
    busy: bool
    """One of the clique has answered a proposal that is neither installed nor given up."""


def members_of(mask: int) -> tuple[int, ...]:
    return tuple(site for site in range(mask.bit_length()) if mask >> site & 1)


def outlook(hearing: Hearing) -> Outlook:
    """A pure function of the reports: whoever holds the same ones sees the same cliques."""
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
        """Takes in what the reports say now."""
        if changed:
            self.outlook = outlook(self._hearing)
        self._looked_at = now

    @property
    def proposer(self) -> int:
        """Who should propose: the lowest of the clique."""
        return (self.outlook.clique & -self.outlook.clique).bit_length() - 1

    def ready(self, now: int) -> bool:
        """Whether this site should propose now."""
        return self.proposer == self._hearing.site and now - self._since >= self._hold_ns() and not self.outlook.busy

    def overdue(self, now: int) -> bool:
        """It should have ended long ago; it starts again."""
        if now - self._since <= _ROUNDS * self._patience_ns() + self._timing.round_patience_ns:
            return False
        self._since = now
        return True

    def _hold_ns(self) -> int:
        """How long to gather before a proposal: a beat if all agree, longer each time after a failure."""
        return _BEAT_NS << min(self.failures, 4) if self.outlook.agreed else self._patience_ns()

    def _patience_ns(self) -> int:
        longest = self._hearing.round_trips.longest_ns(self._hearing.report.hears)
        return self._timing.gather_patience_ns + 2 * longest

    def slept(self, gap_ns: int) -> None:
        self._since += gap_ns

    def deadline(self) -> int:
        # Past that point it depends on what others tell.
        return max(self._since + self._hold_ns(), self._looked_at + _BEAT_NS)
