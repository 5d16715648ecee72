"""Specifications 1.1-1.4: the precedes relation, and what a sending and a delivery are."""

from itertools import pairwise

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns, where_clear
from reconvene.verify.history import DELIVER, NONE, History
from reconvene.verify.precedes import Graph, Precedes
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _partial_order(history: History, tally: Tally) -> None:
    for knot in history.once(Precedes).knots(Graph.PLAIN):
        event = knot.events[0]
        detail = f"precedes itself: {knot.describe(event)}"
        tally.violate(history.run.run, history.names[history.node[event]], history.n[event], detail)


@where_clear
def _prove_partial_order(run: EvsPatterns, proof: Proof) -> None:
    if not run.is_acyclic:
        proof.doubt()


def _numbers_grow(history: History, tally: Tally) -> None:
    files = [
        *zip(history.names, history.numbers, strict=False),
        *((name, [row.n for row in rows]) for name, rows in history.remotes.items()),
    ]
    for name, numbers in files:
        if all(map(int.__lt__, numbers, numbers[1:])):
            continue
        for before, n in pairwise(numbers):
            if n <= before:
                detail = f"n is {n} after {before}; it has to grow"
                tally.violate(history.run.run, name, n, detail)


def _prove_numbers_grow(run: EvsPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["unnumbered"])


def _sent_before_delivered(history: History, tally: Tally) -> None:
    h = history
    root, sent, conf, node = h.root, h.sent, h.conf, h.node
    for event, kind in enumerate(h.kind):
        if kind != DELIVER:
            continue
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


def _prove_sent_before_delivered(run: EvsPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["strange"])
    if run.is_unclear:
        proof.doubt()


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
    h = history
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


def _prove_sent_and_delivered_once(run: EvsPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["resent"] + run.sums["again"])
    if run.is_unclear:
        proof.doubt()


def _delivered_once(h: History, node: int, tally: Tally) -> None:
    kinds = h.kind[h.first[node] : h.first[node + 1]]
    deliveries = kinds.count(DELIVER)
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


CHECKS = (
    EvsCheck(
        id="evs.1.1",
        layer="evs",
        source="Specification 1.1",
        case="an event (layer `evs`, not hidden)",
        violated="(counted by knot) it precedes itself through others",
        cases=lambda n: n.events,
        check=_partial_order,
        prove=_prove_partial_order,
        skeleton=True,
        facts=("strange", "resent", "uncausal", "tardy", "lacking", "between", "disordered"),
    ),
    EvsCheck(
        id="evs.1.2",
        every_row=True,
        layer="evs",
        source="Specification 1.2",
        case="a row, of any layer",
        violated="its `n` is not above that of the row before it in the file",
        cases=lambda n: n.rows,
        check=_numbers_grow,
        prove=_prove_numbers_grow,
        facts=("unnumbered",),
    ),
    EvsCheck(
        id="evs.1.3",
        layer="evs",
        source="Specification 1.3",
        case="a delivery",
        violated="its message was not sent; or in another configuration than the regular one of where it is"
        " delivered; or not by its `sender`; or as another service; or, at the same node, only later",
        cases=lambda n: n.deliveries,
        check=_sent_before_delivered,
        prove=_prove_sent_before_delivered,
        facts=("strange", "blurred"),
        kinds=frozenset({"deliver"}),
    ),
    EvsCheck(
        id="evs.1.4",
        layer="evs",
        source="Specification 1.4",
        case="a sending, a delivery",
        violated="it is sent in a configuration that is not regular; or was sent before, by any node, anywhere; or"
        " was delivered before by the same node, in any configuration or incarnation",
        cases=lambda n: n.sends + n.deliveries,
        check=_sent_and_delivered_once,
        prove=_prove_sent_and_delivered_once,
        facts=("resent", "again"),
        kinds=frozenset({"send", "deliver"}),
    ),
)
