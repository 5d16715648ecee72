"""Timestamps of the log (section 5.2): a message keeps the one under which it was sent, unless it was sent twice."""

from bisect import bisect_right

from reconvene.verify.codes import NONE
from reconvene.verify.corel.integrity import outposts_accepted
from reconvene.verify.corel.sums import LogCheck, prove_by_facts
from reconvene.verify.history import History
from reconvene.verify.log_history import LOG, NEVER
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _one_timestamp(h: History, tally: Tally) -> None:
    log = h.log
    excused: dict[int, bool] = {}
    for node, place in log.restamped:
        node_log = log.node_logs[node]
        message = node_log.msg[place]
        if message not in excused:
            excused[message] = _sent_again(h, message)
        if not excused[message]:
            first = log.stamp[message]
            detail = f"{log.describe(node, place)}: under another timestamp than its lowest log event, {first}"
            tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


def _sent_again(h: History, message: int) -> bool:
    """Did the author fail after it accepted the message, and before it logged it? Or is it an outpost's, in a trace
    that does not tell its copies apart? Two replicas may have had one each."""
    log = h.log
    if log.author[message] == NONE:
        return log.messages[message] in h.once(outposts_accepted)
    author = log.node_logs[log.author[message]]
    accepted = log.accepted[message]
    logged = next(
        (
            place
            for place in range(accepted + 1, len(author.kind))
            if author.kind[place] == LOG and author.msg[place] == message
        ),
        NEVER,
    )
    failure = bisect_right(author.failed, accepted)
    if failure < len(author.failed):
        return author.failed[failure] <= logged
    return logged == NEVER and author.name in h.run.down


CHECKS = (
    LogCheck(
        id="corel.ts",
        layer="corel",
        source="COReL, section 5.2",
        case="a `log`",
        violated="the message's lowest `log` has another `ts`, and the author did not fail between accepting and"
        " logging it",
        cases=lambda n: n.logs,
        check=_one_timestamp,
        prove=prove_by_facts,
        facts=("restamped", "tangled", "torn"),
        kinds=frozenset({"log"}),
    ),
)
