"""C2 and C3: what is cast is delivered, once, by its caster, and by all that go on with one that delivered it."""

from reconvene.verify.check import Proof
from reconvene.verify.codes import DELIVER, SAFE, SEND
from reconvene.verify.history import History
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tally
from reconvene.verify.vs.extend import extend_of
from reconvene.verify.vs.patterns import ViewCheck, ViewPatterns

__all__ = ["CHECKS"]


def _delivered_by_caster(h: History, tally: Tally) -> None:
    run, p, extend = h.run.run, h.processes, h.once(extend_of)
    for process in range(p.nodes):
        first: dict[int, int] = {}
        casts: list[int] = []
        for event in range(p.first[process], p.first[process + 1]):
            kind = p.kind[event]
            if kind == DELIVER:
                before = first.setdefault(p.msg[event], event)
                if before != event:
                    detail = f"{p.describe(event)}: was delivered before, {p.describe(before)}"
                    tally.violate(run, *p.where(event), detail)
            elif kind == SEND:
                casts.append(event)
        for event in casts:
            if p.sent[p.msg[event]] != event:
                detail = f"was cast before, {p.describe(p.sent[p.msg[event]])}"
            elif p.msg[event] not in first and extend.outlives(process, p.conf[event]):
                detail = "its caster went on without delivering it"
            else:
                continue
            tally.violate(run, *p.where(event), f"{p.describe(event)}: {detail}")


def _prove_delivered_by_caster(run: ViewPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["resent"] + run.sums["again"])
    if run.is_unclear:
        proof.doubt()
    for pattern in run.patterns:
        if pattern.view is None or pattern.caster in pattern.by:
            continue
        if run.extend.outlives(pattern.caster, pattern.view):
            proof.suspect(pattern.messages, pattern.row)


def _delivered_by_all(h: History, tally: Tally) -> None:
    run, p, extend = h.run.run, h.processes, h.once(extend_of)
    by_view: dict[int, list[int]] = {}
    for process, view in extend.going_on():
        by_view.setdefault(view, []).append(process)
    told: dict[tuple[int, int], int] = {}
    for view, processes in by_view.items():
        delivered = p.delivered[view]
        # Most often all go on together: their union is made once.
        unions: dict[frozenset[int], set[int]] = {}
        for process in processes:
            together = extend.together(process, view)
            union = unions.get(together)
            if union is None:
                union = unions[together] = _owed(p, delivered, together)
            mine = delivered.get(process, set())
            if process not in together:
                union = union | mine
            tally.cases += len(union)
            if len(mine) != len(union):
                _report_lacking(run, p, view, process, union - mine, told, tally)


def _owed(p: Processes, delivered: dict[int, set[int]], together: frozenset[int]) -> set[int]:
    union: set[int] = set()
    for process, messages in delivered.items():
        if process in together:
            union |= messages
        else:
            union.update(message for message in messages if p.msg_service[message] == SAFE)
    return union


def _report_lacking(
    run: str, p: Processes, view: int, process: int, lacking: set[int], told: dict[tuple[int, int], int], tally: Tally
) -> None:
    if not told:
        _tell(p, told)
    entered = next(event for event in p.confs[view].entered if p.node[event] == process)
    for message in lacking:
        detail = f"{p.describe(entered)}: the process went on without {p.describe(told[view, message])}"
        tally.violate(run, *p.where(entered), detail)


def _tell(p: Processes, told: dict[tuple[int, int], int]) -> None:
    """By view and message, the lowest delivery."""
    for event in sorted(range(len(p.kind)), key=p.rank.__getitem__):
        if p.kind[event] == DELIVER:
            told.setdefault((p.conf[event], p.msg[event]), event)


def _prove_delivered_by_all(run: ViewPatterns, proof: Proof) -> None:
    """Which process goes on from a view, with which others, is known from views alone."""
    if run.is_unclear:
        proof.doubt()
    going_on: dict[int, list[int]] = {}
    for process, view in run.extend.going_on():
        going_on.setdefault(view, []).append(process)
    for pattern in run.patterns:
        for process in going_on.get(pattern.home, ()) if pattern.delivered else ():
            together = run.extend.together(process, pattern.home)
            if process in pattern.by:
                proof.cases += pattern.messages
            elif pattern.service == SAFE or not pattern.by.isdisjoint(together):
                proof.cases += pattern.messages
                proof.suspect(pattern.messages, pattern.row)


CHECKS = (
    ViewCheck(
        id="vs.C2",
        layer="vs",
        source="section 4, C2",
        case="a cast; a delivery",
        violated="the message was cast before, by any process (the lowest cast counts); or its process did not"
        " deliver it, in whichever view, and installed a view of the group in a later primary component than the"
        " cast's view is of, or, where the run is settled, is not over at the end; of a delivery: the process"
        " delivered the message before",
        cases=lambda n: n.casts + n.deliveries,
        check=_delivered_by_caster,
        prove=_prove_delivered_by_caster,
        facts=("resent", "again"),
    ),
    ViewCheck(
        id="vs.C3",
        layer="vs",
        source="sections 4 and 5.1, C3",
        case="a process that goes on from a view, and a message that was delivered in that view by itself, by one"
        " that it goes on with, or, if safe, by any process",
        violated="it did not deliver it in that view",
        check=_delivered_by_all,
        prove=_prove_delivered_by_all,
    ),
)
