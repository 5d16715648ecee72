"""The primary component model (section 2.2), for primaries that were established, and for those whose views the
filter let through. Each are numbered by themselves, and judged by themselves."""

from itertools import pairwise

from reconvene.verify.evs.patterns import EvsCheck
from reconvene.verify.history import Established, History
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _uniqueness(h: History, tally: Tally) -> None:
    for announced in (h.established, h.once(_of_the_filter)):
        _unique(h, announced, _by_number(announced), tally)


def _continuity(h: History, tally: Tally) -> None:
    for announced in (h.established, h.once(_of_the_filter)):
        _continuous(h, _by_number(announced), tally)


def _by_number(announced: list[Established]) -> dict[int, Established]:
    by_number: dict[int, Established] = {}
    for established in announced:
        by_number.setdefault(established.primary, established)
    return by_number


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
    for lower, higher in pairwise(sorted(by_number)):
        tally.cases += 1
        before, here = by_number[lower], by_number[higher]
        if not set(before.members) & set(here.members):
            detail = f"primary {higher} is {_what(here)}, and shares no member with {lower}, {_what(before)}"
            tally.violate(h.run.run, h.names[here.node], here.n, detail)


def _what(established: Established) -> str:
    return f"{established.conf} of {','.join(established.members)}"


CHECKS = (
    EvsCheck(
        id="evs.primary.uniqueness",
        layer="evs",
        source="section 2.2, Uniqueness",
        case="an `establish` event; a view event",
        violated="the lowest one of the same number has another configuration or other members; or the lowest one of"
        " the same configuration has another number; or an earlier one of the same node has a higher number",
        check=_uniqueness,
        skeleton=True,
    ),
    EvsCheck(
        id="evs.primary.continuity",
        layer="evs",
        source="section 2.2, Continuity",
        case="two numbers with none between them",
        violated="they have no member in common",
        check=_continuity,
        skeleton=True,
    ),
)
