"""The partitionable group service's requisites (Transis, figure 2): self inclusion, same order, uniformity.

Its virtual synchrony is Specification 4, its multicast requisites are Specifications 5 to 7, its liveness is `live`.
"""

from dataclasses import dataclass
from itertools import pairwise

from reconvene.verify.evs.patterns import EvsCheck
from reconvene.verify.history import CONF, HIDDEN, History
from reconvene.verify.numbering import configuration_numbers
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _self_inclusion(h: History, tally: Tally) -> None:
    for event, declared in h.declared.items():
        tally.cases += 1
        if h.node[event] not in declared.members:
            detail = f"{h.describe(event)}: the node is not a member of it"
            tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _same_order(h: History, tally: Tally) -> None:
    places: list[dict[int, int]] = []
    for stays in h.stays:
        first: dict[int, int] = {}
        for stay in stays:
            first.setdefault(stay.conf, stay.begin)
        places.append(first)
    for node in range(h.nodes):
        for other in range(node + 1, h.nodes):
            _compare(h, places[node], places[other], tally)
    _numbers_grow(h, tally)


def _numbers_grow(h: History, tally: Tally) -> None:
    """Of a regular configuration that a node entered after another one, where all ids are numbers: its number is not
    the higher one."""
    if not all(conf.id.isdecimal() for conf in h.confs if conf.kind == "regular"):
        return
    for stays in h.stays:
        regulars = [stay for stay in stays if h.confs[stay.conf].kind == "regular"]
        for before, after in pairwise(regulars):
            tally.cases += 1
            if int(h.conf_id(after.conf)) <= int(h.conf_id(before.conf)):
                detail = f"{h.describe(after.begin)}: its number is not above that of {h.conf_id(before.conf)}"
                tally.violate(h.run.run, h.names[after.node], h.n[after.begin], detail)


def _compare(h: History, mine: dict[int, int], theirs: dict[int, int], tally: Tally) -> None:
    common = [conf for conf in mine if conf in theirs]
    tally.cases += len(common)
    for before, conf in pairwise(common):
        if theirs[conf] < theirs[before]:
            detail = (
                f"{h.describe(theirs[conf])}: before {h.conf_id(before)},"
                f" which {h.names[h.node[mine[conf]]]} entered before it"
            )
            event = theirs[conf]
            tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


@dataclass(slots=True)
class _Incarnation:
    first: int
    """The number of its first configuration."""
    highest: int
    """The highest number that it reported, hidden ones included."""
    failed: bool


def _uniformity(h: History, tally: Tally) -> None:
    _same_members(h, tally)
    numbers = configuration_numbers(h)
    incarnations = [_incarnations(h, node, numbers) for node in range(h.nodes)]
    for index, conf in enumerate(h.confs):
        if conf.kind != "regular":
            continue
        entered = {h.node[event]: event for event in conf.entered}
        hidden = {h.node[event]: event for event in conf.hidden}
        for member in conf.members:
            tally.cases += 1
            problem = None
            if member in entered and member in hidden:
                problem = "reports it both as regular and as hidden"
            elif member in entered or member in hidden:
                report = entered[member] if member in entered else hidden[member]
                if h.declared[report].members != conf.members:
                    problem = f"reports it with other members, at {h.describe(report)}"
            elif not _is_excused(h, member, numbers[index], incarnations):
                problem = "reports it neither as regular nor as hidden"
            if problem:
                event = conf.entered[0]
                detail = f"{h.describe(event)}: member {h.names[member]} {problem}"
                tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _same_members(h: History, tally: Tally) -> None:
    """Of a hidden report of a configuration that its reporter is no member of, or that no node entered: it names
    other members than the entering, or than the first such report."""
    for conf in h.confs:
        for event in conf.hidden:
            if conf.kind == "regular" and h.node[event] in conf.members:
                continue
            tally.cases += 1
            if h.declared[event].members != conf.members:
                detail = f"{h.describe(event)}: others report it with other members"
                tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _incarnations(h: History, node: int, numbers: list[int]) -> list[_Incarnation]:
    reported: dict[int, list[int]] = {}
    for event in range(h.first[node], h.first[node + 1]):
        conf = h.conf[event]
        if h.kind[event] == HIDDEN or (h.kind[event] == CONF and h.confs[conf].kind == "regular"):
            reported.setdefault(h.inc[event], []).append(numbers[conf])
    alive = h.stays[node][-1].inc if h.stays[node] and h.stays[node][-1].left == "end" else None
    return [_Incarnation(found[0], max(found), inc != alive) for inc, found in sorted(reported.items())]


def _is_excused(h: History, member: int, number: int, incarnations: list[list[_Incarnation]]) -> bool:
    if member >= h.nodes or not incarnations[member]:
        return not h.run.settled or h.names[member] in h.run.down
    # Numbers grow across crashes: a configuration concerns the last incarnation that began below it.
    began = [inc for inc in incarnations[member] if inc.first <= number]
    concerned = began[-1] if began else incarnations[member][0]
    if concerned.highest >= number:
        return False
    return concerned.failed or not h.run.settled


CHECKS = (
    EvsCheck(
        id="transis.self-inclusion",
        layer="evs",
        source="Transis, figure 2",
        case="a `conf` event, hidden ones too",
        violated="the node is not among the members",
        check=_self_inclusion,
        skeleton=True,
    ),
    EvsCheck(
        id="transis.same-order",
        layer="evs",
        source="Transis, figure 2",
        case="two nodes, and a configuration that both entered; and, where all regular ids are plain numbers, a"
        " regular configuration that a node entered after another one, crashes between them or not",
        violated="among those that both entered, in the order of the node whose name is lower, it comes at the other"
        " node before its predecessor; or its number is not above that of the one before it",
        check=_same_order,
        skeleton=True,
    ),
    EvsCheck(
        id="transis.uniformity",
        layer="evs",
        source="Transis, figure 2",
        case="a regular configuration that some node entered, and a member of it; and a hidden report by one that is"
        " no member of it, or of one that no node entered",
        violated="the member reports it neither as regular nor as hidden; or as both; or with other members than the"
        " lowest entering (or, where no node entered it, than the first report)",
        check=_uniformity,
        skeleton=True,
    ),
)
