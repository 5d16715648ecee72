"""Specifications 2.1-2.4: configurations begin and end, and everyone in one agrees on it.

2.3 and 2.4 both forbid a chain of events from after one node's entering of a configuration to before another's:
seen from its end it breaks 2.3, seen from its start 2.4. So both report it, each with its own witness. What the
paper's text asks of configurations besides is divided among the three: what one node's file shows is 2.2, that
one id means one configuration is 2.3, and which nodes a transitional configuration holds is 2.4.
"""

from collections.abc import Iterator

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns, where_clear
from reconvene.verify.history import CONF, DELIVER, FAIL, HIDDEN, NONE, SEND, History, Stay
from reconvene.verify.precedes import Graph, Knot, Precedes
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _ends_together(h: History, tally: Tally) -> None:
    for node in range(h.nodes if h.run.settled else 0):
        stay = h.last_stay(node)
        if stay is None or stay.left != "end":
            continue
        for member in h.declared[stay.begin].members:
            tally.cases += 1
            other = h.last_stay(member)
            if other is not None and other.left == "end" and other.conf == stay.conf:
                continue
            detail = f"ends in {h.conf_id(stay.conf)}, whose member {h.names[member]} {_end(h, other, stay.conf)}"
            tally.violate(h.run.run, h.names[node], h.n[stay.begin], detail)


def _end(h: History, stay: Stay | None, conf: int) -> str:
    if stay is None:
        return "never entered any"
    if stay.left == "fail":
        return f"failed in {h.conf_id(stay.conf)}"
    return f"ends in {h.conf_id(stay.conf)}, {'having left' if h.enters(stay.node, conf) else 'not entering'} it"


def _one_after_the_other(h: History, tally: Tally) -> None:
    for node in range(h.nodes):
        _within_its_configuration(h, node, tally)
    for stray in h.strays:
        tally.violate(h.run.run, stray.node, stray.n, stray.detail)


def _prove_one_after_the_other(run: EvsPatterns, proof: Proof) -> None:
    proof.suspect(run.ways.problems + run.sums["outside"] + run.sums["stray"])


def _within_its_configuration(h: History, node: int, tally: Tally) -> None:
    """2.2, of events of this layer: a sending, delivery or failure outside the configuration that the node is in;
    anything after the incarnation's failure; a configuration that does not follow as it must."""
    inc = NONE
    current: int = NONE
    over = True
    entered: set[int] = set()
    start, stop = h.first[node], h.first[node + 1]
    kinds, confs, incs, outlived = h.kind, h.conf, h.inc, h.outlived
    for event in range(start, stop):
        kind = kinds[event]
        if (
            confs[event] == current
            and incs[event] == inc
            and not over
            and kind in (SEND, DELIVER)
            and event not in outlived
        ):
            continue
        problem = None
        if event in outlived:
            problem = f"of incarnation {incs[event]}, after {outlived[event]} began"
        if incs[event] > inc:
            if not over:
                problem = problem or f"begins incarnation {incs[event]}, but {inc} neither failed nor stopped"
            inc, current, over = incs[event], NONE, False
        elif over:
            problem = problem or f"after incarnation {inc} failed or stopped"
        if incs[event] < inc:
            pass  # nothing that an incarnation long over does moves this one
        elif kind == CONF:
            problem = problem or _follows(h, node, event, current, entered)
            current = confs[event]
            entered.add(current)
        elif kind != HIDDEN:
            if confs[event] != current:
                problem = problem or f"the node is in {h.conf_id(current)}"
            if kind == FAIL:
                current, over = NONE, True
        if problem:
            tally.violate(h.run.run, h.names[node], h.n[event], f"{h.describe(event)}: {problem}")


def _follows(h: History, node: int, event: int, current: int, entered: set[int]) -> str | None:
    """Does this configuration follow the current one (NONE where the incarnation begins) as it must?"""
    declared = h.declared[event]
    if h.conf[event] in entered:
        return "the node was in it before"
    if current == NONE:
        if declared.kind != "regular" or declared.members != (node,):
            return "an incarnation's first configuration is regular and holds its node alone"
        return None
    before = h.confs[current].kind
    if declared.kind == "regular" and before != "transitional":
        return f"a regular configuration follows a transitional one, not {h.conf_id(current)}"
    if declared.kind == "transitional":
        if before != "regular":
            return f"a transitional configuration follows a regular one, not {h.conf_id(current)}"
        if declared.reg != current:
            return f"follows {h.conf_id(current)}, but names {h.conf_id(declared.reg)}"
    return None


def _shared_enterings(h: History) -> int:
    return sum(len(conf.entered) for conf in h.confs if len(conf.entered) > 1)


def _crossings(h: History) -> Iterator[tuple[Knot, int]]:
    """The knots in which one node's entering of a configuration comes, through other events, before or after
    another's; and the lowest such entering."""
    for knot in h.once(Precedes).knots(Graph.CONFS):
        shared = [group for group in knot.merged if h.kind[group[0]] == CONF]
        if shared:
            yield knot, shared[0][0]


