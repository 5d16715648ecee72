"""Liveness (property 3.8): where a component with a quorum comes to rest, everything in it becomes green."""

from reconvene.verify.check import Proof
from reconvene.verify.corel.sums import LogCheck, LogSums, prove_by_facts
from reconvene.verify.history import History
from reconvene.verify.live import components
from reconvene.verify.log_history import ESTABLISH, NEVER
from reconvene.verify.quorums import quorum_of
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "may_order"]


def _all_green(h: History, tally: Tally) -> None:
    if not h.run.settled:
        return
    log = h.log
    for component in components(h):
        if not may_order(h, component):
            continue
        lowest: dict[int, tuple[int, int]] = {}
        for node in component:
            node_log = log.node_logs[node]
            for message, place in zip(node_log.order, node_log.entered, strict=True):
                lowest.setdefault(message, (node, place))
        for node in component:
            tally.cases += len(lowest)
            green = log.node_logs[node].green
            for message, (where, place) in lowest.items():
                if green[message] == NEVER:
                    detail = (
                        f"{log.messages[message]}, from {log.describe(where, place)} on in a component with a quorum,"
                        f" is not green at {h.names[node]}"
                    )
                    tally.violate(h.run.run, h.names[where], log.node_logs[where].n[place], detail)


def may_order(h: History, component: list[int]) -> bool:
    """Do they hold a quorum? With dynamic voting: did one of them last establish a primary component of just them?"""
    names = frozenset(h.names[node] for node in component)
    quorum = quorum_of(h.run)
    if quorum is not None:
        return quorum.holds(names)
    for node in component:
        node_log = h.log.node_logs[node]
        numbers = [number for kind, number in zip(node_log.kind, node_log.number, strict=True) if kind == ESTABLISH]
        if numbers and h.log.members[numbers[-1]] == names:
            return True
    return False


def _prove_all_green(run: LogSums, proof: Proof) -> None:
    proof.cases += run.rests
    prove_by_facts(run, proof)


CHECKS = (
    LogCheck(
        id="corel.3.8",
        layer="corel",
        source="COReL, property 3.8",
        case="where settled: a component with a quorum, a message that one of its nodes that are up accepted or has,"
        " and one of these nodes",
        violated="the message is not green there at the end",
        check=_all_green,
        prove=_prove_all_green,
        facts=("not_green", "torn"),
    ),
)
