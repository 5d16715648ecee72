"""Specifications 3 and 4, for every service: a node delivers its own messages; nodes that go on together delivered
the same ones."""

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns, where_clear
from reconvene.verify.history import NONE, History, Stay
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _self_delivery(h: History, tally: Tally) -> None:
    last = _last_entered(h)
    for event in h.sends:
        node, regular = h.node[event], h.root[h.conf[event]]
        end = last.get((node, h.inc[event]))
        if end is None or end < event or h.root[h.conf[end]] == regular:
            continue
        tally.cases += 1
        if h.msg[event] not in h.messages_of(node, regular):
            detail = f"{h.describe(event)}: went on to {h.conf_id(h.conf[end])} without delivering it"
            tally.violate(h.run.run, h.names[node], h.n[event], detail)


@where_clear
def _prove_self_delivery(run: EvsPatterns, proof: Proof) -> None:
    for pattern in run.patterns:
        if pattern.sends:
            end = run.ends[pattern.sender, run.ways.inc[pattern.sender, pattern.root]]
            if end != pattern.root:
                proof.cases += pattern.sends
                proof.suspect(0 if pattern.sender in pattern.by else pattern.sends, pattern.row)


def _last_entered(h: History) -> dict[tuple[int, int], int]:
    """The last deliver_conf event of each incarnation of each node."""
    return {(stay.node, stay.inc): stay.begin for stays in h.stays for stay in stays}


def _failure_atomicity(h: History, tally: Tally) -> None:
    groups: dict[tuple[int, int], list[Stay]] = {}
    for stays in h.stays:
        for stay in stays:
            if stay.next != NONE:
                groups.setdefault((stay.conf, stay.next), []).append(stay)
    for (conf, _), group in groups.items():
        if len({stay.node for stay in group}) < 2:
            continue
        delivered = [h.messages_in(stay.node, conf) for stay in group]
        union = set().union(*delivered)
        tally.cases += len(union) * len(group)
        for stay, mine in zip(group, delivered, strict=True):
            if len(mine) != len(union):
                _report_lacking(h, stay, union - mine, group, tally)


@where_clear
def _prove_failure_atomicity(run: EvsPatterns, proof: Proof) -> None:
    for pattern in run.patterns:
        for conf, by in pattern.confs.items():
            for group in run.confs[conf]["groups"]:
                if not by.isdisjoint(group):
                    proof.cases += pattern.messages * len(group)
                    proof.suspect(pattern.messages * sum(node not in by for node in group), pattern.row)


def _report_lacking(h: History, stay: Stay, lacking: set[int], group: list[Stay], tally: Tally) -> None:
    for message in sorted(lacking):
        other = next(s.node for s in group if message in h.messages_in(s.node, stay.conf))
        detail = (
            f"went from {h.conf_id(stay.conf)} to {h.conf_id(stay.next)} with {h.names[other]},"
            f" which delivered {h.messages[message]} in the former, without delivering it there"
        )
        tally.violate(h.run.run, h.names[stay.node], h.n[stay.end], detail)


CHECKS = (
    EvsCheck(
        id="evs.3",
        layer="evs",
        source="Specification 3",
        case="a sending whose node, in the same incarnation, went on beyond the transitional configuration that"
        " followed",
        violated="the node did not deliver the message there or in what followed it",
        check=_self_delivery,
        prove=_prove_self_delivery,
    ),
    EvsCheck(
        id="evs.4",
        layer="evs",
        source="Specification 4",
        case="of two or more nodes that went from one configuration directly to the same next one: a node, and a"
        " message that any of them delivered in the first",
        violated="the node did not deliver it in that very configuration",
        check=_failure_atomicity,
        prove=_prove_failure_atomicity,
    ),
)
