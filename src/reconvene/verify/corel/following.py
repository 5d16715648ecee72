"""Followers and outposts of the log: what a follower has green is the replicas' prefix, and what an outpost accepted
becomes green once.

Both are no nodes: their files hold rows of the log alone, and only these checks read them. A follower or outpost that
`components` leaves out is alone, as a node is; but where `components` names none of them, all are connected to all.
"""

from collections.abc import Iterator
from typing import cast

from reconvene.trace.events import Row
from reconvene.verify.check import Proof
from reconvene.verify.corel.liveness import ordering_nodes
from reconvene.verify.corel.sums import LogCheck, LogSums
from reconvene.verify.history import History
from reconvene.verify.live import components
from reconvene.verify.log_history import GREEN, SNAPSHOT
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]

_FOLLOWED = ("green", "snapshot")


def _follow(h: History, tally: Tally) -> None:
    if not h.remotes:
        return
    order = _order(h)
    line = 0
    while line in order:
        line += 1
    for name in sorted(h.run.followers):
        _judge_follower(h, name, order, line, tally)
    positions: dict[str, set[int]] = {}
    for position, msg in _greens(h):
        positions.setdefault(msg, set()).add(position)
    accepted: dict[str, str] = {}
    for name in sorted(h.run.outposts):
        _judge_outpost(h, name, positions, accepted, tally)


def _greens(h: History) -> Iterator[tuple[int, str]]:
    """(position, message) of every `green` of the nodes, lowest first."""
    log = h.log
    for node_log in log.node_logs:
        for place, kind in enumerate(node_log.kind):
            if kind == GREEN:
                yield node_log.number[place], log.messages[node_log.msg[place]]


def _order(h: History) -> dict[int, str]:
    """By position: the message that the lowest `green` of a node has there."""
    order: dict[int, str] = {}
    for position, msg in _greens(h):
        order.setdefault(position, msg)
    return order


def _judge_follower(h: History, name: str, order: dict[int, str], line: int, tally: Tally) -> None:
    after = 0
    rows = h.remotes[name]
    for row in rows:
        if row.kind not in _FOLLOWED:
            continue
        tally.cases += 1
        position = cast(int, row.pos)
        problem = None
        if row.kind == "snapshot":
            if position < after:
                problem = f"its next position is {after}"
            elif position > line:
                problem = f"nothing is green at any node at {line}"
            after = max(after, position)
        else:
            if position != after:
                problem = f"its next position is {after}"
            elif position not in order:
                problem = f"nothing is green at any node at {position}"
            elif order[position] != row.msg:
                problem = f"the nodes have {order[position]} there"
            after = position + 1
        if problem:
            tally.violate(h.run.run, name, row.n, f"{_shown(row)}: {problem}")
    if h.run.settled and name not in h.run.down:
        tally.cases += 1
        reached = max((_certain(h, part) for part in _connected(h, name)), default=0)
        if after < reached:
            detail = f"{name} has the log up to {after}, and a node that it is connected to up to {reached}"
            tally.violate(h.run.run, name, rows[-1].n if rows else 0, detail)


def _judge_outpost(
    h: History, name: str, positions: dict[str, set[int]], accepted: dict[str, str], tally: Tally
) -> None:
    up = h.run.settled and name not in h.run.down
    highest, before = -1, ""
    ordered = up and any(ordering_nodes(h, part) for part in _connected(h, name))
    for row in h.remotes[name]:
        if row.kind != "accept":
            continue
        tally.cases += 1
        msg = cast(str, row.msg)
        found = sorted(positions.get(msg, ()))
        problem = None
        if not msg.startswith(f"{name}:"):
            problem = "it is no message of this outpost"
        elif msg in accepted:
            problem = f"{accepted[msg]} accepted it before"
        elif len(found) > 1:
            problem = f"it is green at {', '.join(map(str, found))}"
        elif found and found[0] < highest:
            problem = f"it is green at {found[0]}, before {before} at {highest}, which was accepted before it"
        elif ordered and not found:
            problem = "it is not green, though the outpost ends connected to a component with a quorum"
        accepted.setdefault(msg, name)
        if found and found[-1] > highest:
            highest, before = found[-1], msg
        if problem:
            tally.violate(h.run.run, name, row.n, f"{_shown(row)}: {problem}")


def _connected(h: History, name: str) -> list[list[int]]:
    """The nodes that are up and connected to a follower or outpost at the end, by component."""
    named = {each for component in h.run.components for each in component}
    if not named & h.remotes.keys():
        return components(h)
    mine = next((component for component in h.run.components if name in component), [])
    return [part for part in components(h) if any(h.names[node] in mine for node in part)]


def _certain(h: History, part: list[int]) -> int:
    """Below it, at least, the nodes of a component have everything green at the end.

    A node that restarts may find as yellow what it had recorded as green: the message and its place are on its disk,
    the green line may be a little behind. With a quorum, or from a node that knows it, it learns that line again."""
    ordered = bool(ordering_nodes(h, part))
    certain = 0
    for node in part:
        node_log = h.log.node_logs[node]
        began = node_log.failed[-1] if node_log.failed else 0
        for place, (kind, number) in enumerate(zip(node_log.kind, node_log.number, strict=True)):
            if kind == GREEN and (ordered or place >= began):
                certain = max(certain, number + 1)
            elif kind == SNAPSHOT:
                certain = max(certain, number)
    return certain


def _shown(row: Row) -> str:
    what = f" {row.msg}" if isinstance(row.msg, str) else ""
    where = f" at {row.pos}" if isinstance(row.pos, int) else ""
    return f"{row.node}#{row.n} {row.kind}{what}{where}"


def _prove_nothing_followed(run: LogSums, proof: Proof) -> None:
    """A run with followers or outposts is always judged whole. Of the others there is nothing to show."""


CHECKS = (
    LogCheck(
        id="corel.follow",
        layer="corel",
        source="the same positions everywhere, also where the log is followed",
        case="a follower's `green`, a follower's `snapshot`, an outpost's `accept`; where settled also: a follower"
        " that is up",
        violated="of a `green`: its position is not the follower's next one, or the nodes' lowest `green` there is of"
        " another message, or of none; of a snapshot: it is below the follower's next position, or a position below"
        " it is that of no `green` at any node; of an `accept`: the message is another's, was accepted before, or is"
        " green at several positions, or before one that the outpost accepted earlier, or, where"
        " settled and the outpost is up and connected to a component with a"
        " quorum, at none; of a follower: a node that is up and connected to it has more of the log, by its"
        " `snapshot`s, by the `green`s since its last restart and, in a component with a quorum, by all its `green`s",
        check=_follow,
        prove=_prove_nothing_followed,
        kinds=frozenset({"green", "snapshot", "accept"}),
        whole=True,
    ),
)
