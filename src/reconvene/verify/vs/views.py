"""L3: the views of a group are one sequence, and each view is the same, at the same logical time, at all its members.

A view's number is its time. What makes a sequence of them the filter's is judged here as well: it merges one process
at a time (rule 3), and a process that left the primary component comes back under another identity (rule 4).
"""

from reconvene.verify.codes import CONF
from reconvene.verify.history import History
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tally
from reconvene.verify.vs.patterns import ViewCheck

__all__ = ["CHECKS"]


def _one_sequence(h: History, tally: Tally) -> None:
    p = h.processes
    returned = _returned(p)
    for process in range(p.nodes):
        last: dict[int, int] = {}
        for event in range(p.first[process], p.first[process + 1]):
            if p.kind[event] != CONF:
                continue
            tally.cases += 1
            group = p.confs[p.conf[event]].group
            problem = _problem(p, event, last.get(group), returned)
            if problem is not None:
                tally.violate(h.run.run, *p.where(event), f"{p.describe(event)}: {problem}")
            last[group] = event


def _problem(p: Processes, event: int, before: int | None, returned: dict[int, int]) -> str | None:
    view, declared = p.confs[p.conf[event]], p.declared[event]
    lowest = view.entered[0]
    if event in p.late:
        return "the process was over"
    if declared != p.declared[lowest]:
        return f"with other members, primary or configuration than {p.describe(lowest)}"
    if p.node[event] not in declared.members:
        return "the process is not a member of it"
    if before is not None:
        if view.number <= p.confs[p.conf[before]].number:
            return (
                f"its number is not above that of {p.view_name(p.conf[before])}, which the process installed before"
            )
        came = declared.members - p.declared[before].members
        if len(came) > 1:
            names = ",".join(sorted(p.names[process] for process in came))
            return f"adds {names} to {p.view_name(p.conf[before])}; expected one process at a time"
    if event == lowest and p.conf[event] in returned:
        name = p.names[returned[p.conf[event]]]
        return f"{name} is back, which an earlier view had dropped; expected a new identity"
    return None


def _returned(p: Processes) -> dict[int, int]:
    """By view: of its members that an earlier view of the group has, and the one just before it lacks, the lowest by
    name."""
    groups: list[list[int]] = [[] for _ in p.groups]
    for index, described in enumerate(p.confs):
        if described.entered:
            groups[described.group].append(index)
    found: dict[int, int] = {}
    for views in groups:
        views.sort(key=lambda view: p.confs[view].number)
        known: set[int] = set()
        before: frozenset[int] = frozenset()
        for view in views:
            members = p.confs[view].members
            back = (members - before) & known
            if back:
                found[view] = min(back, key=p.names.__getitem__)
            known |= members
            before = members
    return found


CHECKS = (
    ViewCheck(
        id="vs.L3",
        layer="vs",
        source="section 4, L3; rules 3 and 4",
        case="a view event",
        violated="see below",
        check=_one_sequence,
        skeleton=True,
    ),
)
