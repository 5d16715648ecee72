"""What a process of an ISIS group checks by itself, and what the processes of a group compare.

Casts carry numbers. A *stream* is what one writer casts until something goes wrong for it. In a stream and a group
the CBCASTs of one label are numbered from 0 without gaps, and so are the ABCASTs. Each process keeps a digest of all
casts of each group, takes it from the others when it joins, and notes it at each view and each GBCAST. Where nobody
is left who could give it, it begins another *line* of the group's state.
Promised: a cast that comes twice, a CBCAST that is late or missing, and two processes that have the same view, or the
same GBCAST, and other casts before it, are reported; in the end, so are two that are in different lines. This checks
what programs see, state transfer included; the trace shows what sites did.
"""

import random
from collections.abc import Sequence
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct, field

from reconvene.client.events import Process
from reconvene.client.isis_events import Action, Cast, GroupView
from reconvene.lab.ledger.compare import keep

__all__ = ["HEAD_BYTES", "LABELLED", "ORDERED", "PLAIN", "Digest", "IsisLedger", "IsisReading", "differing", "head"]

_HEAD = Layout("<IIBI")
HEAD_BYTES = _HEAD.size
PLAIN, LABELLED, ORDERED = range(3)
"""Kinds of streams: CBCASTs without a label, CBCASTs with one, ABCASTs."""
_STATE = Layout("<QQQI")
_WRAP = (1 << 64) - 1


def head(writer: int, stream: int, kind: int, number: int) -> bytes:
    """The beginning of a payload."""
    return _HEAD.pack(writer, stream, kind, number)


class Digest:
    """The casts of one group: CBCASTs in any order, ABCASTs and GBCASTs in the one that they have."""

    __slots__ = ("_casts", "_line", "_ordered", "count")

    def __init__(self) -> None:
        self._line = random.getrandbits(64)
        self.count = 0
        self._casts = 0
        self._ordered = 0

    def add(self, event: Cast | Action) -> None:
        self.count += 1
        if isinstance(event, Action) or event.kind == "abcast":
            self._ordered = crc32(event.data, self._ordered)
        else:
            # Mixed, so that two changes that undo each other in one sum do not in the other.
            found = crc32(event.data)
            self._casts = (self._casts + found * (found | 1)) & _WRAP

    def pack(self) -> bytes:
        return _STATE.pack(self._line, self.count, self._casts, self._ordered)

    def unpack(self, data: bytes) -> None:
        self._line, self.count, self._casts, self._ordered = _STATE.unpack(data)


class Noted(Struct, frozen=True):
    """All that one process received in a group up to a view or a GBCAST, and its state when it joined."""

    group: str
    at: str
    line: str
    digest: str


class IsisReading(Struct, kw_only=True):
    """The result of one process."""

    reader: int
    casts: int = 0
    actions: int = 0
    views: int = 0
    blocked: int = 0
    killed: int = 0
    states: int = 0
    """Taken from others."""
    faults: list[str] = field(default_factory=list)
    """The first ones."""
    noted: list[Noted] = field(default_factory=list)


class IsisLedger:
    def __init__(self, reader: int) -> None:
        self.reading = IsisReading(reader=reader)
        self.digests: dict[str, Digest] = {}
        self._next: dict[tuple[str, Process, int, int], int] = {}
        """By group, sender, stream and kind: the number that comes next. A writer that was killed goes on as another
        sender, and may not know it yet: what it cast before may be lost."""
        self._ordered: set[tuple[str, bytes]] = set()
        """Heads of the ABCASTs that came."""
        self._failed: dict[str, set[Process]] = {}

    def begin(self, group: str) -> Digest:
        """This process joins the group: it has nothing of it."""
        digest = self.digests[group] = Digest()
        return digest

    def take(self, group: str, chunks: list[bytes]) -> None:
        self.reading.states += 1
        self.digests[group].unpack(b"".join(chunks))

    def cast(self, event: Cast) -> tuple[int, int]:
        """Checks it; returns its writer and stream."""
        assert event.group is not None, "all casts go to groups"
        self.reading.casts += 1
        self._from_the_dead(event)
        self.digests[event.group].add(event)
        writer, stream, kind, number = _HEAD.unpack_from(event.data)
        if kind == ORDERED:
            key = (event.group, event.data[:HEAD_BYTES])
            if key in self._ordered:
                self._fault(f"{event!r}: came twice")
            self._ordered.add(key)
            return writer, stream
        trail = (event.group, event.sender, stream, kind)
        expected = self._next.get(trail)
        if expected is not None and number != expected:
            what = "twice or late" if number < expected else "something is missing"
            self._fault(f"{event!r}: number {number} of stream {writer}/{stream}, expected {expected}: {what}")
        self._next[trail] = number + 1
        return writer, stream

    def action(self, event: Action) -> None:
        self.reading.actions += 1
        self._from_the_dead(event)
        self.digests[event.group].add(event)
        self._note(event.group, event.id)

    def _from_the_dead(self, event: Cast | Action) -> None:
        assert event.group is not None
        if event.sender in self._failed.get(event.group, ()):
            self._fault(f"{event!r}: came after a view by which its sender had failed")

    def view(self, view: GroupView) -> None:
        self.reading.views += 1
        self._failed.setdefault(view.group, set()).update(view.failed)
        members = crc32(" ".join(map(str, view.members)).encode())
        self._note(view.group, f"{view.number}/{members:08x}")

    def _note(self, group: str, at: str) -> None:
        state = self.digests[group].pack()
        self.reading.noted.append(Noted(group, at, state[:8].hex(), state[8:].hex()))

    def left(self, group: str) -> None:
        """What comes next is another membership's: this process does not know what it missed."""
        for trail in [trail for trail in self._next if trail[0] == group]:
            del self._next[trail]
        self._failed.pop(group, None)

    def killed(self) -> None:
        self.reading.killed += 1
        self._next.clear()
        self._failed.clear()

    def _fault(self, what: str) -> None:
        keep(self.reading.faults, f"client {self.reading.reader}: {what}")


def differing(readings: Sequence[IsisReading]) -> tuple[int, list[str]]:
    """How many views and GBCASTs several processes had, and those before which they received other casts."""
    had: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    last: dict[tuple[str, str], dict[str, list[int]]] = {}
    for reading in readings:
        for noted in reading.noted:
            key = (noted.group, noted.at, noted.line)
            had.setdefault(key, {}).setdefault(noted.digest, []).append(reading.reader)
        for noted in {noted.group: noted for noted in reading.noted}.values():
            last.setdefault((noted.group, noted.at), {}).setdefault(noted.line, []).append(reading.reader)
    shared = sum(sum(map(len, digests.values())) > 1 for digests in had.values())
    return shared, [
        *(
            f"group {group}, {at}: the processes have received other casts: {digests}"
            for (group, at, _), digests in sorted(had.items())
            if len(digests) > 1
        ),
        *(
            f"group {group}, {at}: at the end the processes have different states: {lines}"
            for (group, at), lines in sorted(last.items())
            if len(lines) > 1
        ),
    ]
