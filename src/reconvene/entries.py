"""The log as programs read it: entries, batches of entries, and what else they learn of it.

The same structs are used in a site, between a site and its clients, in clients and in Spark.
"""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import Commit, decode_commit
from reconvene.corel.events import Color
from reconvene.corel.replicas.sets import decode_change
from reconvene.errors import Malformed, Rejected
from reconvene.ids import UNNAMED, message_id

__all__ = [
    "Color", "ColorChange", "CommittedBatch", "Entry", "EntryBatch", "SnapshotInfo", "Truncated",
    "commit_of",
]  # fmt: skip

Count = Annotated[int, Meta(ge=0, le=2**62)]


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


class EntryBatch(Struct, array_like=True, frozen=True, gc=False):
    """Messages of one author that follow each other in the log, with no object made for each.

    One struct from the site to Spark: sites read it from storage, it travels as it is, and readers use it. Its fields
    and their order are the client protocol's.
    """

    position: Count
    """Of the first; the others follow without gaps."""
    author: str
    """The site that accepted them."""
    incarnation: Count
    first: Count
    """The counter of the first; the others follow."""
    time: Count
    """The author's clock when it accepted them: ns since 1970."""
    kind_number: Count
    """A `corel.batch.Kind`, or one that a later version has added."""
    messages: list[bytes]
    void: tuple[Count, ...] = ()
    """Indices of those that count for nothing: retries of messages that the log already had."""
    left_out: Count = 0
    """How many messages there are, where an application's messages were left out (`Log.headings`); else 0."""

    @property
    def commit(self) -> int | None:
        """They came with a transaction: the position of the commit, where they are read."""
        return None

    @property
    def more(self) -> bool:
        """The transaction goes on in the next batch."""
        return False

    @property
    def kind(self) -> str:
        """data | change | staged | commit: see `Entry.kind`."""
        return _KINDS.get(self.kind_number, "change")

    def __len__(self) -> int:
        return self.left_out or len(self.messages)

    @property
    def count(self) -> int:
        return self.left_out or len(self.messages)

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.position + len(self)

    @property
    def next(self) -> int:
        """Where a reader goes on after it: a transaction is passed as a whole."""
        return self.passed(self.end)

    def passed(self, position: int) -> int:
        """Where a reader goes on that has read what is below `position`."""
        if self.commit is None:
            return position
        return self.commit if self.more or position < self.end else self.commit + 1

    def entries(self, control: bool = False) -> Iterator[Entry]:
        """One by one; with `control` also those that are not the application's."""
        kind, commit = self.kind, self.commit
        if kind != "data" and not control:
            return
        void = frozenset(self.void)
        for at, data in enumerate(self.messages):
            if at in void and not control:
                continue
            yield Entry(
                self.position + at, data, self.author, self.incarnation, self.first + at, self.time, Color.GREEN,
                "void" if at in void else kind, commit,
            )  # fmt: skip

    def at_commit(self, commit: int, more: bool, kind: Kind) -> "CommittedBatch":
        """The same, as a reader has it that came to the commit at that position."""
        return CommittedBatch(
            self.position, self.author, self.incarnation, self.first, self.time, kind, self.messages, self.void,
            self.left_out, commit, more,
        )  # fmt: skip

    def cut(self, start: int, stop: int | None = None) -> "EntryBatch":
        """What of it is at `start` and after, and before `stop`."""
        begin = max(0, start - self.position)
        end = len(self) if stop is None else max(0, min(len(self), stop - self.position))
        if begin == 0 and end == len(self):
            return self
        return replace(
            self,
            position=self.position + begin,
            first=self.first + begin,
            messages=self.messages[begin:end],
            void=tuple(at - begin for at in self.void if begin <= at < end),
            left_out=max(end - begin, 0) if self.left_out else 0,
        )


class CommittedBatch(EntryBatch, frozen=True):
    """Staged messages, as a reader has them that came to the commit. It is made by readers, and never travels."""

    commit: int | None = None
    more: bool = False


def commit_of(batch: EntryBatch) -> Commit | None:
    """Of a batch of kind commit: what it makes visible. None: nothing, since it is void, or makes no sense.

    The same bytes, and so the same answer, for every reader."""
    if batch.kind != "commit" or batch.void or len(batch.messages) != 1:
        return None
    try:
        commit = decode_commit(batch.messages[0])
    except Malformed:
        return None
    beyond = any(position + count > batch.position for position, count in (*commit.ranges, *commit.index))
    return None if beyond else commit


_KINDS: dict[int, str] = {kind.value: kind.name.lower() for kind in Kind}


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
