"""Requests and answers about the log between clients and their site, from version 1.1 of the client protocol on.

Append, Forward, UseSnapshot, SaveSnapshot, DropSnapshot, ChangeReplicas, Init and ForceLost change the log; the other
requests only read it. Positions, counters and numbers count messages, not batches. An answer has about the size that
the request asks for, but always holds at least one message, however long that is.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from reconvene.corel.following.messages import Answer, Ask
from reconvene.entries import EntryBatch
from reconvene.ids import UNNAMED

__all__ = [
    "FETCH_BYTES", "FETCH_MESSAGES", "FORWARD_WINDOW_BYTES", "MOST_APPENDED", "MOST_COLLECTED", "MOST_LISTED",
    "SNAPSHOT_PIECE_BYTES", "Append", "Appended", "Barrier", "ChangeReplicas", "Collect", "Colored", "Confirm",
    "Confirmed", "Count", "Cursor", "Cursors", "DropSnapshot", "Fetch", "Fetched", "Follow", "Followed",
    "ForceLost", "Forget", "Forward", "Init", "LastCommit", "LogAnswer", "LogRequest", "LogStatus", "Losses",
    "Name", "Order", "Ordered", "Part", "Pending", "ReadSnapshot", "SaveSnapshot", "Snapshot", "UseSnapshot",
    "WatchColors", "WhatIf", "log_message_bytes",
]  # fmt: skip

MOST_APPENDED = 1 << 16
"""The most messages in one Append."""
FORWARD_WINDOW_BYTES = 16 << 20
"""An outpost may send a further Forward while fewer bytes than these are unanswered: what it has after a long cut
should not wait for one sync after the other."""
FETCH_BYTES = 512 << 10
FETCH_MESSAGES = 8_192
"""The most messages that one Fetch or Pending returns."""
MOST_COLLECTED = 256
"""The most ranges in one Collect."""
MOST_LISTED = 256
"""The most cursors in one answer."""
SNAPSHOT_PIECE_BYTES = 256 << 10
"""A snapshot is sent in pieces of at most this many bytes."""

_MESSAGE_SPARE = 64 << 10
"""Bytes of the site's largest message that are reserved for the headers of a batch that is sent again."""

Count = Annotated[int, Meta(ge=0, le=2**62)]
Name = Annotated[str, Meta(max_length=255)]
SnapshotName = Annotated[str, Meta(min_length=1, max_length=128)]
SessionId = Annotated[bytes, Meta(min_length=1, max_length=64)]


class Append(Struct, array_like=True, tag=11, gc=False):
    """Appends messages to the log. Answered by Appended when all of them are on stable storage at the site."""

    request: Count
    messages: Annotated[list[bytes], Meta(min_length=1, max_length=MOST_APPENDED)]
    session: SessionId | None = None
    """The client's name for a sequence of messages."""
    number: Count = 0
    """The first message's number in the session. A message that the log already has is not appended again."""
    kind: Annotated[int, Meta(ge=0, le=3)] = 0
    """A `corel.batch.Kind`, from protocol 1.2 on. Clients can't append a change of the replicas."""


class Order(Struct, array_like=True, tag=12):
    """Asks for the positions of a replica's or an outpost's messages. Answered by Ordered once all of them have
    one."""

    request: Count
    author: Name
    first: Count
    count: Annotated[int, Meta(ge=1, le=MOST_APPENDED)]
    since: Count
    """None of them has a position below this one."""
    retried: bool
    """They may be retries of messages that the log already has: then the answer has the positions of those."""
    outpost: SessionId | None = None
    """Of an outpost's messages: its session, as Appended had it."""


class Fetch(Struct, array_like=True, tag=13):
    """Reads the log's messages from a position on. Answered by Fetched; with `wait`, once there is a message."""

    request: Count
    start: Count
    messages: Annotated[int, Meta(ge=1, le=FETCH_MESSAGES)]
    size: Annotated[int, Meta(ge=1, le=FETCH_BYTES)]
    wait: bool
    bare: bool = False
    """Without the messages of applications, from protocol 1.2 on: at most `messages` batches; `size` is ignored."""


class Forget(Struct, array_like=True, tag=14):
    """The client no longer waits for the answer to this Order, Fetch, Barrier or WatchColors. Not answered."""

    request: Count


