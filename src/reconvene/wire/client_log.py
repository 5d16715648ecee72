"""What clients and their site say to each other about the log, from version 1.1 of the client protocol on.

Questions change nothing; Append, UseSnapshot, SaveSnapshot, DropSnapshot, ChangeReplicas and ForceLost do. Positions,
counters and numbers are of messages. An answer is about as long as what was asked for, or as one message that is
longer.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from reconvene.entries import EntryBatch
from reconvene.ids import UNNAMED

__all__ = [
    "FETCH_BYTES", "FETCH_MESSAGES", "MOST_APPENDED", "MOST_COLLECTED", "SNAPSHOT_PIECE_BYTES", "Append", "Appended",
    "Barrier", "ChangeReplicas", "Collect", "Colored", "Count", "DropSnapshot", "Fetch", "Fetched", "ForceLost",
    "Forget", "Init", "LastCommit", "LogAnswer", "LogRequest", "LogStatus", "Losses", "Name", "Order", "Ordered",
    "Part", "Pending", "ReadSnapshot", "SaveSnapshot", "Snapshot", "UseSnapshot", "WatchColors",
    "log_message_bytes",
]  # fmt: skip

MOST_APPENDED = 1 << 16
"""Messages in one Append."""
FETCH_BYTES = 512 << 10
FETCH_MESSAGES = 8_192
"""The most that one Fetch, or Pending, gets."""
MOST_COLLECTED = 256
"""Ranges in one Collect."""
SNAPSHOT_PIECE_BYTES = 256 << 10
"""A snapshot travels in pieces of at most so many bytes."""

_MESSAGE_SPARE = 64 << 10
"""Of the site's largest message, for what a batch travels with when it is sent again."""

Count = Annotated[int, Meta(ge=0, le=2**62)]
Name = Annotated[str, Meta(max_length=255)]
SnapshotName = Annotated[str, Meta(min_length=1, max_length=128)]
SessionId = Annotated[bytes, Meta(min_length=1, max_length=64)]


class Append(Struct, array_like=True, tag=11, gc=False):
    """To the log. Answered by Appended, when all of them are on stable storage at the site."""

    request: Count
    messages: Annotated[list[bytes], Meta(min_length=1, max_length=MOST_APPENDED)]
    session: SessionId | None = None
    """The client's name for a sequence of messages of its own …"""
    number: Count = 0
    """… and the first message's place in it: what the log has of a session is not taken again."""
    kind: Annotated[int, Meta(ge=0, le=3)] = 0
    """As `corel.batch.Kind` has it, from protocol 1.2 on; a change of the replicas is not appended."""


class Order(Struct, array_like=True, tag=12):
    """Where are these messages of a replica's? Answered by Ordered, once all of them have a position."""

    request: Count
    author: Name
    first: Count
    count: Annotated[int, Meta(ge=1, le=MOST_APPENDED)]
    since: Count
    """None of them stands below this position."""
    retried: bool
    """They may be retries of what the log has: then it is the position of that."""


class Fetch(Struct, array_like=True, tag=13):
    """The log's messages from a position on. Answered by Fetched; with `wait`, once there is one."""

    request: Count
    start: Count
    messages: Annotated[int, Meta(ge=1, le=FETCH_MESSAGES)]
    size: Annotated[int, Meta(ge=1, le=FETCH_BYTES)]
    wait: bool
    bare: bool = False
    """Without the messages of applications, from protocol 1.2 on: at most `messages` batches, whatever `size` is."""


class Forget(Struct, array_like=True, tag=14):
    """Nobody waits any more for the answer to this Order, Fetch, Barrier or WatchColors. Not answered."""

    request: Count


class Pending(Struct, array_like=True, tag=15):
    """What has no position yet. Told: (the green line, [(colour, author, incarnation, first, time, messages) …])."""

    request: Count
    messages: Annotated[int, Meta(ge=1, le=FETCH_MESSAGES)]


class WatchColors(Struct, array_like=True, tag=16):
    """Answered by Colored, again and again, until it is forgotten."""

    request: Count


class Barrier(Struct, array_like=True, tag=17):
    """Told, once all that was ordered anywhere is ordered here: the green line."""

    request: Count


class LogStatus(Struct, array_like=True, tag=18):
    """Told: a document."""

    request: Count


class Snapshot(Struct, array_like=True, tag=19):
    """Told: (position, bytes) of the newest one of this name; nothing where there is none."""

    request: Count
    name: SnapshotName = UNNAMED
    """From protocol 1.4 on, as in the other requests about snapshots."""


