"""Timestamps of agreed and safe messages (ATOP, section 1.1): unique, the same everywhere, in order, causal."""

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns, where_clear
from reconvene.verify.history import AGREED, DELIVER, FIFO, NONE, SEND, History
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _stamps(h: History) -> list[int]:
    """Of each message, the first event that has a timestamp of it, or NONE."""
    stamp = [NONE] * len(h.messages)
    for event, ts in enumerate(h.ts):
        if ts != NONE and stamp[h.msg[event]] == NONE:
            stamp[h.msg[event]] = event
    return stamp


def _show(h: History, event: int) -> str:
    return str(list(h.timestamps[h.ts[event]]))


def _unique(h: History, tally: Tally) -> None:
    owner: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    for event, kind in enumerate(h.kind):
        if kind != DELIVER or h.service[event] < AGREED or (h.msg[event], h.ts[event]) in seen:
            continue
        message, ts = h.msg[event], h.ts[event]
        seen.add((message, ts))
        tally.cases += 1
        if ts == NONE:
            detail = f"{h.describe(event)}: has no timestamp"
        elif h.msg[owner.setdefault(ts, event)] != message:
            detail = f"{h.describe(event)}: has the timestamp {_show(h, event)} of {h.messages[h.msg[owner[ts]]]}"
        else:
            continue
        tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _prove_unique(run: EvsPatterns, proof: Proof) -> None:
    proof.cases += run.sums["stamping"]
    proof.suspect(run.sums["unstamped"] + run.sums["unlike"] + run.shared_stamps)


def _same(h: History, tally: Tally) -> None:
    stamp, tss = h.once(_stamps), h.ts
    for event, ts in enumerate(tss):
        if ts == NONE:
            continue
        first = stamp[h.msg[event]]
        if tss[first] != ts:
            detail = f"{h.describe(event)}: with {_show(h, event)}, but {h.describe(first)} with {_show(h, first)}"
            tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _prove_same(run: EvsPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["unlike"])


def _in_order(h: History, tally: Tally) -> None:
    for node in range(h.nodes):
        before = NONE
        for event in range(h.first[node], h.first[node + 1]):
            if h.ts[event] == NONE:
                continue
            if before != NONE and h.ts[event] <= h.ts[before]:
                detail = f"{h.describe(event)}: with {_show(h, event)} after {_show(h, before)}"
                tally.violate(h.run.run, h.names[node], h.n[event], detail)
            before = event


def _prove_in_order(run: EvsPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["disordered"])


def _causal(h: History, tally: Tally) -> None:
    """Unlike Specification 5 this goes on across configurations. The highest timestamp in a message's past decides,
    so that alone is carried along."""
    known = [NONE] * h.nodes
    past = [NONE] * len(h.messages)
    ts_of = [NONE if event == NONE else h.ts[event] for event in h.once(_stamps)]
    for event in h.once(Precedes).schedule():
        kind = h.kind[event]
        if kind not in (SEND, DELIVER):
            continue
        message = h.msg[event]
        if h.msg_service[message] == FIFO:
            continue
        node, ts = h.node[event], ts_of[message]
        if kind == SEND:
            if h.sent[message] != event:
                continue  # sent again: 1.4 speaks of it
            past[message] = known[node]
            if ts != NONE and known[node] >= ts:
                detail = (
                    f"{h.describe(event)}: with {list(h.timestamps[ts])},"
                    f" after a message with {list(h.timestamps[known[node]])}"
                )
                tally.violate(h.run.run, h.names[node], h.n[event], detail)
        known[node] = max(known[node], past[message], ts)


@where_clear
def _prove_causal(run: EvsPatterns, proof: Proof) -> None:
    if not run.has_causal_stamps or not run.is_acyclic:
        proof.doubt()
    if run.is_orderly:
        proof.stamps += run.disordered_roots


CHECKS = (
    EvsCheck(
        id="to.unique",
        layer="evs",
        source="ATOP, section 1.1",
        case="a message that was delivered, with each timestamp it was delivered with",
        violated="it was delivered without one; or the lowest delivery with that timestamp is of another message",
        check=_unique,
        prove=_prove_unique,
        facts=("unlike", "unstamped", "alike"),
        kinds=frozenset({"deliver"}),
    ),
    EvsCheck(
        id="to.same",
        layer="evs",
        source="ATOP, section 1.1",
        case="a delivery with a timestamp",
        violated="the message's lowest delivery with one has another",
        cases=lambda n: n.stamped,
        check=_same,
        prove=_prove_same,
        facts=("unlike",),
        kinds=frozenset({"deliver"}),
    ),
    EvsCheck(
        id="to.order",
        layer="evs",
        source="ATOP, section 1.1",
        case="a delivery with a timestamp that is not the node's first such",
        violated="it is not above that of the one before it, in whichever configuration or incarnation that was",
        cases=lambda n: n.successors,
        check=_in_order,
        prove=_prove_in_order,
        facts=("disordered",),
        kinds=frozenset({"deliver"}),
    ),
    EvsCheck(
        id="to.causal",
        layer="evs",
        source="ATOP, section 1.1",
        case="a message that was sent and has a timestamp",
        violated="a message that precedes it, through causal, agreed or safe messages and across configurations, has"
        " a timestamp that is not below",
        cases=lambda n: n.marked,
        check=_causal,
        prove=_prove_causal,
        facts=("strange", "resent", "again", "uncausal", "unlike", "unstamped", "long", "lacking", "disordered"),
        kinds=frozenset({"send"}),
    ),
)
