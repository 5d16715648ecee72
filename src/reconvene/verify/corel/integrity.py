"""Message integrity and no duplication (properties 3.1 and 3.2), which the log keeps of what it stands on."""

from typing import cast

from reconvene.verify.codes import NONE
from reconvene.verify.corel.sums import LogCheck, prove_by_facts
from reconvene.verify.counts import green_positions
from reconvene.verify.history import History
from reconvene.verify.log_history import ACCEPT, GREEN, LOG, SNAPSHOT
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "outposts_accepted"]


def _accepted(h: History, tally: Tally) -> None:
    log = h.log
    line = _ordered_line(h)
    elsewhere = h.once(outposts_accepted)
    for node, node_log in enumerate(log.node_logs):
        for place, kind in enumerate(node_log.kind):
            if kind in (LOG, GREEN):
                message = node_log.msg[place]
                author = log.author[message]
                if author == NONE:
                    problem = None if log.messages[message] in elsewhere else "nobody accepted it"
                elif author == node and log.accepted[message] > place:
                    problem = f"it is accepted only later, at {log.describe(node, log.accepted[message])}"
                else:
                    problem = None
            elif kind == SNAPSHOT:
                problem = f"nothing is green anywhere at {line}" if node_log.number[place] > line else None
            else:
                continue
            if problem:
                detail = f"{log.describe(node, place)}: {problem}"
                tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


def outposts_accepted(h: History) -> set[str]:
    """What the log's outposts accepted for it."""
    return {cast(str, row.msg) for name in h.run.outposts for row in h.remotes[name] if row.kind == "accept"}


def _ordered_line(h: History) -> int:
    """The lowest position that no green event of any node has."""
    positions = h.once(green_positions)
    line = 0
    while line in positions:
        line += 1
    return line


def _once(h: History, tally: Tally) -> None:
    log = h.log
    accepted: set[int] = set()
    for node, node_log in enumerate(log.node_logs):
        logged: set[int] = set()
        for place, kind in enumerate(node_log.kind):
            message = node_log.msg[place]
            problem = None
            if kind == ACCEPT:
                if message in accepted or log.author[message] != node:
                    problem = f"accepted at {log.describe(log.author[message], log.accepted[message])} already"
                accepted.add(message)
            elif kind == LOG:
                if message in logged:
                    problem = "the node had logged it"
                logged.add(message)
            elif kind == GREEN and node_log.green[message] < place:
                problem = f"it was green here since {log.describe(node, node_log.green[message])}"
            if problem:
                detail = f"{log.describe(node, place)}: {problem}"
                tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


CHECKS = (
    LogCheck(
        id="corel.3.1",
        layer="corel",
        source="COReL, property 3.1",
        case="a `log`, a `green`; a `snapshot`",
        violated="nobody accepted the message; or the same node did, but only later; of a snapshot: a position below"
        " it is that of no `green` at any node",
        cases=lambda n: n.logs + n.greens + n.snapshots,
        check=_accepted,
        prove=prove_by_facts,
        facts=("unaccepted", "too_soon", "gap", "torn"),
        kinds=frozenset({"log", "green", "snapshot"}),
        whole=True,
    ),
    LogCheck(
        id="corel.3.2",
        layer="corel",
        source="COReL, property 3.2",
        case="an `accept`, a `log`, a `green`",
        violated="the message was accepted before, by any node (the lowest `accept` counts); or logged before at the"
        " same node, under whichever timestamp; or green before at the same node, by a `green` or a snapshot",
        cases=lambda n: n.accepts + n.logs + n.greens,
        check=_once,
        prove=prove_by_facts,
        facts=("twice", "torn"),
        kinds=frozenset({"accept", "log", "green"}),
    ),
)
