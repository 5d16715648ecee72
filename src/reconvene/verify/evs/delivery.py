"""Specifications 3 and 4, for every service: a node delivers its own messages; nodes that go on together delivered
the same ones."""

from reconvene.verify.history import NONE, History, Stay
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tallies, Tally

__all__ = ["IDS", "check"]

IDS = ("evs.3", "evs.4")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    _self_delivery(history, tallies["evs.3"])
    _failure_atomicity(history, tallies["evs.4"])


def _self_delivery(h: History, tally: Tally) -> None:
    """3. Case: a sending whose node then, in the same incarnation, left the configuration and the transitional one
    that followed it. Violation: the node did not deliver the message in either."""
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


def _last_entered(h: History) -> dict[tuple[int, int], int]:
    """The last deliver_conf event of each incarnation of each node."""
    return {(stay.node, stay.inc): stay.begin for stays in h.stays for stay in stays}


def _failure_atomicity(h: History, tally: Tally) -> None:
    """4. Case: of two or more nodes that went from one configuration directly to the same next one, a node, and a
    message that one of them delivered in the first. Violation: the node did not deliver it there."""
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


def _report_lacking(h: History, stay: Stay, lacking: set[int], group: list[Stay], tally: Tally) -> None:
    for message in sorted(lacking):
        other = next(s.node for s in group if message in h.messages_in(s.node, stay.conf))
        detail = (
            f"went from {h.conf_id(stay.conf)} to {h.conf_id(stay.next)} with {h.names[other]},"
            f" who delivered {h.messages[message]} in the former, without delivering it there"
        )
        tally.violate(h.run.run, h.names[stay.node], h.n[stay.end], detail)
