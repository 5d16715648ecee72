"""What writers to the log were told, and whether the log keeps it.

A *writer* numbers its messages from 1, and a message's bytes follow from writer and number, so that whoever reads one
knows whose it is and that nothing of it has changed. Promised by `judge`: each receipt that the log does not keep is
named, and so is whatever is in the log twice, or was refused and is there all the same.
"""

from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct, field

from reconvene.entries import EntryBatch
from reconvene.ids import message_id
from reconvene.objects.replicated_map import is_change

__all__ = ["Append", "Index", "Judgement", "judge", "payload", "payload_size", "written_by"]

_HEAD = Layout("<HI")
_SMALL, _LARGE = (60, 200), (20_000, 100_000)
"""Bytes of a message: most are small, and some larger than a frame."""
_LARGE_EACH = 1_000
"""About one message of so many is large."""
_KEPT = 20


def payload_size(writer: int, number: int) -> int:
    chance = crc32(_HEAD.pack(writer, number))
    low, high = _LARGE if chance % _LARGE_EACH == 0 else _SMALL
    return low + chance // _LARGE_EACH % (high - low)


def payload(writer: int, number: int) -> bytes:
    head = _HEAD.pack(writer, number)
    size = payload_size(writer, number)
    return (head * (size // _HEAD.size + 1))[:size]


def written_by(data: bytes) -> tuple[int, int] | None:
    """Writer and number; None where it is no message of a writer's, or not whole."""
    if len(data) < _HEAD.size:
        return None
    writer, number = _HEAD.unpack_from(data)
    return (writer, number) if data == payload(writer, number) else None


class Append(Struct, array_like=True):
    """What became of messages that a writer appended together."""

    writer: int
    number: int
    """Of the first; the others follow."""
    count: int
    outcome: str
    """receipt | unknown | refused: nothing happened"""
    ids: list[str] = field(default_factory=list)
    """That the receipt names; empty ones where it does not know."""
    again: int = 0
    """How many of them the log had before, as it said."""
    runs: list[tuple[int, int]] | None = None
    """(position, count) … that `ordered` told; None where it was not asked."""

    def positions(self) -> Iterator[int]:
        for position, count in self.runs or ():
            yield from range(position, position + count)


class Index:
    """One site's log: whose message is where."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, int], int] = {}
        """By writer and number: the position of the message that counts."""
        self.ids: dict[str, tuple[int, int]] = {}
        """Of all messages, void ones too."""
        self.voids: dict[int, tuple[int, int]] = {}
        """By position."""
        self.findings: list[str] = []
        self._next = 0

    def add(self, batch: EntryBatch) -> None:
        if batch.position != self._next:
            self._find(f"position {batch.position} came where {self._next} was due")
        self._next = batch.end
        if batch.kind != "data":
            return
        void = frozenset(batch.void)
        for at, data in enumerate(batch.messages):
            whose = written_by(data)
            position = batch.position + at
            name = message_id(batch.author, batch.incarnation, batch.first + at)
            if whose is None and is_change(data):
                continue  # of the map, whose calls are judged by themselves
            if whose is None:
                self._find(f"position {position}: {name} is no message that anyone wrote")
                continue
            if name in self.ids:
                self._find(f"position {position}: {name} was in the log before")
            self.ids[name] = whose
            if at in void:
                self.voids[position] = whose
            elif whose in self.places:
                self._find(
                    f"position {position}: message {whose[1]} of writer {whose[0]} counts at {self.places[whose]} too"
                )
            else:
                self.places[whose] = position

    @property
    def length(self) -> int:
        return self._next

    def _find(self, what: str) -> None:
        if len(self.findings) < _KEPT:
            self.findings.append(what)


class Judgement(Struct, kw_only=True):
    """All writers' appends beside the log."""

    receipts: int = 0
    """Messages with one."""
    placed: int = 0
    """Messages whose position was told."""
    inexact: int = 0
    """Of these, retried ones whose position nobody knew any more: a later one was told."""
    again: int = 0
    """Messages that were appended again, and that the log said to have."""
    unknown: int = 0
    """Messages of unknown outcome …"""
    arrived: int = 0
    """… of which so many are in the log."""
    refused: int = 0
    voids: int = 0
    """Messages in the log that count for nothing, since they came twice."""
    faults: int = 0
    findings: list[str] = field(default_factory=list)
    """The first ones."""

    def find(self, what: str) -> None:
        self.faults += 1
        if len(self.findings) < _KEPT:
            self.findings.append(what)


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
    for whose in sorted(set(index.places) - known)[:_KEPT]:
        found.find(f"message {whose[1]} of writer {whose[0]} at {index.places[whose]}: nobody appended it")
    return found


def _kept(append: Append, messages: Sequence[tuple[int, int]], index: Index, found: Judgement) -> None:
    lost = [message for message in messages if message not in index.places]
    if lost:
        found.find(f"{_shown(append)}: {len(lost)} have a receipt and are not in the log, {lost[0][1]} is the first")
    for name, message in zip(append.ids, messages, strict=False):
        if name and message in index.places and index.ids.get(name) != message:
            found.find(f"{_shown(append)}: number {message[1]} is {name} by its receipt; the log has another there")
            break
    if append.runs is None:
        return
    told = list(append.positions())
    found.placed += len(told)
    if len(told) != append.count:
        found.find(f"{_shown(append)}: {len(told)} positions were told")
    for position, message in zip(told, messages, strict=False):
        place = index.places.get(message)
        if place is None or place == position:
            continue
        if append.again and position > place and position not in index.voids:
            found.inexact += 1
            continue
        void = ", where a void copy is" if index.voids.get(position) == message else ""
        found.find(f"{_shown(append)}: number {message[1]} was told to be at {position}{void}, and is at {place}")
        break


def _shown(append: Append) -> str:
    return f"messages {append.number} to {append.number + append.count - 1} of writer {append.writer}"
