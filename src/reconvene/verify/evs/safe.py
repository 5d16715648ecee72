"""Specifications 7.1 and 7.2, for safe messages: what one member delivers, all do, unless they fail."""

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns, Pattern, where_clear
from reconvene.verify.history import DELIVER, SAFE, History
from reconvene.verify.numbering import configuration_numbers
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "accountable"]


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


def _delivered_by_all(h: History, tally: Tally) -> None:
    for conf, messages in h.once(_safe_deliveries).items():
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


@where_clear
def _prove_delivered_by_all(run: EvsPatterns, proof: Proof) -> None:
    for pattern in run.patterns:
        if pattern.service == SAFE:
            for conf in map(run.confs.__getitem__, pattern.confs):
                proof.cases += pattern.messages * len(conf["members"])
                lacking = sum(member not in pattern.by for member in conf["accountable"])
                proof.suspect(pattern.messages * lacking, pattern.row)


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


def _entered_by_all(h: History, tally: Tally) -> None:
    for conf, messages in h.once(_safe_deliveries).items():
        if h.confs[conf].kind != "regular":
            continue
        event = min(messages.values())
        for member in h.confs[conf].members:
            tally.cases += 1
            if not h.enters(member, conf):
                detail = f"{h.describe(event)}: member {h.names[member]} never entered {h.conf_id(conf)}"
                tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


@where_clear
def _prove_entered_by_all(run: EvsPatterns, proof: Proof) -> None:
    safe: dict[int, Pattern] = {}
    for pattern in run.patterns:
        if pattern.service == SAFE and pattern.regular:
            safe[pattern.root] = pattern
    for root, pattern in safe.items():
        conf = run.confs[root]
        proof.cases += len(conf["members"])
        proof.suspect(len(conf["absent"]), pattern.row)


CHECKS = (
    EvsCheck(
        id="evs.7.1",
        layer="evs",
        source="Specification 7.1",
        case="a safe message, a configuration that it was delivered in, and a member of that",
        violated="the member neither delivered it there or in what followed it, nor failed there or in what followed"
        " it",
        check=_delivered_by_all,
        prove=_prove_delivered_by_all,
    ),
    EvsCheck(
        id="evs.7.2",
        layer="evs",
        source="Specification 7.2",
        case="a regular configuration that a safe message was delivered in, and a member of it",
        violated="the member never entered it",
        check=_entered_by_all,
        prove=_prove_entered_by_all,
    ),
)
