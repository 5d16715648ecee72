"""What a space-time diagram shows: some events of one run, chosen around a violation or within a stretch of time.

Given: a source of one run's events, whether in memory or a table of any size. Promised: a bounded number of events
(`MOST_EVENTS`); those that a witness names, and what happened to their messages, before all others; of any other
message all that happened in the stretch, or nothing; and how many events were left out.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from zlib import crc32

from reconvene.errors import Malformed
from reconvene.report.words import describe
from reconvene.trace.events import Row

__all__ = [
    "CAUSES",
    "MESSAGE_KINDS",
    "MOST_EVENTS",
    "STRUCTURE_KINDS",
    "EventSource",
    "Mark",
    "Moment",
    "Placed",
    "around",
    "lot",
    "within",
]

MOST_EVENTS = 200
"""In one diagram: more can't be told apart."""
MOST_STRUCTURE = 120
"""Of them, configurations and faults."""
MOST_INTEREST = 80
"""Of them, events of messages that the witness is about."""
_READ = 2_000
"""Rows that are fetched to choose from."""
_BESIDE = 12
"""Events before and after the violation, at its node, that set the stretch of time."""

MESSAGE_KINDS = {
    "evs": ("send", "deliver"),
    "corel": ("accept", "log", "yellow", "red", "green"),
    "vs": ("cast", "deliver"),
    "isis": ("cbcast", "abcast", "gbcast", "receive", "reject", "answer"),
}
"""By layer: what happens to a message. A diagram shows one layer's messages."""
CAUSES: dict[str, tuple[tuple[str, ...], str]] = {
    "evs": (("send",), "deliver"),
    "corel": (("accept",), "log"),
    "vs": (("cast",), "deliver"),
    "isis": (("cbcast", "abcast", "gbcast"), "receive"),
}
"""By layer: what an arrow leads from, one of several kinds; and what to."""
STRUCTURE_KINDS = {
    "evs": ("conf", "fail", "stop"),
    "corel": ("attempt", "commit", "establish", "adopt", "snapshot"),
    "vs": ("view", "stop"),
    "isis": ("site", "begin", "end", "join", "leave", "view", "failed", "flush", "state"),
}
"""What happens to a node. That of the layer evs is in every diagram."""

_EVENT = re.compile(r"([^\s,]+)#(\d+)")
_MESSAGE = re.compile(r"[^\s,:]+:\d+:\d+")


@dataclass(frozen=True, slots=True)
class Placed:
    """An event, and its place in its node's file."""

    place: int
    row: Row


@dataclass(frozen=True, slots=True)
class Mark:
    """An event to be seen: the violation, with what is said of it, or one that is named there."""

    node: str
    n: int
    detail: str = ""


@dataclass(slots=True)
class Moment:
    """A diagram's content."""

    run: str
    nodes: list[str]
    layer: str
    start: int
    """The clock at the run's first event."""
    events: list[Placed]
    openings: dict[str, Row] = field(default_factory=dict)
    """Each node's last configuration, or its end, before the first of these events."""
    marks: list[Mark] = field(default_factory=list)
    at_issue: list[str] = field(default_factory=list)
    """Messages that the witness is about."""
    violation: bool = False
    """Is it drawn for a violation?"""
    left_out: int = 0
    """Events of this stretch that are not shown."""


class EventSource(Protocol):
    """One run's events. Every answer is bounded by its limit, the nearest to `near` first."""

    run: str
    nodes: list[str]
    stack: str
    start: int

    def named(self, events: Sequence[tuple[str, int]]) -> list[Placed]:
        """Those events, by node and n."""

    def beside(self, node: str, place: int, layer: str, reach: int) -> list[Placed]:
        """That many rows of a layer before and after a place in a node's file."""

    def of_messages(self, messages: Sequence[str], layer: str, near: int, limit: int) -> list[Placed]:
        """What happened to these messages."""

    def count(self, low: int, high: int, layer: str) -> int:
        """How much happened to messages from one clock to another."""

    def between(self, low: int, high: int, layer: str, every: int, near: int, limit: int) -> list[Placed]:
        """That, of those messages whose `lot` divides by `every`."""

    def structure(self, low: int, high: int, layer: str, near: int, limit: int) -> tuple[list[Placed], int]:
        """What happened to nodes, and how much of it there is: configurations and faults of the layer evs, and what
        else this layer has."""

    def openings(self, places: dict[str, int], before: int) -> dict[str, Row]:
        """Of each node, its last configuration or end before that place in its file; where no place is given,
        before that clock."""


