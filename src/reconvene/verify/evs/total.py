"""Specifications 6.1-6.3, for agreed and safe messages: one logical time, and no hole in the order."""

from reconvene.verify.history import AGREED, CONF, DELIVER, FIFO, HIDDEN, NONE, SEND, History
from reconvene.verify.precedes import Graph, Precedes
from reconvene.verify.report import Tallies, Tally

__all__ = ["IDS", "check"]

IDS = ("evs.6.1", "evs.6.2", "evs.6.3")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    _logical_time(history, precedes, tallies["evs.6.1"], tallies["evs.6.2"])
    _no_hole(history, tallies["evs.6.3"])


def _logical_time(h: History, precedes: Precedes, before: Tally, same: Tally) -> None:
    """6.1. Case: an event, but of fifo messages. Violation: a knot, in which no event's time can be before the next.
    6.2. Case: a configuration that is entered, or an agreed or safe message that is delivered, by more than one
    event. Violation: a knot that holds such events, which so can't all have one time."""
    deliveries: dict[int, int] = {}
    for kind, message in zip(h.kind, h.msg, strict=True):
        if kind == HIDDEN or (kind in (SEND, DELIVER) and h.msg_service[message] == FIFO):
            continue
        before.cases += 1
        if kind == DELIVER and h.msg_service[message] >= AGREED:
            deliveries[message] = deliveries.get(message, 0) + 1
    same.cases += sum(len(conf.entered) > 1 for conf in h.confs)
    same.cases += sum(count > 1 for count in deliveries.values())
    for knot in precedes.knots(Graph.TOTAL):
        event = knot.events[0]
        detail = f"no logical time: {knot.describe(event)}"
        before.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)
        if knot.merged:
            event = knot.merged[0][0]
            what = "configuration" if h.kind[event] == CONF else "message"
            detail = f"the {what} is not at one logical time: {knot.describe(event)}"
            same.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


class _Sequence:
    """What one node delivered as agreed or safe in one regular configuration and in what followed it."""

    __slots__ = ("events", "messages", "set")

    def __init__(self) -> None:
        self.events: list[int] = []
        self.messages: list[int] = []
        self.set: set[int] = set()


def _no_hole(h: History, tally: Tally) -> None:
    """6.3. Case: a delivery of an agreed or safe message. Violation: some node delivered, before the same message,
    another one, whose sender is a member of the configuration of this delivery, and which this node delivered
    neither in the regular configuration nor in what followed it."""
    for regular, sequences in _sequences(h).items():
        tally.cases += sum(len(sequence.events) for sequence in sequences.values())
        union: set[int] = set().union(*(sequence.set for sequence in sequences.values()))
        distinct: dict[tuple[int, ...], int] = {}
        for node, sequence in sequences.items():
            distinct.setdefault(tuple(sequence.messages), node)
        for sequence in sequences.values():
            if len(sequence.set) < len(union):
                orders = [(node, sequences[node]) for node in distinct.values()]
                _holes(h, regular, sequence, orders, tally)


def _sequences(h: History) -> dict[int, dict[int, _Sequence]]:
    """By regular configuration, then by node."""
    found: dict[int, dict[int, _Sequence]] = {}
    for event, kind in enumerate(h.kind):
        if kind != DELIVER:
            continue
        message = h.msg[event]
        if h.msg_service[message] < AGREED:
            continue
        by_node = found.setdefault(h.root[h.conf[event]], {})
        sequence = by_node.get(h.node[event])
        if sequence is None:
            sequence = by_node[h.node[event]] = _Sequence()
        sequence.events.append(event)
        sequence.messages.append(message)
        sequence.set.add(message)
    return found


def _holes(h: History, regular: int, mine: _Sequence, orders: list[tuple[int, _Sequence]], tally: Tally) -> None:
    here: dict[int, list[int]] = {}
    for event, message in zip(mine.events, mine.messages, strict=True):
        here.setdefault(message, []).append(event)
    wrong: dict[int, tuple[int, int]] = {}
    for node, order in orders:
        if order.set <= mine.set:
            continue
        lacking: dict[int, int] = {}
        for message in order.messages:
            if message in mine.set:
                for event in here[message]:
                    hole = next((lacking[m] for m in h.confs[h.conf[event]].members if m in lacking), None)
                    if hole is not None:
                        wrong.setdefault(event, (hole, node))
                continue
            send = h.sent[message]
            if send != NONE and h.conf[send] == regular:
                lacking.setdefault(h.node[send], message)
    for event, (hole, node) in wrong.items():
        detail = (
            f"{h.describe(event)}: {h.names[node]} delivered {h.messages[hole]} before it,"
            " whose sender is in this configuration, and which was not delivered here"
        )
        tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)
