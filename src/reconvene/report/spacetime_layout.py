"""Where the events of a space-time diagram stand: time runs downwards, and quiet stretches are shortened.

Promised: at each node, events in the order of its file; an arrow that connects two nodes leads down; what happened
together stands together. Where the events contradict each other (a violation may be a circle), as much of this as
can be.
"""

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from statistics import median

from reconvene.report.moment import CAUSES, Moment, Placed

__all__ = ["Key", "Layout", "cause_of", "lay_out"]

Key = tuple[str, int]
"""Node, and place in its file."""

STEP = 12.0
"""Between two events of a node."""
SLANT = 16.0
"""How much lower an arrow ends than it begins, at least."""
LEAST_GAP = 7.0
MOST_GAP = 52.0
_TICK_APART = 26.0


@dataclass(slots=True)
class Layout:
    places: dict[Key, float]
    """How far down each event is."""
    ticks: list[tuple[float, int]]
    """How far down, and the clock there."""
    height: float


def cause_of(moment: Moment) -> dict[Key, Key]:
    """Of each arrow's end, its beginning, where both are shown."""
    begins, ends = CAUSES[moment.layer]
    sent: dict[str, Key] = {}
    for placed in moment.events:
        row = placed.row
        if row.layer == moment.layer and row.kind in begins and row.msg:
            sent.setdefault(row.msg, (row.node, placed.place))
    return {
        (placed.row.node, placed.place): sent[placed.row.msg]
        for placed in moment.events
        if placed.row.layer == moment.layer and placed.row.kind == ends and placed.row.msg in sent
    }


def lay_out(moment: Moment) -> Layout:
    causes = cause_of(moment)
    ordered = _ordered(moment, causes)
    clusters = _clusters(ordered)
    pauses = [after[0][0] - before[-1][0] for before, after in pairwise(clusters)]
    usual = median(pauses) if pauses else 1
    places: dict[Key, float] = {}
    lowest: dict[str, float] = {}
    ticks: list[tuple[float, int]] = []
    top = 0.0
    for index, cluster in enumerate(clusters):
        if index:
            top += _gap(pauses[index - 1], max(usual, 1))
        if not ticks or top - ticks[-1][0] >= _TICK_APART:
            ticks.append((top, cluster[0][0]))
        bottom = top
        for _, placed in cluster:
            key = (placed.row.node, placed.place)
            at = max(top, lowest.get(key[0], -STEP) + STEP)
            cause = causes.get(key)
            if cause is not None and cause in places:
                at = max(at, places[cause] + (SLANT if cause[0] != key[0] else STEP))
            places[key] = lowest[key[0]] = at
            bottom = max(bottom, at)
        top = bottom
    return Layout(places, ticks, top)


def _gap(pause: int, usual: float) -> float:
    return min(MOST_GAP, LEAST_GAP + 9 * math.log2(1 + pause / usual))


def _ordered(moment: Moment, causes: dict[Key, Key]) -> list[tuple[int, Placed]]:
    """Each with a clock that never runs back, causes before what follows from them."""
    events = {(placed.row.node, placed.place): placed for placed in moment.events}
    follows: dict[Key, list[Key]] = {}
    waits = dict.fromkeys(events, 0)
    by_node: dict[str, list[Key]] = {}
    for key in sorted(events):
        by_node.setdefault(key[0], []).append(key)
    chains = [pair for keys in by_node.values() for pair in pairwise(keys)]
    for before, after in [*chains, *((cause, effect) for effect, cause in causes.items())]:
        follows.setdefault(before, []).append(after)
        waits[after] += 1
    ready = [(events[key].row.t, key) for key, count in waits.items() if not count]
    heapify(ready)
    left = set(events)
    ordered: list[tuple[int, Placed]] = []
    clock = -(2**63)
    while left:
        key = heappop(ready)[1] if ready else _break(by_node, events, left)
        if key not in left:
            continue
        left.remove(key)
        clock = max(clock, events[key].row.t)
        ordered.append((clock, events[key]))
        for after in follows.get(key, []):
            waits[after] -= 1
            if not waits[after] and after in left:
                heappush(ready, (events[after].row.t, after))
    return ordered


def _break(by_node: dict[str, list[Key]], events: dict[Key, Placed], left: set[Key]) -> Key:
    """In a circle nothing is ready. Of the nodes' next events the earliest goes first, before its cause."""
    heads = [next((key for key in keys if key in left), None) for keys in by_node.values()]
    return min((key for key in heads if key is not None), key=lambda key: (events[key].row.t, key))


def _clusters(ordered: list[tuple[int, Placed]]) -> list[list[tuple[int, Placed]]]:
    """What happened at nearly the same time, seen from this far."""
    if not ordered:
        return []
    together = (ordered[-1][0] - ordered[0][0]) // 500
    clusters: list[list[tuple[int, Placed]]] = []
    for entry in ordered:
        if clusters and entry[0] - clusters[-1][0][0] <= together:
            clusters[-1].append(entry)
        else:
            clusters.append([entry])
    return clusters
