"""A whole log as a few checksums: who read the same has the same ones.

Everything that a reader sees of an entry goes in: position, id, the author's clock, whether it counts, its bytes. How
entries come in batches does not.
"""

from collections.abc import Mapping
from hashlib import blake2b
from struct import Struct as Layout

from msgspec import Struct, field

from reconvene.entries import EntryBatch

__all__ = ["EACH", "Digest", "LogDigest", "differences"]

EACH = 256
"""Entries between two checksums, so that a difference is found near where it is."""
_ENTRY = Layout("<QQQqBI")


class Digest(Struct, kw_only=True):
    entries: int = 0
    marks: list[str] = field(default_factory=list)
    """Of everything before each multiple of `EACH`."""
    last: str = ""
    """Of everything."""
    gaps: list[str] = field(default_factory=list)
    """Positions that did not follow each other."""


class LogDigest:
    def __init__(self) -> None:
        self.next = 0
        """The position that is due."""
        self._sum = blake2b(digest_size=8)
        self._marks: list[str] = []
        self._gaps: list[str] = []

    def add(self, batch: EntryBatch) -> None:
        if batch.position != self.next:
            self._gaps.append(f"position {batch.position} came where {self.next} was due")
        author = f"{batch.author} {batch.kind} ".encode()
        void = frozenset(batch.void)
        for at, data in enumerate(batch.messages):
            head = _ENTRY.pack(
                batch.position + at, batch.incarnation, batch.first + at, batch.time, at in void, len(data)
            )
            self._sum.update(head + author + data)
            if (batch.position + at + 1) % EACH == 0:
                self._marks.append(self._sum.hexdigest())
        self.next = batch.end

    def digest(self) -> Digest:
        return Digest(entries=self.next, marks=self._marks, last=self._sum.hexdigest(), gaps=self._gaps)


def differences(readings: Mapping[str, Digest]) -> list[str]:
    """Between the first reader and each of the others, and what each saw for itself; all of them read to the end."""
    found = [f"{reader}: {gap}" for reader, reading in readings.items() for gap in reading.gaps[:3]]
    (first, base), *others = readings.items()
    for reader, reading in others:
        alike = 0
        for mine, theirs in zip(base.marks, reading.marks, strict=False):
            if mine != theirs:
                break
            alike += 1
        if base.entries != reading.entries:
            found.append(
                f"{first} read {base.entries} entries, {reader} {reading.entries}; the first {alike * EACH} agree"
            )
        elif base.last != reading.last:
            found.append(f"{first} and {reader} differ within the {EACH} entries from {alike * EACH} on")
    return found
