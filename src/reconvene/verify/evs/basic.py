"""Specifications 1.1-1.4: the precedes relation, and what a sending and a delivery are."""

from itertools import pairwise

from reconvene.verify.history import DELIVER, HIDDEN, NONE, History
from reconvene.verify.precedes import Graph, Precedes
from reconvene.verify.report import Tallies, Tally

__all__ = ["IDS", "check"]

IDS = ("evs.1.1", "evs.1.2", "evs.1.3", "evs.1.4")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    _partial_order(history, precedes, tallies["evs.1.1"])
    _numbers_grow(history, tallies["evs.1.2"])
    _sent_before_delivered(history, tallies["evs.1.3"])
    _sent_and_delivered_once(history, tallies["evs.1.4"])


def _partial_order(history: History, precedes: Precedes, tally: Tally) -> None:
    """1.1. Case: an event. Violation: a knot of events that precede each other."""
    tally.cases += len(history.kind) - history.kind.count(HIDDEN)
    for knot in precedes.knots(Graph.PLAIN):
        event = knot.events[0]
        detail = f"precedes itself: {knot.describe(event)}"
        tally.violate(history.run.run, history.names[history.node[event]], history.n[event], detail)


def _numbers_grow(history: History, tally: Tally) -> None:
    """1.2. Case: a row of any layer. Violation: its number is not above the one before it in the node's file."""
    for node, numbers in enumerate(history.numbers):
        tally.cases += len(numbers)
        if all(map(int.__lt__, numbers, numbers[1:])):
            continue
        for before, n in pairwise(numbers):
            if n <= before:
                detail = f"n is {n} after {before}; it has to grow"
                tally.violate(history.run.run, history.names[node], n, detail)


def _sent_before_delivered(history: History, tally: Tally) -> None:
    """1.3. Case: a delivery. Violation: its message was not sent, as this service, by its sender, in the regular
    configuration of the one it is delivered in, and, where that is the same node, before."""
    h = history
    root, sent, conf, node = h.root, h.sent, h.conf, h.node
    cases = 0
    for event, kind in enumerate(h.kind):
        if kind != DELIVER:
            continue
        cases += 1
        send = sent[h.msg[event]]
        if (
            send != NONE
            and conf[send] == root[conf[event]]
            and node[send] == h.sender[event]
            and h.service[send] == h.service[event]
            and (node[send] != node[event] or send < event)
        ):
            continue
        tally.violate(h.run.run, h.names[node[event]], h.n[event], _why_unsent(h, event, send))
    tally.cases += cases


def _why_unsent(h: History, event: int, send: int) -> str:
    what = h.describe(event)
    if send == NONE:
        return f"{what}: nobody sent it"
    if h.conf[send] != h.root[h.conf[event]]:
        regular = h.conf_id(h.root[h.conf[event]])
        return f"{what}: expected it to be sent in {regular}, but {h.describe(send)}"
    if h.node[send] != h.sender[event]:
        return f"{what}: said to be from {h.names[h.sender[event]]}, but {h.describe(send)}"
    if h.service[send] != h.service[event]:
        return f"{what}: of another service than it was sent with, {h.describe(send)}"
    return f"{what}: before it was sent, {h.describe(send)}"


def _sent_and_delivered_once(history: History, tally: Tally) -> None:
    """1.4. Case: a sending or a delivery. Violation: a sending outside a regular configuration; a second sending
    of a message, by anyone; a second delivery of a message by one node, in whichever configuration."""
    h = history
    tally.cases += len(h.sends)
    for event in h.sends:
        first = h.sent[h.msg[event]]
        if first != event:
            detail = f"{h.describe(event)}: was sent before, {h.describe(first)}"
        elif h.confs[h.conf[event]].kind in ("transitional", "hidden"):
            detail = f"{h.describe(event)}: expected a regular configuration to be sent in"
        else:
            continue
        tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)
    for node in range(h.nodes):
        _delivered_once(h, node, tally)


def _delivered_once(h: History, node: int, tally: Tally) -> None:
    kinds = h.kind[h.first[node] : h.first[node + 1]]
    deliveries = kinds.count(DELIVER)
    tally.cases += deliveries
    # Without a second delivery, the configurations' sets are as many messages as there are deliveries.
    distinct: set[int] = set().union(*h.delivered_conf[node].values())
    if len(distinct) == deliveries:
        return
    first: dict[int, int] = {}
    for event in range(h.first[node], h.first[node + 1]):
        if h.kind[event] == DELIVER:
            before = first.setdefault(h.msg[event], event)
            if before != event:
                detail = f"{h.describe(event)}: was delivered before, {h.describe(before)}"
                tally.violate(h.run.run, h.names[node], h.n[event], detail)