class Pending(Struct, array_like=True, tag=15):
    """Asks for messages that have no position yet. Answered by Told: (the green line,
    [(colour, author, incarnation, first, time, messages) …])."""

    request: Count
    messages: Annotated[int, Meta(ge=1, le=FETCH_MESSAGES)]


class WatchColors(Struct, array_like=True, tag=16):
    """Subscribes to changes of colour. Answered by Colored for each of them, until the client sends Forget."""

    request: Count


class Barrier(Struct, array_like=True, tag=17):
    """Answered by Told with the green line, once every message that was ordered at any site is ordered here."""

    request: Count


class LogStatus(Struct, array_like=True, tag=18):
    """Answered by Told: the log's status, a document."""

    request: Count


class Snapshot(Struct, array_like=True, tag=19):
    """Answered by Told: (position, bytes) of the newest snapshot of this name; None if there is none."""

    request: Count
    name: SnapshotName = UNNAMED
    """From protocol 1.4 on, as in the other requests about snapshots."""


class ReadSnapshot(Struct, array_like=True, tag=20):
    """Answered by Told: a piece of the snapshot at that position; None if there is a newer one."""

    request: Count
    position: Count
    offset: Count
    size: Annotated[int, Meta(ge=1, le=SNAPSHOT_PIECE_BYTES)]
    name: SnapshotName = UNNAMED


class SaveSnapshot(Struct, array_like=True, tag=21, gc=False):
    """Saves a piece of a snapshot; pieces come in order. Each is answered, the last one when the whole snapshot is
    durable."""

    request: Count
    position: Count
    total: Count
    """Bytes of all pieces."""
    offset: Count
    data: Annotated[bytes, Meta(max_length=SNAPSHOT_PIECE_BYTES)]
    name: SnapshotName = UNNAMED


class ChangeReplicas(Struct, array_like=True, tag=22):
    """Answered by Told: the position of the change."""

    request: Count
    add: Name | None
    remove: Name | None
    quorum: dict[str, Any] | None


class Losses(Struct, array_like=True, tag=23):
    """Answered by Told: what may be lost with these replicas."""

    request: Count
    lost: Annotated[list[Name], Meta(max_length=64)]


class ForceLost(Struct, array_like=True, tag=24):
    request: Count
    lost: Annotated[list[Name], Meta(max_length=64)]


class WhatIf(Struct, array_like=True, tag=30):
    """Answered by Told: what losing these replicas would stop."""

    request: Count
    lost: Annotated[list[Name], Meta(max_length=64)]


class Collect(Struct, array_like=True, tag=25):
    """Reads the messages of several ranges, in order. Answered by Fetched with about `size` bytes of them, so the
    last range may be cut short. It stops before the first message that can't be read."""

    request: Count
    ranges: Annotated[list[tuple[Count, Annotated[int, Meta(ge=1)]]], Meta(min_length=1, max_length=MOST_COLLECTED)]
    """(position, count) …"""
    size: Annotated[int, Meta(ge=1, le=FETCH_BYTES)]


class LastCommit(Struct, array_like=True, tag=26):
    """Answered by Told: (number, position) of a transaction's last commit that is ordered here; None if there is
    none."""

    request: Count
    session: SessionId


class Cursor(Struct, array_like=True, tag=45):
    """Reads a cursor, from protocol 1.11 on. Answered by Told: (position of its last record, note), or None if there
    is no such cursor."""

    request: Count
    session: SessionId
    unlike: Count | None = None
    """Answered once the position is another one than this: a reader waits until the cursor changes."""


class Cursors(Struct, array_like=True, tag=46):
    """Lists cursors by session, from protocol 1.11 on. Answered by Told: [(session, position, note) …]."""

    request: Count
    after: Annotated[bytes, Meta(max_length=64)] = b""
    """Begins with the first after this one."""


class Follow(Struct, array_like=True, tag=51):
    """What a follower asks its source, from protocol 1.7 on. Answered by Followed; if the follower waits for
    something new, after a second at most."""

    request: Count
    ask: Ask


class Init(Struct, array_like=True, tag=27):
    """Begins a new log, without these replicas if they are absent. For admins."""

    request: Count
    without: Annotated[list[Name], Meta(max_length=64)] = []


