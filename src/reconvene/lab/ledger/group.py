"""What a reader of a group checks by itself: no message comes twice, out of order, or is missing.

Messages carry numbers. A *stream* is what one writer sends until something goes wrong for it. In a stream the fifo
messages are numbered from 0 without gaps; so are all other messages, which keep their order among each other too.
Promised: every violation that a reader sees, and every difference between readers, is reported. This checks what
applications see; the trace shows what sites did.
"""

from collections.abc import Iterable, Sequence
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct, field

from reconvene.client.events import Batch, Process, View
from reconvene.ids import Service
from reconvene.lab.ledger.compare import keep

__all__ = ["HEAD_BYTES", "Agreement", "GroupLedger", "Reading", "disagreements", "head", "is_fifo"]

_HEAD = Layout("<HIBI")
HEAD_BYTES = _HEAD.size


def head(writer: int, stream: int, fifo: bool, number: int) -> bytes:
    """The beginning of a payload."""
    return _HEAD.pack(writer, stream, fifo, number)


def is_fifo(service: Service) -> bool:
    return service is Service.FIFO


class Agreement(Struct, frozen=True):
    """The agreed and safe messages that a reader got between two views: the same for all readers of both views."""

    group: str
    between: str
    checksum: int
    messages: int


class Reading(Struct, kw_only=True):
    """The result of one reader of one group."""

    reader: str
    group: str
    messages: int = 0
    regular: int = 0
    """Views, by kind."""
    transitional: int = 0
    blocked: int = 0
    rejoined: int = 0
    faults: list[str] = field(default_factory=list)
    """The first ones."""
    heard: dict[str, int] = field(default_factory=dict)
    """By `stream_name`: one more than the highest number that was delivered."""
    agreements: list[Agreement] = field(default_factory=list)


class _Trail:
    """How many of one sender's messages of one kind have been delivered."""

    __slots__ = ("left", "next", "stream")

    def __init__(self, stream: int, following: int) -> None:
        self.stream = stream
        self.next = following
        self.left = False
        """The sender has left a view since: what it sent meanwhile may be missing."""


class GroupLedger:
    def __init__(self, reader: str, group: str) -> None:
        self.reading = Reading(reader=reader, group=group)
        self._trails: dict[tuple[Process, int], _Trail] = {}
        self._members: frozenset[Process] = frozenset()
        self._place: str | None = None
        self._checksum = 0
        self._count = 0

    def batch(self, batch: Batch) -> list[tuple[int, int, bool]]:
        """Checks the messages; returns (writer, stream, fifo) of each."""
        reading = self.reading
        reading.messages += len(batch.payloads)
        if batch.service >= Service.AGREED:
            # Batches differ from reader to reader; all of them together do not.
            self._checksum = crc32(b"".join(batch.payloads), self._checksum)
            self._count += len(batch.payloads)
        seen = []
        for payload in batch.payloads:
            writer, stream, fifo, number = _HEAD.unpack_from(payload)
            self._follow(batch.sender, writer, stream, fifo, number)
            seen.append((writer, stream, bool(fifo)))
        return seen

    def _follow(self, sender: Process, writer: int, stream: int, fifo: int, number: int) -> None:
        name = stream_name(writer, stream, bool(fifo))
        heard = self.reading.heard
        heard[name] = max(heard.get(name, 0), number + 1)
        trail = self._trails.get((sender, fifo))
        if trail is None:
            self._trails[sender, fifo] = _Trail(stream, number + 1)
            return
        if (stream, number) < (trail.stream, trail.next):
            self._fault(f"{sender}: {name} number {number} came after {trail.stream}/{trail.next - 1}: twice or late")
        expected = trail.next if stream == trail.stream else 0
        if number > expected and not trail.left:
            self._fault(
                f"{sender}: {name} number {number} came, expected {expected}: the sender had not left the view"
            )
        trail.stream, trail.next = stream, number + 1
        if sender in self._members:  # a message of a sender that has left was sent before
            trail.left = False

    def view(self, view: View) -> None:
        reading = self.reading
        if view.kind == "hidden":
            return
        if view.kind == "regular":
            reading.regular += 1
        else:
            reading.transitional += 1
        self._close(f"{view.conf}#{view.id.change}")
        self._members = frozenset(view.members)
        for (sender, _), trail in self._trails.items():
            if sender not in self._members:
                trail.left = True

    def blocked(self) -> None:
        self.reading.blocked += 1
        self._forget()

    def rejoined(self) -> None:
        self.reading.rejoined += 1
        self._forget()

    def end(self) -> Reading:
        """Nothing more will come: the messages since the last view are compared too."""
        self._close("end")
        return self.reading

    def _close(self, place: str) -> None:
        if self._place is not None:
            self.reading.agreements.append(
                Agreement(self.reading.group, f"{self._place}>{place}", self._checksum, self._count)
            )
        self._place = place
        self._checksum = self._count = 0

    def _forget(self) -> None:
        """After this the reader expects nothing in particular."""
        self._trails.clear()
        self._place = None

    def _fault(self, what: str) -> None:
        keep(self.reading.faults, f"{self.reading.reader} in {self.reading.group}: {what}")


def stream_name(writer: int, stream: int, fifo: bool) -> str:
    return f"{writer}/{stream}/{'fifo' if fifo else 'other'}"


def disagreements(readings: Iterable[Reading]) -> tuple[int, list[str]]:
    """How many pairs of consecutive views several readers had in common, and the pairs between which they differ."""
    by_place: dict[tuple[str, str], list[tuple[str, Agreement]]] = {}
    for reading in readings:
        for agreement in reading.agreements:
            by_place.setdefault((agreement.group, agreement.between), []).append((reading.reader, agreement))
    shared = [(place, had) for place, had in sorted(by_place.items()) if len(had) > 1]
    return len(shared), [
        _difference(place, had) for place, had in shared if len({agreement for _, agreement in had}) > 1
    ]


def _difference(place: tuple[str, str], had: Sequence[tuple[str, Agreement]]) -> str:
    each = ", ".join(f"{reader} {agreement.messages} ({agreement.checksum:08x})" for reader, agreement in had)
    return f"group {place[0]}, {place[1]}: agreed and safe messages differ: {each}"