def _nothing_from_after_comes_before(h: History, tally: Tally) -> None:
    tally.cases += _shared_enterings(h)
    for knot, lowest in _crossings(h):
        event = knot.cycle(lowest)[-1][0]
        story = f"follows {h.conf_id(h.conf[lowest])} elsewhere, but not here: {knot.describe(lowest)}"
        tally.violate(h.run.run, h.names[h.node[event]], h.n[event], f"{h.describe(event)}: {story}")
    _one_id_one_configuration(h, tally)


def _nothing_from_before_comes_after(h: History, tally: Tally) -> None:
    tally.cases += _shared_enterings(h)
    for knot, lowest in _crossings(h):
        event = knot.cycle(lowest)[0][1]
        story = f"precedes {h.conf_id(h.conf[lowest])} elsewhere, but not here: {knot.describe(lowest)}"
        tally.violate(h.run.run, h.names[h.node[event]], h.n[event], f"{h.describe(event)}: {story}")
    _transitional_members(h, tally)


@where_clear
def _prove_no_crossing(run: EvsPatterns, proof: Proof) -> None:
    """Of both: the knots among configurations alone are found by the skeleton, those through messages are not."""
    if not run.is_acyclic:
        proof.doubt()


def _one_id_one_configuration(h: History, tally: Tally) -> None:
    """2.3: an entering that differs in kind, members or reg from the lowest one."""
    for conf in h.confs:
        for event in conf.entered[1:]:
            told, first = h.declared[event], h.declared[conf.entered[0]]
            if told == first:
                continue
            detail = f"{h.describe(event)} of {_members(h, event)}: {h.describe(conf.entered[0])} differs"
            if told.members != first.members:
                detail += f", of {_members(h, conf.entered[0])}"
            tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _members(h: History, event: int) -> str:
    return ",".join(sorted(h.names[member] for member in h.declared[event].members)) or "nobody"


def _transitional_members(h: History, tally: Tally) -> None:
    """2.4, of the entering of a transitional configuration: it holds a node that is not in the regular one before it
    or in the one after it, or that came to the latter another way; or it lacks one that came there from the same
    regular one."""
    arrived = _arrivals(h)
    for node in range(h.nodes):
        for stay in h.stays[node]:
            if h.declared[stay.begin].kind != "transitional":
                continue
            tally.cases += 1
            problem = _misfit(h, stay, arrived)
            if problem:
                detail = f"{h.describe(stay.begin)} of {_members(h, stay.begin)}: {problem}"
                tally.violate(h.run.run, h.names[node], h.n[stay.begin], detail)


def _arrivals(h: History) -> dict[int, dict[int, Stay]]:
    """By regular configuration, and by node: the transitional stay from which the node entered it."""
    arrived: dict[int, dict[int, Stay]] = {}
    for stays in h.stays:
        for stay in stays:
            if stay.next != NONE and h.declared[stay.begin].kind == "transitional":
                arrived.setdefault(stay.next, {}).setdefault(stay.node, stay)
    return arrived


def _misfit(h: History, stay: Stay, arrived: dict[int, dict[int, Stay]]) -> str | None:
    declared = h.declared[stay.begin]
    inside = set(declared.members)
    for conf in (declared.reg, stay.next):
        if conf != NONE and h.confs[conf].kind == "regular":
            strangers = inside.difference(h.confs[conf].members)
            if strangers:
                return f"{h.names[min(strangers)]} is no member of {h.conf_id(conf)}"
    if stay.next == NONE:
        return None
    for node, other in arrived[stay.next].items():
        came_from = h.declared[other.begin].reg
        if node in inside and other.conf != stay.conf:
            return f"{h.names[node]} came to {h.conf_id(stay.next)} by {h.conf_id(other.conf)}"
        if node not in inside and came_from == declared.reg:
            return f"{h.names[node]} went from {h.conf_id(came_from)} to {h.conf_id(stay.next)} as well"
    return None


CHECKS = (
    EvsCheck(
        id="evs.2.1",
        layer="evs",
        source="Specification 2.1",
        case="where settled: a node that ends, up, in a configuration, and a member of that",
        violated="the member does not end, up, in the same one",
        check=_ends_together,
        skeleton=True,
    ),
    EvsCheck(
        id="evs.2.2",
        every_row=True,
        layer="evs",
        source="Specification 2.2",
        case="a row, of any layer",
        violated="see below",
        cases=lambda n: n.rows,
        check=_one_after_the_other,
        prove=_prove_one_after_the_other,
        facts=("outside", "stray"),
    ),
    EvsCheck(
        id="evs.2.3",
        layer="evs",
        source="Specification 2.3",
        case="the entering of a configuration that is entered more than once",
        violated="it differs from the lowest entering of the same id in kind, members or `reg`; or (counted by knot)"
        " an event before it follows another node's entering of it",
        check=_nothing_from_after_comes_before,
        prove=_prove_no_crossing,
        skeleton=True,
        facts=("strange", "resent", "uncausal", "tardy", "lacking", "between", "disordered"),
    ),
    EvsCheck(
        id="evs.2.4",
        layer="evs",
        source="Specification 2.4",
        case="the same; and the entering of a transitional configuration",
        violated="(counted by knot) an event after it precedes another node's entering of it; or the transitional"
        " configuration's members do not fit, see below",
        check=_nothing_from_before_comes_after,
        prove=_prove_no_crossing,
        skeleton=True,
        facts=("strange", "resent", "uncausal", "tardy", "lacking", "between", "disordered"),
    ),
)
