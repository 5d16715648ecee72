"""What an application sees of the log."""

from collections.abc import Iterator, Sequence
from typing import overload

from msgspec import Struct, ValidationError, convert

from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import decode_commit
from reconvene.corel.events import Color
from reconvene.corel.replicas.sets import decode_change
from reconvene.errors import Malformed, Rejected
from reconvene.ids import UNNAMED, message_id

__all__ = [
    "BatchHeading",
    "Color",
    "ColorChange",
    "Entry",
    "EntryBatch",
    "NameInUse",
    "Positions",
    "SnapshotInfo",
    "Truncated",
    "batch_of",
    "heading_of",
    "in_use",
]


class Truncated(Rejected):
    """What was asked for is not in the log any more. `first` is the first position that is."""

    def __init__(self, message: str, first: int = 0) -> None:
        super().__init__(message)
        self.first = first


class Entry(Struct, frozen=True, gc=False):
    """One message of the log."""

    position: int
    """In the total order, from 0; the same at every site. Of a pending entry: where it would be if nothing came
    between."""
    data: bytes
    author: str
    """The site that accepted it."""
    incarnation: int
    """The author's, when it accepted it."""
    counter: int
    """Among its author's messages, from 1, across incarnations."""
    time: int
    """The author's clock when it accepted it: ns since 1970. Clocks differ; positions do not."""
    color: Color = Color.GREEN
    kind: str = "data"
    """data | change: of the replicas or the quorum; its data is the log's own | void: a message of a client that the
    log had already, and that counts for nothing | staged, commit: a part of a transaction, as it stands in the log"""
    commit: int | None = None
    """Of a message that came with a transaction: the position of the commit, which is its place in the order."""

    @property
    def id(self) -> str:
        """AUTHOR:INCARNATION:COUNTER, unique in the log; the same in traces."""
        return message_id(self.author, self.incarnation, self.counter)

    def change(self) -> dict[str, object] | None:
        """Of a change: the replicas' names and the quorum that it asks for. None of anything else."""
        if self.kind != "change":
            return None
        try:
            result = decode_change(self.data).result
        except Malformed:
            return None
        return {"replicas": list(result.names()), "quorum": dict(result.quorum)}

    def transaction(self) -> dict[str, object] | None:
        """Of a commit: what it makes visible. None of anything else."""
        if self.kind != "commit":
            return None
        try:
            commit = decode_commit(self.data)
        except Malformed:
            return None
        return {"name": commit.name, "version": commit.version, "rows": commit.rows, "ranges": len(commit.ranges)}


class EntryBatch(Struct, frozen=True):
    """Messages of one author that follow each other in the log, with no object made for each."""

    position: int
    """Of the first; the others follow without gaps."""
    author: str
    incarnation: int
    first: int
    """The counter of the first; the others follow."""
    time: int
    messages: list[bytes]
    kind: str = "data"
    void: tuple[int, ...] = ()
    """Indices of those that count for nothing."""
    commit: int | None = None
    """They came with a transaction: the position of the commit, where they are read."""
    more: bool = False
    """The transaction goes on in the next batch."""

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.position + len(self.messages)

    @property
    def next(self) -> int:
        """Where a reader goes on who has read it: a transaction is passed as a whole."""
        return self.passed(self.end)

    def passed(self, position: int) -> int:
        """The same of one who has read what is below `position`."""
        if self.commit is None:
            return position
        return self.commit if self.more or position < self.end else self.commit + 1

    def entries(self, control: bool = False) -> Iterator[Entry]:
        """One by one; with `control` also those that are not the application's."""
        if self.kind != "data" and not control:
            return
        void = frozenset(self.void)
        for at, data in enumerate(self.messages):
            if at not in void:
                kind = self.kind
            elif control:
                kind = "void"
            else:
                continue
            yield Entry(
                self.position + at, data, self.author, self.incarnation, self.first + at, self.time, Color.GREEN,
                kind, self.commit,
            )  # fmt: skip

    def cut(self, start: int, stop: int | None) -> "EntryBatch":
        """What of it is at `start` and after, and before `stop`."""
        begin = max(0, start - self.position)
        end = len(self.messages) if stop is None else max(0, min(len(self.messages), stop - self.position))
        if begin == 0 and end == len(self.messages):
            return self
        return EntryBatch(
            self.position + begin, self.author, self.incarnation, self.first + begin, self.time,
            self.messages[begin:end], self.kind, tuple(at - begin for at in self.void if begin <= at < end),
            self.commit, self.more,
        )  # fmt: skip