class ReadSnapshot(Struct, array_like=True, tag=20):
    """Told: a piece of the one of that position; nothing where there is a newer one."""

    request: Count
    position: Count
    offset: Count
    size: Annotated[int, Meta(ge=1, le=SNAPSHOT_PIECE_BYTES)]
    name: SnapshotName = UNNAMED


class SaveSnapshot(Struct, array_like=True, tag=21, gc=False):
    """Pieces of one, from the first to the last, each answered; the last one when all of it is durable."""

    request: Count
    position: Count
    total: Count
    """Bytes of all pieces."""
    offset: Count
    data: Annotated[bytes, Meta(max_length=SNAPSHOT_PIECE_BYTES)]
    name: SnapshotName = UNNAMED


class ChangeReplicas(Struct, array_like=True, tag=22):
    """Told: the position of the change."""

    request: Count
    add: Name | None
    remove: Name | None
    quorum: dict[str, Any] | None


class Losses(Struct, array_like=True, tag=23):
    """Told: what may be lost with these replicas."""

    request: Count
    lost: Annotated[list[Name], Meta(max_length=64)]


class ForceLost(Struct, array_like=True, tag=24):
    request: Count
    lost: Annotated[list[Name], Meta(max_length=64)]


class Collect(Struct, array_like=True, tag=25):
    """Messages of several ranges, in their order. Answered by Fetched: of as many ranges, from the first on, as about
    `size` bytes hold, and of the last of them perhaps the beginning; it ends before one that can't be read."""

    request: Count
    ranges: Annotated[list[tuple[Count, Annotated[int, Meta(ge=1)]]], Meta(min_length=1, max_length=MOST_COLLECTED)]
    """(position, count) …"""
    size: Annotated[int, Meta(ge=1, le=FETCH_BYTES)]


class LastCommit(Struct, array_like=True, tag=26):
    """Told, of a transaction: (number, position) of its last commit that is ordered here; nothing: there is none."""

    request: Count
    session: SessionId


class Init(Struct, array_like=True, tag=27):
    """Begins a new log, without these replicas if they are absent. For admins."""

    request: Count
    without: Annotated[list[Name], Meta(max_length=64)] = []


class UseSnapshot(Struct, array_like=True, tag=28):
    """A state machine of this name is run, and has everything below `start`: what it needs is not truncated. Answered
    when that is durable."""

    request: Count
    name: SnapshotName
    start: Count


class DropSnapshot(Struct, array_like=True, tag=29):
    """No machine of this name is run any more: its snapshot goes. Answered when that is durable."""

    request: Count
    name: SnapshotName


LogRequest = (
    Append | Order | Fetch | Forget | Pending | WatchColors | Barrier | LogStatus | Snapshot | ReadSnapshot
    | SaveSnapshot | ChangeReplicas | Losses | ForceLost | Collect | LastCommit | Init | UseSnapshot | DropSnapshot
)  # fmt: skip


class Part(Struct, array_like=True, gc=False):
    """What became of some consecutive messages of an Append."""

    count: Count
    author: Name
    """Message i of them is AUTHOR:INCARNATION:(first + i); empty where they are ordered, and their ids not known."""
    incarnation: Count
    """0: not known."""
    first: Count
    new: bool
    """False: the log had them of this session before."""
    position: Count | None = None
    """Of those that are ordered: the first one's; the others follow. None: that is not known."""


class Appended(Struct, array_like=True, tag=14, gc=False):
    """What became of an Append: it is on stable storage at the site."""

    request: Count
    parts: list[Part]
    """Of all its messages, in their order."""
    green: Count
    """The green line when they were taken: what was not in the log gets no position below it."""

    def last_of(self, site: str) -> int:
        """The counter of the site's last message among them that has no position; 0: there is none."""
        own = (part for part in self.parts if part.author == site and part.position is None)
        return max((part.first + part.count - 1 for part in own), default=0)


class Ordered(Struct, array_like=True, tag=15, gc=False):
    """Where the messages of an Order are: (position, count) …, in their order."""

    request: Count
    places: list[tuple[Count, Count]]


class Fetched(Struct, array_like=True, tag=16, gc=False):
    """Empty where there is nothing yet, or `start` is below `base`."""

    request: Count
    base: Count
    """The first position that can be read."""
    green: Count
    """The green line: the first position that nothing has yet."""
    batches: list[EntryBatch]


class Colored(Struct, array_like=True, tag=17):
    """(colour, author, incarnation, first, count) …, in order."""

    request: Count
    changes: list[tuple[str, str, Count, Count, Count]]


LogAnswer = Appended | Ordered | Fetched | Colored


def log_message_bytes(message_bytes: int) -> int:
    """The largest message of the log, where a site's largest message has so many bytes."""
    return max(message_bytes - _MESSAGE_SPARE, message_bytes // 2)
