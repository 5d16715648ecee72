"""L1, L2, L4 and L5: one logical time, deliveries in one view, and timestamps that tell the time of an abcast."""

from reconvene.verify.codes import AGREED, CONF, DELIVER, FIFO, NONE, SEND
from reconvene.verify.precedes import Graph, Precedes
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tallies, Tally

__all__ = ["check"]


def check(run: str, processes: Processes, order: Precedes, tallies: Tallies) -> None:
    _causal_time(run, processes, order, tallies["vs.L1"])
    _distinct_times(run, processes, order, tallies["vs.L2"])
    _in_one_view(run, processes, tallies["vs.L4"])
    _at_one_time(run, processes, tallies["vs.L5"])


def _causal_time(run: str, p: Processes, order: Precedes, tally: Tally) -> None:
    """L1. Case: an event. Violation: a knot of events that precede each other, so that no time respects it."""
    tally.cases += len(p.kind)
    _report_knots(run, p, order, Graph.PLAIN, tally, "precedes itself")


def _distinct_times(run: str, p: Processes, order: Precedes, tally: Tally) -> None:
    """L2. Case: an event that is not about a fifo message. Violation: a knot, once the events of one view, and the
    deliveries of one agreed or safe message, have one time (L3, L5): it always holds two events of one process."""
    tally.cases += sum(message == NONE or p.msg_service[message] != FIFO for message in p.msg)
    _report_knots(run, p, order, Graph.TOTAL, tally, "no distinct times")


def _report_knots(run: str, p: Processes, order: Precedes, graph: Graph, tally: Tally, what: str) -> None:
    for knot in order.knots(graph):
        event = p.lowest(knot.events)
        tally.violate(run, *p.where(event), f"{what}: {knot.describe(event)}")


def _in_one_view(run: str, p: Processes, tally: Tally) -> None:
    """L4. Case: a cast or a delivery. Violation: it names another view than the last that its process installed in
    the group, or its process is over; or, of a delivery, another than the message's lowest delivery, or one that is
    neither the view of its cast nor a later one of the same primary component."""
    for process in range(p.nodes):
        current: dict[int, int] = {}
        for event in range(p.first[process], p.first[process + 1]):
            kind, view = p.kind[event], p.conf[event]
            if kind == CONF:
                current[p.confs[view].group] = view
                continue
            if kind not in (SEND, DELIVER):
                continue
            tally.cases += 1
            problem = None
            if event in p.late:
                problem = "the process was over"
            elif (here := current.get(p.confs[view].group)) != view:
                problem = f"the process was in {p.view_name(here)}" if here is not None else "it was in no view yet"
            elif kind == DELIVER:
                problem = _misplaced(p, event)
            if problem is not None:
                tally.violate(run, *p.where(event), f"{p.describe(event)}: {problem}")


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


def _at_one_time(run: str, p: Processes, tally: Tally) -> None:
    """L5. Case: an agreed or safe delivery. Violation: it has no timestamp; or another than the message's lowest
    delivery with one; or that of another message, whose delivery with it is lower; or one that is not above that of
    the process's last such delivery in the group."""
    first, owner = _stamps(p)
    for process in range(p.nodes):
        last: dict[int, int] = {}
        for event in range(p.first[process], p.first[process + 1]):
            if p.kind[event] != DELIVER or p.service[event] < AGREED:
                continue
            tally.cases += 1
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
            tally.violate(run, *p.where(event), f"{p.describe(event)}: {problem}")


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
