"""Specifications 7.1 and 7.2, for safe messages: what one member delivers, all do, unless they fail."""

from reconvene.verify.history import DELIVER, SAFE, History
from reconvene.verify.numbering import configuration_numbers
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tallies, Tally

__all__ = ["IDS", "accountable", "check"]

IDS = ("evs.7.1", "evs.7.2")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    delivered = _safe_deliveries(history)
    _delivered_by_all(history, delivered, tallies["evs.7.1"])
    _entered_by_all(history, delivered, tallies["evs.7.2"])


def _safe_deliveries(h: History) -> dict[int, dict[int, int]]:
    """By configuration: each safe message delivered there, and the lowest event of that."""
    found: dict[int, dict[int, int]] = {}
    for event, kind in enumerate(h.kind):
        if kind == DELIVER and h.msg_service[h.msg[event]] == SAFE:
            here = found.get(h.conf[event])
            if here is None:
                here = found[h.conf[event]] = {}
            here.setdefault(h.msg[event], event)
    return found


def _delivered_by_all(h: History, delivered: dict[int, dict[int, int]], tally: Tally) -> None:
    """7.1. Case: a safe message, a configuration in which someone delivered it, and a member of that. Violation: the
    member neither delivered it, in the regular configuration or in what followed it there, nor failed in one of
    them. Where the run is not settled, a member whose file ends before it left them is excused."""
    for conf, messages in delivered.items():
        regular = h.root[conf]
        for member in h.confs[conf].members:
            tally.cases += len(messages)
            lacking = messages.keys() - h.messages_of(member, regular)
            if not lacking or not _is_accountable(h, member, regular):
                continue
            for message in sorted(lacking):
                event = messages[message]
                detail = (
                    f"{h.describe(event)}: member {h.names[member]} neither delivered it nor failed"
                    f" in {h.conf_id(regular)} or what followed it"
                )
                tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def accountable(h: History, conf: int) -> tuple[int, ...]:
    """The members of this configuration that have to have delivered what was delivered in it as safe."""
    return tuple(member for member in h.confs[conf].members if _is_accountable(h, member, h.root[conf]))


def _is_accountable(h: History, member: int, regular: int) -> bool:
    return not _failed_in(h, member, regular) and not _excused(h, member, regular)


def _failed_in(h: History, member: int, regular: int) -> bool:
    if member >= h.nodes:
        return False
    return any(stay.left == "fail" and h.root[stay.conf] == regular for stay in h.stays[member])


def _excused(h: History, member: int, regular: int) -> bool:
    last = h.last_stay(member)
    if h.run.settled or last is None or last.left != "end":
        return False
    if h.root[last.conf] == regular:
        return True
    # It never came there, and may yet: its file ends at a lower number.
    numbers = configuration_numbers(h)
    return not h.enters(member, regular) and numbers[h.root[last.conf]] < numbers[regular]


def _entered_by_all(h: History, delivered: dict[int, dict[int, int]], tally: Tally) -> None:
    """7.2. Case: a regular configuration in which a safe message was delivered, and a member of it. Violation: the
    member never entered it."""
    for conf, messages in delivered.items():
        if h.confs[conf].kind != "regular":
            continue
        event = min(messages.values())
        for member in h.confs[conf].members:
            tally.cases += 1
            if not h.enters(member, conf):
                detail = f"{h.describe(event)}: member {h.names[member]} never entered {h.conf_id(conf)}"
                tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)
