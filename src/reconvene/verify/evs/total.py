"""Specifications 6.1-6.3, for agreed and safe messages: one logical time, and no hole in the order."""

from collections.abc import Iterator

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns, Pattern, where_clear
from reconvene.verify.evs.ways import Row
from reconvene.verify.history import AGREED, CONF, DELIVER, NONE, History
from reconvene.verify.precedes import Graph, Precedes
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _logical_time(h: History, tally: Tally) -> None:
    for knot in h.once(Precedes).knots(Graph.TOTAL):
        event = knot.events[0]
        detail = f"no logical time: {knot.describe(event)}"
        tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


def _one_logical_time(h: History, tally: Tally) -> None:
    for knot in h.once(Precedes).knots(Graph.TOTAL):
        if knot.merged:
            event = knot.merged[0][0]
            what = "configuration" if h.kind[event] == CONF else "message"
            detail = f"the {what} is not at one logical time: {knot.describe(event)}"
            tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


@where_clear
def _prove_logical_time(run: EvsPatterns, proof: Proof) -> None:
    """Of both."""
    if not run.has_logical_time:
        proof.doubt()
    if run.is_orderly:
        proof.stamps += run.disordered_entries


class _Sequence:
    """What one node delivered as agreed or safe in one regular configuration and in what followed it."""

    __slots__ = ("events", "messages", "set")

    def __init__(self) -> None:
        self.events: list[int] = []
        self.messages: list[int] = []
        self.set: set[int] = set()


def _no_hole(h: History, tally: Tally) -> None:
    for regular, sequences in _sequences(h).items():
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


@where_clear
def _prove_no_hole(run: EvsPatterns, proof: Proof) -> None:
    if not run.placed:
        proof.doubt()
        return
    by_root: dict[int, dict[int, list[tuple[Row, list[int]]]]] = {}
    for (node, conf), stamp in run.last.items():
        known = run.confs[conf]
        by_root.setdefault(known["root"], {}).setdefault(node, []).append((known, stamp))
    for pattern in run.stamped:
        if pattern.sends:
            for later in _later(pattern, by_root[pattern.root]):
                assert pattern.first is not None
                proof.suspect(1, pattern.row)
                proof.stamps += [pattern.first, *later]


def _later(pattern: Pattern, delivered: dict[int, list[tuple[Row, list[int]]]]) -> Iterator[list[list[int]]]:
    """Of each node that delivered none of these messages, but a later one, in a configuration that holds the sender:
    the timestamps of such."""
    assert pattern.first is not None
    for node, last in delivered.items():
        if node not in pattern.by:
            later = [stamp for conf, stamp in last if pattern.sender in conf["members"] and stamp > pattern.first]
            if later:
                yield later


_DISORDER = (
    "strange", "resent", "again", "uncausal", "unlike", "unstamped", "long", "lacking", "disordered",
)  # fmt: skip

CHECKS = (
    EvsCheck(
        id="evs.6.1",
        layer="evs",
        source="Specification 6.1",
        case="an event that is not about a fifo message",
        violated="(counted by knot) no logical time can be below that of the next",
        cases=lambda n: n.events - n.fifo,
        check=_logical_time,
        prove=_prove_logical_time,
        skeleton=True,
        facts=_DISORDER,
    ),
    EvsCheck(
        id="evs.6.2",
        layer="evs",
        source="Specification 6.2",
        case="a configuration entered more than once; an agreed or safe message delivered more than once",
        violated="(counted by knot) the events of it can't have one logical time",
        cases=lambda n: n.shared_confs + n.several,
        check=_one_logical_time,
        prove=_prove_logical_time,
        skeleton=True,
        facts=_DISORDER,
    ),
    EvsCheck(
        id="evs.6.3",
        layer="evs",
        source="Specification 6.3",
        case="a delivery of an agreed or safe message",
        violated="some node delivered another agreed or safe message before the same one, whose sender is a member of"
        " the configuration of this delivery, and which this node delivered neither in the regular configuration nor"
        " in what followed it",
        cases=lambda n: n.ordered,
        check=_no_hole,
        prove=_prove_no_hole,
        facts=("long", "disordered"),
    ),
)
