"""What a message follows comes before it: in each node's queue (Causal) and in the total order (property 3.7).

A message directly follows all that its author accepted before it, and all that its author had when it accepted it.
That is a beginning of the author's `order`. So of each author and each node only the latest place at which the node
came to have anything of such a beginning has to be known: a running maximum, from which one comparison decides.
What a message follows through others needs no looking at: if all hold what they directly follow, all holds.
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate

from reconvene.verify.codes import NONE
from reconvene.verify.corel.sums import LogCheck, prove_by_facts
from reconvene.verify.history import History
from reconvene.verify.log_history import GREEN, LOG, NEVER, NodeLog
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _had_in_order(h: History, tally: Tally) -> None:
    _compare(h, LOG, _had, "has", tally)


def _green_in_order(h: History, tally: Tally) -> None:
    _compare(h, GREEN, _green, "has green", tally)


def _had(node_log: NodeLog) -> list[int]:
    return node_log.had


def _green(node_log: NodeLog) -> list[int]:
    return node_log.green


def _compare(h: History, wanted: int, when: Callable[[NodeLog], list[int]], verb: str, tally: Tally) -> None:
    log = h.log
    for node, node_log in enumerate(log.node_logs):
        if wanted not in node_log.kind:
            continue
        times = when(node_log)
        latest = [list(accumulate(map(times.__getitem__, author.order), max)) for author in log.node_logs]
        for place, kind in enumerate(node_log.kind):
            if kind != wanted:
                continue
            message = node_log.msg[place]
            author, past = log.author[message], log.past[message]
            if author == NONE or past == 0 or latest[author][past - 1] < place:
                continue
            last = latest[author][past - 1]
            if last == NEVER:
                first = log.node_logs[author].order[bisect_left(latest[author], NEVER)]
                what, since = f"{log.messages[first]}, which", "never"
            else:
                what, since = "something that", f"only from {log.describe(node, last)} on"
            detail = (
                f"{log.describe(node, place)}: {what} {log.node_logs[author].name} accepted or had before it,"
                f" {node_log.name} {verb} {since}"
            )
            tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


CHECKS = (
    LogCheck(
        id="corel.3.7",
        layer="corel",
        source="COReL, property 3.7",
        case="a `green` of a message that was accepted",
        violated="a message that it directly follows was not green before at the same node",
        cases=lambda n: n.greens - n.unaccepted_greens,
        check=_green_in_order,
        prove=prove_by_facts,
        facts=(
            "misplaced", "taking_back", "ordered_before_itself", "misordered", "moved", "shared", "torn",
        ),
        kinds=frozenset({"green"}),
    ),
    LogCheck(
        id="corel.causal",
        layer="corel",
        source="COReL, section 5.4, Causal",
        case="a `log` of a message that was accepted",
        violated="the same node did not have, before, a message that it directly follows",
        cases=lambda n: n.logs - n.unaccepted_logs,
        check=_had_in_order,
        prove=prove_by_facts,
        facts=("before_itself", "misordered", "had_later", "torn"),
        kinds=frozenset({"log"}),
    ),
)  # fmt: skip