def batch_of(
    position: int, author: str, incarnation: int, first: int, time: int, kind: int, messages: list[bytes],
    void: tuple[int, ...],
) -> EntryBatch:  # fmt: skip
    return EntryBatch(position, author, incarnation, first, time, messages, _kind_of(kind), void)


def _kind_of(kind: int) -> str:
    return _KINDS.get(kind, "change")


_KINDS: dict[int, str] = {Kind.DATA: "data", Kind.CHANGE: "change", Kind.STAGED: "staged", Kind.COMMIT: "commit"}


class BatchHeading(Struct, frozen=True, gc=False):
    """What there is to say of a batch beside an application's messages."""

    position: int
    author: str
    incarnation: int
    first: int
    """The counter of its first message."""
    count: int
    time: int
    kind: str
    void: tuple[int, ...]
    messages: list[bytes]
    """Of a batch that is the log's own."""

    @property
    def end(self) -> int:
        """The position after the last of its messages."""
        return self.position + self.count

    @property
    def next(self) -> int:
        """Where a reader goes on who has read it."""
        return self.end


def heading_of(
    position: int, author: str, incarnation: int, first: int, time: int, kind: int, messages: list[bytes],
    void: tuple[int, ...], count: int,
) -> BatchHeading:  # fmt: skip
    # A site of before 1.2 has sent the messages and no count.
    return BatchHeading(
        position, author, incarnation, first, count or len(messages), time, _kind_of(kind), void,
        [] if kind in (Kind.DATA, Kind.STAGED) else messages,
    )  # fmt: skip


class ColorChange(Struct, frozen=True):
    """Messages of one author have another colour now, here."""

    color: Color
    author: str
    incarnation: int
    first: int
    count: int

    @property
    def ids(self) -> list[str]:
        return [message_id(self.author, self.incarnation, self.first + at) for at in range(self.count)]


class SnapshotInfo(Struct, frozen=True):
    """A snapshot that a site keeps: of the state after everything below `position`."""

    position: int
    size: int
    """In bytes."""
    name: str = UNNAMED
    """Of the state machine whose it is."""


class NameInUse(Struct, frozen=True):
    """A state machine's name, as a site's status has it."""

    position: int | None
    bytes: int
    needs: int
    here: bool
    lacks: bool


def in_use(status: dict[str, object]) -> dict[str, NameInUse]:
    """The names in use, of `Log.status`. Raises Malformed."""
    snapshot = status.get("snapshot")
    names = snapshot.get("names", {}) if isinstance(snapshot, dict) else {}
    try:
        return convert(names, dict[str, NameInUse])
    except ValidationError as error:
        raise Malformed(f"the site's answer: {error}") from None


class Positions(Sequence[int]):
    """Where messages are, in their order: kept as runs, since most follow each other."""

    __slots__ = ("_length", "runs")

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        self.runs = tuple(runs)
        """(position, count) …"""
        self._length = sum(count for _, count in self.runs)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return list(self)[index]
        at = index + self._length if index < 0 else index
        if at >= 0:
            for position, count in self.runs:
                if at < count:
                    return position + at
                at -= count
        raise IndexError(f"position {index} of {self._length}")

    def __iter__(self) -> Iterator[int]:
        for position, count in self.runs:
            yield from range(position, position + count)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        shown = (str(start) if count == 1 else f"{start}–{start + count - 1}" for start, count in self.runs)
        return f"<positions {', '.join(shown)}>"
