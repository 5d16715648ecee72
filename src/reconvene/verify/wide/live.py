"""Liveness across domains, where a run ended with a settle time: what was sent to a wide configuration arrived."""

from reconvene.verify.codes import FIFO, NONE
from reconvene.verify.wide.accountable import Accountable
from reconvene.verify.wide.judged import Findings, WideCheck, judged
from reconvene.verify.wide_history import Entry, WideHistory

__all__ = ["CHECKS"]


@judged
def _arrived(wide: WideHistory, found: Findings) -> None:
    if not wide.domains.settled:
        return
    final: dict[int, list[Entry]] = {}
    for node in range(wide.nodes):
        entry = wide.last_entry(node)
        if entry is not None and wide.confs[entry.conf].kind == "regular":
            final.setdefault(entry.conf, []).append(entry)
    for message, told in enumerate(wide.told):
        confs = {told.conf} if told.conf != NONE else set()
        if wide.ordered(message):
            confs |= set(told.places)
        for conf in sorted(confs & set(final)):
            for entry in final[conf]:
                if _must_have(wide, message, entry, conf):
                    found.case()
                    if message not in wide.got.get((entry.node, entry.inc), ()):
                        what = f"{wide.messages[message]} is a message of {wide.confs[conf].id}, where the node ends"
                        found.violate(entry.begin, f"{what}, and was not delivered by it")


def _must_have(wide: WideHistory, message: int, entry: Entry, conf: int) -> bool:
    told, accountable = wide.told[message], wide.once(Accountable)
    crossed = accountable.crossed.get(message, {})
    if conf not in (told.places if wide.ordered(message) else crossed):
        # Not placed there yet, as far as is known. Only what its sender still answers for has to arrive; and a
        # cluster without a gateway can't place anything.
        last = wide.last_entry(told.node) if told.node != NONE else None
        if told.conf != conf or last is None or last.inc != told.inc or last.conf != conf:
            return False
        if told.service != FIFO and not accountable.home.has_gateway(told.node):
            return False
    return accountable.must_have((entry.node, entry.inc), entry, None, message)


CHECKS = (
    WideCheck(
        id="live.wide",
        layer="wide",
        source="Domains",
        case="where settled: a message that was sent or placed in a regular wide configuration that a node that is up"
        " ends in, and such a node that had entered it in time, see below",
        violated="the node did not deliver it in that incarnation",
        check=_arrived,
    ),
)
