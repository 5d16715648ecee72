"""The green prefix: one sequence everywhere (property 3.6, Agreed Green), and it only grows (No Changes in Green).

Agreed Green goes by the positions that events name; property 3.6 by the order in which each node made messages green,
whatever positions it gave them.
"""

from collections.abc import Iterator

from reconvene.verify.history import History
from reconvene.verify.log_history import GREEN, RED, SNAPSHOT, YELLOW
from reconvene.verify.report import Tally

__all__ = ["agreed", "appended_only", "one_sequence"]

_Found = tuple[int, int, int]
"""A green event, by node and place, with the position that counts."""


def one_sequence(h: History, tally: Tally) -> None:
    """Case: a green event. Its count is how many green events its node has before it; where there is a snapshot
    before it, the last one's position and how many come after that. Violation: the lowest green event of this count
    is of another message; or the lowest one of this message has another count."""
    _compare(h, _counted(h), "the node's green message", tally)


def agreed(h: History, tally: Tally) -> None:
    """Case: a green event. Violation: the lowest one of the same position is of another message; or the lowest one
    of the same message has another position."""
    _compare(h, _positioned(h), "position", tally)


def _counted(h: History) -> Iterator[_Found]:
    for node, replica in enumerate(h.log.replicas):
        count = 0
        for place, kind in enumerate(replica.kind):
            if kind == GREEN:
                yield node, place, count
                count += 1
            elif kind == SNAPSHOT:
                count = replica.number[place]


def _positioned(h: History) -> Iterator[_Found]:
    for node, replica in enumerate(h.log.replicas):
        for place, kind in enumerate(replica.kind):
            if kind == GREEN:
                yield node, place, replica.number[place]


def _compare(h: History, found: Iterator[_Found], what: str, tally: Tally) -> None:
    log = h.log
    at: dict[int, _Found] = {}
    of: dict[int, _Found] = {}
    for event in found:
        node, place, position = event
        replica = log.replicas[node]
        message = replica.msg[place]
        tally.cases += 1
        same_place = at.setdefault(position, event)
        same_message = of.setdefault(message, event)
        if log.replicas[same_place[0]].msg[same_place[1]] != message:
            other = same_place
        elif same_message[2] != position:
            other = same_message
        else:
            continue
        detail = (
            f"{log.describe(node, place)}: as {what} {position}, but {log.describe(other[0], other[1])} as {other[2]}"
        )
        tally.violate(h.run.run, replica.name, replica.n[place], detail)


def appended_only(h: History, tally: Tally) -> None:
    """Case: a green, yellow or red event, a snapshot. Violation, of a green event: its position is not the node's
    next one, or the node does not have the message; of a yellow or red event: the message is green at the node; of
    a snapshot: its position is below the node's next one. The next one is 0 at first, one above the last green
    event's, and a snapshot's own after that."""
    log = h.log
    for node, replica in enumerate(log.replicas):
        after = 0
        for place, kind in enumerate(replica.kind):
            message, number = replica.msg[place], replica.number[place]
            problem = None
            if kind == GREEN:
                if number != after:
                    problem = f"the node's next position is {after}"
                elif replica.had[message] > place:
                    problem = "the node does not have it"
                after = number + 1
            elif kind in (YELLOW, RED):
                if replica.green[message] < place:
                    problem = f"it is green here since {log.describe(node, replica.green[message])}"
            elif kind == SNAPSHOT:
                if number < after:
                    problem = f"the node's next position is {after}"
                after = number
            else:
                continue
            tally.cases += 1
            if problem:
                detail = f"{log.describe(node, place)}: {problem}"
                tally.violate(h.run.run, replica.name, replica.n[place], detail)