class UseSnapshot(Struct, array_like=True, tag=28):
    """Registers a state machine of this name that has applied everything below `start`: the messages that it still
    needs are not truncated. Answered when that is durable."""

    request: Count
    name: SnapshotName
    start: Count


class DropSnapshot(Struct, array_like=True, tag=29):
    """Removes the state machine of this name and its snapshot. Answered when that is durable."""

    request: Count
    name: SnapshotName


class Forward(Struct, array_like=True, tag=41, gc=False):
    """An outpost forwards messages that it accepted, in their order, from protocol 1.7 on. Answered by Appended when
    all of them are on stable storage at the site."""

    request: Count
    session: SessionId
    """The outpost's own: the same for all its messages, whatever happens to it."""
    number: Annotated[int, Meta(ge=1, le=2**61)]
    """The first one's counter among the outpost's messages; the others follow."""
    after: Count
    """Messages up to this counter are green somewhere: the outpost has read them back."""
    outpost: Annotated[str, Meta(min_length=1, max_length=64)]
    incarnation: Count
    """The outpost's, when it accepted them."""
    messages: Annotated[list[bytes], Meta(min_length=1, max_length=MOST_APPENDED)]
    sources: Annotated[list[tuple[SessionId, Count, Count, Count]], Meta(max_length=MOST_APPENDED)] = []
    """(session, number, start, count) of the outpost's clients, where `start` counts from the first message."""


class Confirm(Struct, array_like=True, tag=42):
    """An outpost asks for the places of its messages from a counter on, from protocol 1.7 on. Answered by Confirmed
    once the first of them is green at the site."""

    request: Count
    session: SessionId
    first: Count


LogRequest = (
    Append | Order | Fetch | Forget | Pending | WatchColors | Barrier | LogStatus | Snapshot | ReadSnapshot
    | SaveSnapshot | ChangeReplicas | Losses | ForceLost | Collect | LastCommit | Init | UseSnapshot | DropSnapshot
    | WhatIf | Follow | Forward | Confirm | Cursor | Cursors
)  # fmt: skip


class Part(Struct, array_like=True, gc=False):
    """What became of some consecutive messages of an Append."""

    count: Count
    author: Name
    """Message i of them is AUTHOR:INCARNATION:(first + i). Empty if they are ordered and their ids are unknown."""
    incarnation: Count
    """0: unknown."""
    first: Count
    new: bool
    """False: the log already had these messages of the session."""
    position: Count | None = None
    """If they are ordered: the position of the first one; the others follow. None: unknown."""


class Appended(Struct, array_like=True, tag=14, gc=False):
    """The result of an Append, which is on stable storage at the site."""

    request: Count
    parts: list[Part]
    """They cover all messages of the Append, in order."""
    green: Count
    """The green line when they were accepted: new messages get no position below it."""
    outpost: SessionId | None = None
    """By an outpost: the session of its own under which sites know its messages."""


class Ordered(Struct, array_like=True, tag=15, gc=False):
    """The positions of an Order's messages: (position, count) …, in order."""

    request: Count
    places: list[tuple[Count, Count]]


class Fetched(Struct, array_like=True, tag=16, gc=False):
    """The messages that a Fetch or Collect asked for. Empty if there are none yet, or if `start` is below `base`."""

    request: Count
    base: Count
    """The first position that can be read."""
    green: Count
    """The green line: the first position that has no message yet."""
    batches: list[EntryBatch]


class Confirmed(Struct, array_like=True, tag=41):
    """Places of an outpost's messages, without a gap: (counter of the first, count, position of the first) …. A
    position of -1 is not known any more."""

    request: Count
    places: list[tuple[Count, Count, int]]


class Colored(Struct, array_like=True, tag=17):
    """Changes of colour: (colour, author, incarnation, first, count) …, in order."""

    request: Count
    changes: list[tuple[str, str, Count, Count, Count]]


class Followed(Struct, array_like=True, tag=51, gc=False):
    """What a source answers a follower."""

    request: Count
    answer: Answer


LogAnswer = Appended | Ordered | Fetched | Colored | Followed | Confirmed


def log_message_bytes(message_bytes: int) -> int:
    """The largest message of the log, if a site's largest message has `message_bytes` bytes."""
    return max(message_bytes - _MESSAGE_SPARE, message_bytes // 2)
