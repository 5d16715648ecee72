"""L1, L2, L4 and L5: one logical time, deliveries in one view, and timestamps that are the time of an abcast."""

from reconvene.verify.check import Proof
from reconvene.verify.codes import AGREED, CONF, DELIVER, NONE, SEND
from reconvene.verify.history import History
from reconvene.verify.precedes import Graph
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tally
from reconvene.verify.vs.extend import order_of
from reconvene.verify.vs.patterns import ViewCheck, ViewPatterns, where_clear

__all__ = ["CHECKS"]


def _causal_time(h: History, tally: Tally) -> None:
    _report_knots(h, Graph.PLAIN, tally, "precedes itself")


@where_clear
def _prove_causal_time(run: ViewPatterns, proof: Proof) -> None:
    if not run.is_acyclic:
        proof.doubt()


def _distinct_times(h: History, tally: Tally) -> None:
    """A knot, once the events of one view, and the deliveries of one agreed or safe message, have one time (L3, L5):
    it always holds two events of one process."""
    _report_knots(h, Graph.TOTAL, tally, "no distinct times")


@where_clear
def _prove_distinct_times(run: ViewPatterns, proof: Proof) -> None:
    if not run.has_logical_time:
        proof.doubt()


def _report_knots(h: History, graph: Graph, tally: Tally, what: str) -> None:
    p = h.processes
    for knot in h.once(order_of).knots(graph):
        event = p.lowest(knot.events)
        tally.violate(h.run.run, *p.where(event), f"{what}: {knot.describe(event)}")


def _in_one_view(h: History, tally: Tally) -> None:
    p = h.processes
    for process in range(p.nodes):
        current: dict[int, int] = {}
        for event in range(p.first[process], p.first[process + 1]):
            kind, view = p.kind[event], p.conf[event]
            if kind == CONF:
                current[p.confs[view].group] = view
                continue
            if kind not in (SEND, DELIVER):
                continue
            problem = None
            if event in p.late:
                problem = "the process was over"
            elif (here := current.get(p.confs[view].group)) != view:
                problem = f"the process was in {p.view_name(here)}" if here is not None else "it was in no view yet"
            elif kind == DELIVER:
                problem = _misplaced(p, event)
            if problem is not None:
                tally.violate(h.run.run, *p.where(event), f"{p.describe(event)}: {problem}")


def _prove_in_one_view(run: ViewPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["outside"] + run.sums["spread"])
    if run.is_unclear:
        proof.doubt()
    for pattern in run.misplaced:
        proof.suspect(pattern.messages, pattern.row)


def _misplaced(p: Processes, event: int) -> str | None:
    message, view = p.msg[event], p.conf[event]
    if p.home[message] != view:
        return f"another view than {p.describe(p.first_delivered[message])}"
    cast = p.sent[message]
    if cast == NONE or p.conf[cast] == view:
        return None
    # It was cast before a change of the view that it is ordered after.
    there, here = p.confs[p.conf[cast]], p.confs[view]
    if (there.group, there.primary) == (here.group, here.primary) and there.number < here.number:
        return None
    return f"not a view that follows {p.describe(cast)} in its primary component"


def _at_one_time(h: History, tally: Tally) -> None:
    p = h.processes
    first, owner = _stamps(p)
    for process in range(p.nodes):
        last: dict[int, int] = {}
        for event in range(p.first[process], p.first[process + 1]):
            if p.kind[event] != DELIVER or p.service[event] < AGREED:
                continue
            ts, message, group = p.ts[event], p.msg[event], p.confs[p.conf[event]].group
            before = last.get(group, NONE)
            if ts != NONE:
                last[group] = event
            if ts == NONE:
                problem = "has no timestamp"
            elif p.ts[first[message]] != ts:
                problem = f"with {_show(p, event)}, but {p.describe(first[message])} with {_show(p, first[message])}"
            elif p.msg[owner[ts]] != message:
                problem = f"has the timestamp {_show(p, event)} of {p.messages[p.msg[owner[ts]]]}"
            elif before != NONE and ts <= p.ts[before]:
                problem = f"with {_show(p, event)} after {_show(p, before)}"
            else:
                continue
            tally.violate(h.run.run, *p.where(event), f"{p.describe(event)}: {problem}")


def _prove_at_one_time(run: ViewPatterns, proof: Proof) -> None:
    proof.suspect(run.unstamped)


def _stamps(p: Processes) -> tuple[list[int], list[int]]:
    """Of each message, and of each timestamp, the lowest delivery with one, or NONE."""
    first = [NONE] * len(p.messages)
    owner = [NONE] * len(p.timestamps)
    for event, ts in enumerate(p.ts):
        if ts == NONE:
            continue
        rank, message = p.rank[event], p.msg[event]
        if first[message] == NONE or rank < p.rank[first[message]]:
            first[message] = event
        if owner[ts] == NONE or rank < p.rank[owner[ts]]:
            owner[ts] = event
    return first, owner


def _show(p: Processes, event: int) -> str:
    return str(list(p.timestamps[p.ts[event]]))


CHECKS = (
    ViewCheck(
        id="vs.L1",
        layer="vs",
        source="section 4, L1",
        case="an event",
        violated="(counted by knot) it precedes itself through others",
        cases=lambda n: n.events,
        check=_causal_time,
        prove=_prove_causal_time,
        skeleton=True,
        facts=("early", "resent", "uncausal", "tardy", "lacking", "between"),
    ),
    ViewCheck(
        id="vs.L2",
        layer="vs",
        source="section 4, L2",
        case="an event that is not about a fifo message",
        violated="(counted by knot) no two events of a process can have distinct times, see below",
        cases=lambda n: n.events - n.fifo,
        check=_distinct_times,
        prove=_prove_distinct_times,
        skeleton=True,
        facts=(
            "strange", "blurred", "early", "resent", "again", "uncausal", "unlike", "unstamped", "lacking", "between",
            "disordered",
        ),
    ),
    ViewCheck(
        id="vs.L4",
        layer="vs",
        source="section 4, L4",
        case="a cast; a delivery",
        violated="the process is over; or it names another view than the last one that the process installed in the"
        " group before, or there is none; or, of a delivery, it is in another view than the message's lowest"
        " delivery; or its view is neither that of the message's cast nor one of a higher number in the same group"
        " and primary component",
        cases=lambda n: n.casts + n.deliveries,
        check=_in_one_view,
        prove=_prove_in_one_view,
        facts=("spread", "outside"),
    ),
    ViewCheck(
        id="vs.L5",
        layer="vs",
        source="section 4, L5",
        case="an agreed or safe delivery",
        violated="it has no `ts`; or the message's lowest delivery with one has another; or the lowest delivery with"
        " that `ts` is of another message; or it is not above that of the same process's last delivery with one in"
        " the same group",
        cases=lambda n: n.ordered,
        check=_at_one_time,
        prove=_prove_at_one_time,
        facts=("unlike", "unstamped", "alike", "disordered"),
    ),
)  # fmt: skip
