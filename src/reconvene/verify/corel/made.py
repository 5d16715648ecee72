"""In which primary component each message was made green.

A node is *in* a primary component from its establish event on, until it leaves the configuration or goes on to
another attempt, commit or adoption. What it makes green there, it makes green in the context of that component; what
it learns to be green in a recovery is made green in none.

Rows of the log may be recorded late, after the configuration events of a change that came meanwhile. So a green event
that comes after the node has left *may have been* made in that component: as long as the node has entered one other
regular configuration at most, and has not failed. Where no event that is in time shows where a message
was made green, a late one does. Of the components that are possible the highest one counts: a node that knows of that
one knows of all before it.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from reconvene.verify.history import History
from reconvene.verify.log_history import (
    ADOPT,
    ATTEMPT,
    COMMIT,
    ESTABLISH,
    GREEN,
    LEAVE,
    NEVER,
    NodeLog,
)

__all__ = ["TERM", "Made", "MadeGreen", "made_green"]

TERM = frozenset({ATTEMPT, COMMIT, ADOPT})
"""Events with which a node leaves the primary component that it is in."""


class Made(NamedTuple):
    """The number of a primary component in which a message was made green, and by which event."""

    primary: int
    node: int
    place: int


@dataclass(slots=True)
class MadeGreen:
    by_message: dict[int, Made] = field(default_factory=dict)
    """The lowest primary component in which it was made green, and the lowest event of that. Where only late events
    tell: the highest in which it may have been, and the lowest event of that."""
    late: dict[tuple[int, int], int] = field(default_factory=dict)
    """By node and message, of these latter: where the node itself made it green, late."""
    positions: set[int] = field(default_factory=set)
    """Positions with a green event that was, or may have been, made in a primary component."""


def made_green(h: History) -> MadeGreen:
    found = MadeGreen()
    late: list[tuple[int, Made]] = []
    for node, node_log in enumerate(h.log.node_logs):
        _follow(node, node_log, found, late)
    certain = frozenset(found.by_message)
    uncertain = [(message, made) for message, made in late if message not in certain]
    for message, made in uncertain:
        known = found.by_message.get(message)
        if known is None or made.primary > known.primary:
            found.by_message[message] = made
    for message, made in uncertain:
        if made.primary == found.by_message[message].primary:
            found.late.setdefault((made.node, message), made.place)
    return found


def _follow(node: int, node_log: NodeLog, found: MadeGreen, late: list[tuple[int, Made]]) -> None:
    """Goes through a node's events. Adds what it made green in time, and to `late` what it may have made green."""
    by_message, positions = found.by_message, found.positions
    primary: int | None = None
    inside = False
    end = NEVER
    for place, kind in enumerate(node_log.kind):
        if kind == GREEN:
            if primary is None or place >= end:
                continue
            positions.add(node_log.number[place])
            made = Made(primary, node, place)
            message = node_log.msg[place]
            if not inside:
                late.append((message, made))
            elif message not in by_message or made < by_message[message]:
                by_message[message] = made
        elif kind == ESTABLISH:
            primary, inside, end = node_log.number[place], place not in node_log.stale, _late_end(node_log, place)
        elif kind in TERM:
            primary = None
        elif kind == LEAVE:
            inside = False


def _late_end(node_log: NodeLog, establish: int) -> int:
    """From which place on nothing can have been made green in this component any more, however late it is told."""
    arrived, failed = node_log.arrived, node_log.failed
    second = bisect_right(arrived, establish) + 1
    failure = bisect_right(failed, establish)
    return min(
        arrived[second] if second < len(arrived) else NEVER,
        failed[failure] if failure < len(failed) else NEVER,
    )
