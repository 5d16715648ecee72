"""Message integrity and no duplication (properties 3.1 and 3.2), which the log keeps of what it stands on."""

from reconvene.verify.codes import NONE
from reconvene.verify.history import History
from reconvene.verify.log_history import ACCEPT, GREEN, LOG, SNAPSHOT
from reconvene.verify.report import Tally

__all__ = ["accepted", "once"]


def accepted(h: History, tally: Tally) -> None:
    """Case: a log or green event, a snapshot. Violation: nobody accepted the message; or the same node did, and only
    later. Of a snapshot: a position below it is nobody's."""
    log = h.log
    line = _ordered_line(h)
    for node, replica in enumerate(log.replicas):
        for place, kind in enumerate(replica.kind):
            if kind in (LOG, GREEN):
                message = replica.msg[place]
                author = log.author[message]
                if author == NONE:
                    problem = "nobody accepted it"
                elif author == node and log.accepted[message] > place:
                    problem = f"it is accepted only later, at {log.describe(node, log.accepted[message])}"
                else:
                    problem = None
            elif kind == SNAPSHOT:
                problem = f"nothing is green anywhere at {line}" if replica.number[place] > line else None
            else:
                continue
            tally.cases += 1
            if problem:
                detail = f"{log.describe(node, place)}: {problem}"
                tally.violate(h.run.run, replica.name, replica.n[place], detail)


def _ordered_line(h: History) -> int:
    """The lowest position that no green event of any node has."""
    positions = {
        number
        for replica in h.log.replicas
        for kind, number in zip(replica.kind, replica.number, strict=True)
        if kind == GREEN
    }
    line = 0
    while line in positions:
        line += 1
    return line


def once(h: History, tally: Tally) -> None:
    """Case: an accept, log or green event. Violation: a lower event accepts the same message, at whichever node; the
    node logged it before; it was green before at the node, by an event or a snapshot."""
    log = h.log
    for node, replica in enumerate(log.replicas):
        logged: set[int] = set()
        for place, kind in enumerate(replica.kind):
            message = replica.msg[place]
            problem = None
            if kind == ACCEPT:
                if (log.author[message], log.accepted[message]) != (node, place):
                    problem = f"accepted at {log.describe(log.author[message], log.accepted[message])} already"
            elif kind == LOG:
                if message in logged:
                    problem = "the node had logged it"
                logged.add(message)
            elif kind == GREEN:
                if replica.green[message] < place:
                    problem = f"it was green here since {log.describe(node, replica.green[message])}"
            else:
                continue
            tally.cases += 1
            if problem:
                detail = f"{log.describe(node, place)}: {problem}"
                tally.violate(h.run.run, replica.name, replica.n[place], detail)
