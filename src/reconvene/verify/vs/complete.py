"""C2 and C3: what is cast is delivered, once, by its caster, and by all that go on with one that delivered it."""

from reconvene.verify.codes import DELIVER, SAFE, SEND
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tally
from reconvene.verify.vs.extend import Extend

__all__ = ["check"]


def check(run: str, processes: Processes, extend: Extend, own: Tally, common: Tally) -> None:
    _delivered_by_caster(run, processes, extend, own)
    _delivered_by_all(run, processes, extend, common)


def _delivered_by_caster(run: str, p: Processes, extend: Extend, tally: Tally) -> None:
    """C2. Case: a cast. Violation: the message was cast before, by anyone; or the process did
    not deliver it, in whichever view, though it outlives the primary component. Case: a delivery. Violation: the
    process delivered the message before."""
    for process in range(p.nodes):
        first: dict[int, int] = {}
        casts: list[int] = []
        for event in range(p.first[process], p.first[process + 1]):
            kind = p.kind[event]
            if kind == DELIVER:
                tally.cases += 1
                before = first.setdefault(p.msg[event], event)
                if before != event:
                    detail = f"{p.describe(event)}: was delivered before, {p.describe(before)}"
                    tally.violate(run, *p.where(event), detail)
            elif kind == SEND:
                casts.append(event)
        tally.cases += len(casts)
        for event in casts:
            if p.sent[p.msg[event]] != event:
                detail = f"was cast before, {p.describe(p.sent[p.msg[event]])}"
            elif p.msg[event] not in first and extend.outlives(process, p.conf[event]):
                detail = "its caster went on without delivering it"
            else:
                continue
            tally.violate(run, *p.where(event), f"{p.describe(event)}: {detail}")


def _delivered_by_all(run: str, p: Processes, extend: Extend, tally: Tally) -> None:
    """C3. Case: a process that goes on from a view, and a message that was delivered there by it, by a process that
    goes on with it, or, if safe, by anyone. Violation: it did not deliver it there."""
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
