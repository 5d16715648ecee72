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
from reconvene.verify.history import History
from reconvene.verify.log_history import GREEN, LOG, NEVER, Replica
from reconvene.verify.report import Tally

__all__ = ["green_in_order", "had_in_order"]


def had_in_order(h: History, tally: Tally) -> None:
    """Case: a log event whose message someone accepted. Violation: the node did not have, before, something that the
    author accepted or had before it accepted this message."""
    _compare(h, LOG, _had, "has", tally)


def green_in_order(h: History, tally: Tally) -> None:
    """Case: a green event whose message someone accepted. Violation: something that the author accepted or had
    before it accepted this message was not green here before."""
    _compare(h, GREEN, _green, "has green", tally)


def _had(replica: Replica) -> list[int]:
    return replica.had


def _green(replica: Replica) -> list[int]:
    return replica.green


def _compare(h: History, wanted: int, when: Callable[[Replica], list[int]], verb: str, tally: Tally) -> None:
    log = h.log
    for node, replica in enumerate(log.replicas):
        if wanted not in replica.kind:
            continue
        times = when(replica)
        latest = [list(accumulate(map(times.__getitem__, author.order), max)) for author in log.replicas]
        for place, kind in enumerate(replica.kind):
            if kind != wanted:
                continue
            message = replica.msg[place]
            author, past = log.author[message], log.past[message]
            if author == NONE:
                continue
            tally.cases += 1
            if past == 0 or latest[author][past - 1] < place:
                continue
            last = latest[author][past - 1]
            if last == NEVER:
                first = log.replicas[author].order[bisect_left(latest[author], NEVER)]
                what, since = f"{log.messages[first]}, which", "never"
            else:
                what, since = "something that", f"only from {log.describe(node, last)} on"
            detail = (
                f"{log.describe(node, place)}: {what} {log.replicas[author].name} accepted or had before it,"
                f" {replica.name} {verb} {since}"
            )
            tally.violate(h.run.run, replica.name, replica.n[place], detail)
