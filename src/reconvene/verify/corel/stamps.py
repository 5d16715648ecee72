"""Timestamps of the log (section 5.2): a message keeps the one under which it was sent, unless it was sent twice."""

from bisect import bisect_right

from reconvene.verify.codes import NONE
from reconvene.verify.history import History
from reconvene.verify.log_history import LOG, NEVER
from reconvene.verify.report import Tally

__all__ = ["one_timestamp"]


def one_timestamp(h: History, tally: Tally) -> None:
    """Case: a log event. Violation: the message's lowest log event has another timestamp, and its author did not fail
    between accepting and logging it, after which it sends the message again."""
    log = h.log
    tally.cases += sum(replica.kind.count(LOG) for replica in log.replicas)
    if not log.restamped:
        return
    excused: dict[int, bool] = {}
    for node, place in log.restamped:
        replica = log.replicas[node]
        message = replica.msg[place]
        if message not in excused:
            excused[message] = _sent_again(h, message)
        if not excused[message]:
            first = log.stamp[message]
            detail = f"{log.describe(node, place)}: under another timestamp than its lowest log event, {first}"
            tally.violate(h.run.run, replica.name, replica.n[place], detail)


def _sent_again(h: History, message: int) -> bool:
    """Did the author fail after it accepted the message, and before it logged it?"""
    log = h.log
    if log.author[message] == NONE:
        return False
    author = log.replicas[log.author[message]]
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
