"""What the reports add up to: who should be in this site's configuration, and whether that is settled."""

from typing import NamedTuple

from reconvene.core.membership.cliques import component, partition, two_way
from reconvene.core.membership.hearing import Hearing

__all__ = ["Outlook", "members_of", "outlook"]


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
