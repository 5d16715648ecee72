"""Timestamps of agreed and safe messages (ATOP, section 1.1): unique, the same everywhere, in order, causal."""

from reconvene.verify.history import AGREED, DELIVER, FIFO, NONE, SEND, History
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tallies, Tally

__all__ = ["IDS", "check"]

IDS = ("to.unique", "to.same", "to.order", "to.causal")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    stamp = _stamps(history)
    _unique(history, tallies["to.unique"])
    _same(history, stamp, tallies["to.same"])
    _in_order(history, tallies["to.order"])
    _causal(history, precedes.schedule(), stamp, tallies["to.causal"])


def _stamps(h: History) -> list[int]:
    """Of each message, the event that first gives it a timestamp, or NONE."""
    stamp = [NONE] * len(h.messages)
    for event, ts in enumerate(h.ts):
        if ts != NONE and stamp[h.msg[event]] == NONE:
            stamp[h.msg[event]] = event
    return stamp


def _show(h: History, event: int) -> str:
    return str(list(h.timestamps[h.ts[event]]))


def _unique(h: History, tally: Tally) -> None:
    """Case: an agreed or safe message that was delivered, with each timestamp (or the lack of one) that it was
    delivered with. Violation: it has none, or another message, with a lower event, has the same one."""
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


def _same(h: History, stamp: list[int], tally: Tally) -> None:
    """Case: a delivery with a timestamp. Violation: the message's lowest delivery with one has another."""
    tss = h.ts
    for event, ts in enumerate(tss):
        if ts == NONE:
            continue
        tally.cases += 1
        first = stamp[h.msg[event]]
        if tss[first] != ts:
            detail = f"{h.describe(event)}: with {_show(h, event)}, but {h.describe(first)} with {_show(h, first)}"
            tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _in_order(h: History, tally: Tally) -> None:
    """Case: a delivery with a timestamp, after another one at the same node. Violation: its timestamp is not above
    that of the one before it."""
    for node in range(h.nodes):
        before = NONE
        for event in range(h.first[node], h.first[node + 1]):
            if h.ts[event] == NONE:
                continue
            if before != NONE:
                tally.cases += 1
                if h.ts[event] <= h.ts[before]:
                    detail = f"{h.describe(event)}: with {_show(h, event)} after {_show(h, before)}"
                    tally.violate(h.run.run, h.names[node], h.n[event], detail)
            before = event


def _causal(h: History, schedule: list[int], stamp: list[int], tally: Tally) -> None:
    """Case: a message that was sent and has a timestamp. Violation: a message that its sender had sent or delivered
    before it, or that led to one of these in the same way, through causal, agreed or safe messages, has a timestamp
    that is not below it. Unlike Specification 5 this goes on across configurations.

    The highest timestamp in a message's past decides, so that alone is carried along.
    """
    known = [NONE] * h.nodes
    past = [NONE] * len(h.messages)
    ts_of = [NONE if event == NONE else h.ts[event] for event in stamp]
    for event in schedule:
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
            if ts != NONE:
                tally.cases += 1
                if known[node] >= ts:
                    detail = (
                        f"{h.describe(event)}: with {list(h.timestamps[ts])},"
                        f" after a message with {list(h.timestamps[known[node]])}"
                    )
                    tally.violate(h.run.run, h.names[node], h.n[event], detail)
        known[node] = max(known[node], past[message], ts)
