"""Liveness (property 3.8): where a component with a quorum comes to rest, everything in it becomes green."""

from reconvene.verify.history import History
from reconvene.verify.live import components
from reconvene.verify.log_history import ESTABLISH, NEVER
from reconvene.verify.quorums import quorum_of
from reconvene.verify.report import Tally

__all__ = ["all_green", "may_order"]


def all_green(h: History, tally: Tally) -> None:
    """Case, where the run is settled: a component of which those who are up hold a quorum, a message that one of
    them accepted or came to have, and one of them. Violation: the message is not green there at the end."""
    if not h.run.settled:
        return
    log = h.log
    for component in components(h):
        if not may_order(h, component):
            continue
        lowest: dict[int, tuple[int, int]] = {}
        for node in component:
            replica = log.replicas[node]
            for message, place in zip(replica.order, replica.entered, strict=True):
                lowest.setdefault(message, (node, place))
        for node in component:
            tally.cases += len(lowest)
            green = log.replicas[node].green
            for message, (where, place) in lowest.items():
                if green[message] == NEVER:
                    detail = (
                        f"{log.messages[message]}, from {log.describe(where, place)} on in a component with a quorum,"
                        f" is not green at {h.names[node]}"
                    )
                    tally.violate(h.run.run, h.names[where], log.replicas[where].n[place], detail)


def may_order(h: History, component: list[int]) -> bool:
    """Do they hold a quorum? With dynamic voting: did one of them last establish a primary component of just them?"""
    names = frozenset(h.names[node] for node in component)
    quorum = quorum_of(h.run)
    if quorum is not None:
        return quorum.holds(names)
    for node in component:
        replica = h.log.replicas[node]
        numbers = [number for kind, number in zip(replica.kind, replica.number, strict=True) if kind == ESTABLISH]
        if numbers and h.log.members[numbers[-1]] == names:
            return True
    return False
