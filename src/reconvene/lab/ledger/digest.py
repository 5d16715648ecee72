"""A whole log as a few checksums: readers of the same log get the same checksums.

They cover everything that a reader sees of an entry: position, id, the author's clock, whether it counts, its bytes.
They do not depend on how the entries are divided into batches.
"""

from collections.abc import Mapping
from hashlib import blake2b
from struct import Struct as Layout

from msgspec import Struct, field

from reconvene.entries import EntryBatch
from reconvene.lab.ledger.compare import first_difference

__all__ = ["EACH", "Digest", "LogDigest", "differences"]

EACH = 256
"""Entries between two checksums, so that a difference is found near where it is."""
_ENTRY = Layout("<QQQqBI")


class Digest(Struct, kw_only=True):
    entries: int = 0
    marks: list[str] = field(default_factory=list)
    """Checksums of all entries before each multiple of `EACH`."""
    last: str = ""
    """The checksum of all entries."""
    gaps: list[str] = field(default_factory=list)
    """Positions that did not follow each other."""


class LogDigest:
    def __init__(self) -> None:
        self.next = 0
        """The next position."""
        self._sum = blake2b(digest_size=8)
        self._marks: list[str] = []
        self._gaps: list[str] = []

    def add(self, batch: EntryBatch) -> None:
        if batch.position != self.next:
            self._gaps.append(f"position {batch.position} came, expected {self.next}")
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
    """Gaps that readers saw, and differences between the first reader and each other one. All read to the end."""
    found = [f"{reader}: {gap}" for reader, reading in readings.items() for gap in reading.gaps[:3]]
    (first, base), *others = readings.items()
    for reader, reading in others:
        at = first_difference(base.marks, reading.marks)
        alike = min(len(base.marks), len(reading.marks)) if at is None else at
        if base.entries != reading.entries:
            found.append(
                f"{first} read {base.entries} entries, {reader} {reading.entries}; the first {alike * EACH} agree"
            )
        elif base.last != reading.last:
            found.append(f"{first} and {reader} differ within the {EACH} entries from {alike * EACH} on")
    return found
