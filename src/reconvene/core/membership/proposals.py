"""Whether a proposed configuration makes sense, and whether it can still come about: what the reports say of it."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from reconvene.core.membership.hearing import NUMBERS_AHEAD, Hearing
from reconvene.core.membership.round import Round
from reconvene.ids import proposer_of

__all__ = ["Proposal", "acceptable", "deserted", "proven", "well_formed"]


class Proposal(Struct, frozen=True):
    number: int
    proposer: int
    members: tuple[int, ...]
    incarnations: tuple[int, ...]
    """Of the members, in the same order."""


def well_formed(proposal: Proposal, site: int, incarnation: int, sites: int, answered: int) -> bool:
    """False: no correct site sends this to `site` in its present incarnation. `sites`: how many numbers there are."""
    members, incarnations = proposal.members, proposal.incarnations
    return (
        proposal.number <= answered + NUMBERS_AHEAD
        and proposer_of(proposal.number) == proposal.proposer
        and proposal.proposer in members
        and len(members) == len(incarnations)
        and all(low < high for low, high in pairwise(members))
        and site in members
        and members[-1] < sites
        and incarnations[members.index(site)] == incarnation
    )


def acceptable(proposal: Proposal, hearing: Hearing, answered: int) -> bool:
    """Its number is new, and all its members are heard. Else its sender needs newer reports."""
    members = zip(proposal.members, proposal.incarnations, strict=True)
    return (
        proposal.number > answered
        and all(hearing.hears(site) for site in proposal.members)
        and all(hearing.incarnations[site] <= incarnation for site, incarnation in members)
    )


def proven(round_: Round, hearing: Hearing) -> bool:
    """A member has installed it, so all have recovered."""
    reports = hearing.reports
    return any(reports[site].conf == round_.number for site in round_.members if site in reports)


def deserted(round_: Round, hearing: Hearing, others: Sequence[int]) -> bool:
    """A member restarted, is no longer heard, or has reported that it is not in this round any more."""
    incarnations = dict(zip(round_.members, round_.incarnations, strict=True))
    for site in others:
        incarnation = incarnations[site]
        if hearing.incarnations[site] > incarnation or not hearing.hears(site):
            return True
        report = hearing.reports.get(site)
        if report is None or report.inc != incarnation or report.attempt == round_.number:
            continue
        state = round_.states.get(site)
        if state is not None and report.version > state.version:
            return True
        if report.attempt and report.version > round_.baseline.get(site, 0):
            return True
    return False
