"""Liveness (property 3.8): where a component with a quorum comes to rest, everything in it becomes green."""

from reconvene.trace.events import is_changed
from reconvene.verify.check import Proof
from reconvene.verify.corel.sums import LogCheck, LogSums, prove_by_facts
from reconvene.verify.history import History
from reconvene.verify.live import components
from reconvene.verify.log_history import ESTABLISH, NEVER, Component
from reconvene.verify.quorums import quorum_of
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "ordering_nodes"]


def _all_green(h: History, tally: Tally) -> None:
    if not h.run.settled:
        return
    log = h.log
    for component in components(h):
        judged = ordering_nodes(h, component)
        lowest: dict[int, tuple[int, int]] = {}
        for node in judged:
            node_log = log.node_logs[node]
            for message, place in zip(node_log.order, node_log.entered, strict=True):
                lowest.setdefault(message, (node, place))
        for node in judged:
            tally.cases += len(lowest)
            green = log.node_logs[node].green
            for message, (where, place) in lowest.items():
                if green[message] == NEVER:
                    detail = (
                        f"{log.messages[message]}, from {log.describe(where, place)} on in a component with a quorum,"
                        f" is not green at {h.names[node]}"
                    )
                    tally.violate(h.run.run, h.names[where], log.node_logs[where].n[place], detail)


def ordering_nodes(h: History, component: list[int]) -> list[int]:
    """The nodes of a component that have to order all that they have. None, if they hold no quorum.

    Where run.json does not say what a quorum is, the highest primary component that one of them established counts.
    With dynamic voting it has to be of just these nodes. Where the replicas were changed, some of them may be no
    replicas: then it may also be of some of them, if it was established in the configuration that all end in.
    """
    names = frozenset(h.names[node] for node in component)
    quorum = quorum_of(h.run)
    if quorum is not None:
        return component if quorum.holds(names) else []
    last = _last_established(h, component)
    if last is None:
        return []
    if last.members == names:
        return component
    ends = {h.conf_id(stay.conf) for node in component if (stay := h.last_stay(node)) is not None}
    if is_changed(h.run) and ends == {last.conf}:
        return [node for node in component if h.names[node] in last.members]
    return []


def _last_established(h: History, nodes: list[int]) -> Component | None:
    highest: tuple[int, Component] | None = None
    for node in nodes:
        node_log = h.log.node_logs[node]
        for place, component in node_log.named.items():
            number = node_log.number[place]
            if node_log.kind[place] == ESTABLISH and (highest is None or number > highest[0]):
                highest = number, component
    return None if highest is None else highest[1]


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
