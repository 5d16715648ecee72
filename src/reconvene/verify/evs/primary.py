"""The primary component model (section 2.2), for primaries that were established, and for those whose views the
filter let through. Each are numbered by themselves, and judged by themselves."""

from itertools import pairwise

from reconvene.verify.history import Established, History
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tallies, Tally

__all__ = ["IDS", "check"]

IDS = ("evs.primary.uniqueness", "evs.primary.continuity")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    for announced in (history.established, _of_the_filter(history)):
        by_number: dict[int, Established] = {}
        for established in announced:
            by_number.setdefault(established.primary, established)
        _unique(history, announced, by_number, tallies["evs.primary.uniqueness"])
        _continuous(history, by_number, tallies["evs.primary.continuity"])


def _of_the_filter(h: History) -> list[Established]:
    """The view events, lowest first. The primary component's members are those of its configuration; where nobody
    entered that, the sites of all processes that views name in it."""
    p = h.processes
    views = sorted(p.declared, key=p.rank.__getitem__)
    members = {conf.id: tuple(sorted(map(h.name_of, conf.members))) for conf in h.confs if conf.entered}
    named: dict[str, set[str]] = {}
    for event in views:
        declared = p.declared[event]
        if declared.conf not in members:
            sites = named.setdefault(declared.conf, set())
            sites.update(p.names[process].rsplit(":", 2)[0] for process in declared.members)
    members.update((conf, tuple(sorted(sites))) for conf, sites in named.items())
    found: list[Established] = []
    for event in views:
        declared = p.declared[event]
        found.append(Established(p.site[event], p.n[event], declared.primary, declared.conf, members[declared.conf]))
    return found


def _unique(h: History, announced: list[Established], by_number: dict[int, Established], tally: Tally) -> None:
    """Case: an establish event, or a view event. Violation: the lowest event of the same number has another
    configuration or other members; the lowest event of the same configuration has another number; or the node
    established a higher number before."""
    by_conf: dict[str, Established] = {}
    highest: dict[int, int] = {}
    for here in announced:
        tally.cases += 1
        same_number = by_number[here.primary]
        same_conf = by_conf.setdefault(here.conf, here)
        before = highest.get(here.node, here.primary)
        highest[here.node] = max(before, here.primary)
        if (here.conf, here.members) != (same_number.conf, same_number.members):
            other = same_number
            detail = f"primary {here.primary} is {_what(here)}, and {_what(other)} at {h.names[other.node]}"
        elif same_conf.primary != here.primary:
            detail = f"{here.conf} is primary {here.primary}, and {same_conf.primary} at {h.names[same_conf.node]}"
        elif here.primary < before:
            detail = f"primary {here.primary} after primary {before}"
        else:
            continue
        tally.violate(h.run.run, h.names[here.node], here.n, detail)


def _continuous(h: History, by_number: dict[int, Established], tally: Tally) -> None:
    """Case: two primaries of which no established one lies between. Violation: they have no member in common."""
    for lower, higher in pairwise(sorted(by_number)):
        tally.cases += 1
        before, here = by_number[lower], by_number[higher]
        if not set(before.members) & set(here.members):
            detail = f"primary {higher} is {_what(here)}, and shares no member with {lower}, {_what(before)}"
            tally.violate(h.run.run, h.names[here.node], here.n, detail)


def _what(established: Established) -> str:
    return f"{established.conf} of {','.join(established.members)}"