def around(source: EventSource, node: str, n: int, detail: str = "", layer: str | None = None) -> Moment:
    """Around event n of a node. `detail`, where a witness has it, names others that belong into the picture."""
    found = source.named([(node, n)])
    if not found:
        raise Malformed(f"{source.run}: no event {n} of node {node}")
    # Where two events have one number, which is a violation, it shows at the later one.
    focus = max(found, key=lambda placed: placed.place)
    layer = layer or focus.row.layer
    others = list(dict.fromkeys((name, int(number)) for name, number in _EVENT.findall(detail)))[:20]
    named = [placed for placed in source.named(others) if (placed.row.node, placed.row.n) != (node, n)]
    messages = _messages(detail, [focus, *named])
    near = focus.row.t
    interest = source.of_messages(messages, layer, near, MOST_INTEREST) if messages else []
    beside = source.beside(node, focus.place, layer, _BESIDE) or [focus]
    low, high = min(placed.row.t for placed in beside), max(placed.row.t for placed in beside)
    kept = _unique([focus, *named, *interest])
    moment = _fill(source, layer, near, (low, high), kept, spread=False)
    moment.at_issue = messages
    moment.violation = bool(detail)
    said = detail or describe(focus.row)
    moment.marks = [Mark(node, n, said), *(Mark(placed.row.node, placed.row.n) for placed in named)]
    return moment


def within(source: EventSource, low: int, high: int, layer: str | None = None) -> Moment:
    """From one moment to another, in ns since the run's start."""
    if layer is None:
        layer = "corel" if source.stack == "corel" else "evs"
    low, high = source.start + low, source.start + high
    moment = _fill(source, layer, (low + high) // 2, (low, high), [], spread=True)
    if not moment.events:
        raise Malformed(f"{source.run}: nothing happened in this window")
    return moment


def _messages(detail: str, events: Iterable[Placed]) -> list[str]:
    own = [placed.row.msg for placed in events if placed.row.msg]
    return list(dict.fromkeys([*own, *_MESSAGE.findall(detail)]))[:20]


def _fill(
    source: EventSource, layer: str, near: int, span: tuple[int, int], kept: list[Placed], spread: bool
) -> Moment:
    """`spread`: what is shown is drawn by lot from the whole stretch, not from what is nearest."""
    low, high = span
    count = source.count(low, high, layer)
    every = max(1, count // (_READ // 2)) if spread else 1
    others = source.between(low, high, layer, every, near, _READ)
    reach = [placed.row.t for placed in kept]
    low, high = min([low, *reach]), max([high, *reach])
    frame, all_frame = source.structure(low, high, layer, near, MOST_STRUCTURE)
    chosen = _unique([*kept, *frame])
    seen = {(placed.row.node, placed.place) for placed in chosen}
    shown = sum((placed.row.node, placed.place) in seen for placed in others)
    for message in _by_message(others, seen, layer, near, spread):
        if len(chosen) + len(message) > MOST_EVENTS:
            break
        chosen += message
        shown += len(message)
    chosen.sort(key=lambda placed: (placed.row.node, placed.place))
    first: dict[str, int] = {}
    for placed in chosen:
        first.setdefault(placed.row.node, placed.place)
    openings = source.openings(first, low)
    left_out = count - shown + all_frame - len(frame)
    return Moment(source.run, source.nodes, layer, source.start, chosen, openings, left_out=left_out)


def lot(message: str) -> int:
    """A number that chooses among messages, the same on every engine."""
    return crc32(message.encode())


def _by_message(
    events: Sequence[Placed], taken: set[tuple[str, int]], layer: str, near: int, spread: bool
) -> list[list[Placed]]:
    """The rest, message by message: by lot, those whose beginning is seen first; or the nearest first."""
    messages: dict[str, list[Placed]] = {}
    for placed in events:
        if (placed.row.node, placed.place) not in taken:
            messages.setdefault(placed.row.msg or "", []).append(placed)
    begins = CAUSES[layer][0]

    def rank(msg: str) -> tuple[int, int, str]:
        rows = messages[msg]
        if spread:
            return all(placed.row.kind not in begins for placed in rows), lot(msg), msg
        return 0, min(abs(placed.row.t - near) for placed in rows), msg

    return [messages[msg] for msg in sorted(messages, key=rank)]


def _unique(events: Iterable[Placed]) -> list[Placed]:
    return list({(placed.row.node, placed.place): placed for placed in events}.values())
