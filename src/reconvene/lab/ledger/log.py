"""The answers that writers to the log got, compared with the log.

A *writer* numbers its messages from 1. A message's bytes follow from its writer and number, so a reader knows who
wrote it and that it is unchanged. Promised by `judge`: it reports each message that has a receipt and is not in the
log, is in the log twice, or was refused and is in the log.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct, field

from reconvene.entries import EntryBatch
from reconvene.ids import message_id
from reconvene.lab.ledger.compare import FINDINGS_KEPT, keep
from reconvene.objects.replicated_map import is_change

__all__ = ["Append", "Index", "Judgement", "judge", "payload", "payload_size", "written_by"]

_HEAD = Layout("<HI")
_SMALL, _LARGE = (60, 200), (20_000, 100_000)
"""Bytes of a message: most are small, and some larger than a frame."""
_LARGE_EACH = 1_000
"""About one message of so many is large."""


def payload_size(writer: int, number: int) -> int:
    chance = crc32(_HEAD.pack(writer, number))
    low, high = _LARGE if chance % _LARGE_EACH == 0 else _SMALL
    return low + chance // _LARGE_EACH % (high - low)


def payload(writer: int, number: int) -> bytes:
    head = _HEAD.pack(writer, number)
    size = payload_size(writer, number)
    return (head * (size // _HEAD.size + 1))[:size]


def written_by(data: bytes) -> tuple[int, int] | None:
    """Writer and number; None if no writer wrote exactly this."""
    if len(data) < _HEAD.size:
        return None
    writer, number = _HEAD.unpack_from(data)
    return (writer, number) if data == payload(writer, number) else None


class Append(Struct, array_like=True):
    """The result of one append of one or several messages."""

    writer: int
    number: int
    """Of the first message; the others follow."""
    count: int
    outcome: str
    """receipt | unknown | refused: nothing happened"""
    ids: list[str] = field(default_factory=list)
    """The ids in the receipt; "" where it has none."""
    again: int = 0
    """How many of them were in the log already, by the receipt."""
    runs: list[tuple[int | None, int]] | None = None
    """The positions that `ordered` returned, as (position, count) …; a position of None: it is forgotten. None if it
    was not called."""
    outpost: bool = False
    """An outpost accepted them. It forgets the positions of first copies too, when it is started again."""

    def positions(self) -> Iterator[int | None]:
        for position, count in self.runs or ():
            yield from repeat(None, count) if position is None else range(position, position + count)


class Index:
    """One site's log, by message."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, int], int] = {}
        """By (writer, number): the position at which the message counts."""
        self.ids: dict[str, tuple[int, int]] = {}
        """By id: (writer, number). Void messages too."""
        self.voids: dict[int, tuple[int, int]] = {}
        """Void messages by position: (writer, number)."""
        self.findings: list[str] = []
        self._next = 0

    def add(self, batch: EntryBatch) -> None:
        if batch.position != self._next:
            keep(self.findings, f"position {batch.position} came, expected {self._next}")
        self._next = batch.end
        if batch.kind != "data":
            return
        void = frozenset(batch.void)
        for at, data in enumerate(batch.messages):
            whose = written_by(data)
            position = batch.position + at
            name = message_id(batch.author, batch.incarnation, batch.first + at)
            if whose is None and is_change(data):
                continue  # a change of the map, whose calls are checked for linearizability
            if whose is None:
                keep(self.findings, f"position {position}: {name} is no message of any writer")
                continue
            # Two sites may have taken an outpost's message: it is one message, and one copy of it counts.
            if name in self.ids and not (at in void and self.ids[name] == whose):
                keep(self.findings, f"position {position}: {name} is in the log already")
            self.ids[name] = whose
            if at in void:
                self.voids[position] = whose
            elif (counted := self.places.get(whose)) is not None:
                what = f"message {whose[1]} of writer {whose[0]}"
                keep(self.findings, f"position {position}: {what} counts at {counted} too")
            else:
                self.places[whose] = position

    @property
    def length(self) -> int:
        return self._next


class Judgement(Struct, kw_only=True):
    """All writers' appends, compared with the log."""

    receipts: int = 0
    """Messages that have one."""
    placed: int = 0
    """Messages whose position `ordered` returned."""
    forgotten: int = 0
    """Messages that are ordered by `ordered`, at a position that was not known any more."""
    again: int = 0
    """Messages that were appended again, and were in the log already."""
    unknown: int = 0
    """Messages of unknown outcome."""
    arrived: int = 0
    """Messages of unknown outcome that are in the log."""
    refused: int = 0
    voids: int = 0
    """Messages in the log that do not count, because they are there twice."""
    faults: int = 0
    findings: list[str] = field(default_factory=list)
    """The first ones."""

    def find(self, what: str) -> None:
        self.faults += 1
        keep(self.findings, what)


def judge(appends: Sequence[Append], index: Index) -> Judgement:
    found = Judgement(voids=len(index.voids))
    for finding in index.findings:
        found.find(finding)
    known: set[tuple[int, int]] = set()
    for append in appends:
        messages = [(append.writer, append.number + at) for at in range(append.count)]
        known.update(messages)
        there = sum(message in index.places for message in messages)
        match append.outcome:
            case "receipt":
                found.receipts += append.count
                found.again += append.again
                _kept(append, messages, index, found)
            case "unknown":
                found.unknown += append.count
                found.arrived += there
            case _:
                found.refused += append.count
                if there:
                    found.find(f"{_shown(append)}: {there} were refused, and are in the log")
    for whose in sorted(set(index.places) - known)[:FINDINGS_KEPT]:
        found.find(f"message {whose[1]} of writer {whose[0]} at {index.places[whose]}: no writer appended it")
    return found


def _kept(append: Append, messages: Sequence[tuple[int, int]], index: Index, found: Judgement) -> None:
    lost = [message for message in messages if message not in index.places]
    if lost:
        found.find(f"{_shown(append)}: {len(lost)} have a receipt and are not in the log, {lost[0][1]} is the first")
    for name, message in zip(append.ids, messages, strict=False):
        if name and message in index.places and index.ids.get(name) != message:
            found.find(f"{_shown(append)}: number {message[1]} is {name} by its receipt, which is another message")
            break
    if append.runs is None:
        return
    returned = list(append.positions())
    forgotten = returned.count(None)
    found.placed += len(returned) - forgotten
    found.forgotten += forgotten
    if forgotten > append.again and not append.outpost:
        found.find(f"{_shown(append)}: {forgotten} positions are forgotten, and {append.again} are duplicates")
    if len(returned) != append.count:
        found.find(f"{_shown(append)}: `ordered` returned {len(returned)} positions")
    for position, message in zip(returned, messages, strict=False):
        place = index.places.get(message)
        if place is None or position is None or place == position:
            continue
        void = " (a void copy)" if index.voids.get(position) == message else ""
        found.find(f"{_shown(append)}: number {message[1]} is at {place}, and `ordered` returned {position}{void}")
        break


def _shown(append: Append) -> str:
    return f"messages {append.number} to {append.number + append.count - 1} of writer {append.writer}"
