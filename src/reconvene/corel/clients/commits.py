"""Transactions: messages that are staged, and the one message that makes them all visible.

Staged messages are ordered and durable like all others, but readers of the log do not see them at their own place. A
commit names them, by positions; a reader that comes to the commit sees all of them there, in the order of its list.
Messages that no commit names are never seen. A commit under a transaction's session counts once for each version
(`session_table`). A commit may also carry a *note*: then it makes nothing visible, and what it says is kept with its
session, for as long as the session is remembered. The records of cursors are such commits (`cursors`).
"""

from typing import Annotated

from msgspec import DecodeError, Meta, Struct, msgpack

from reconvene.corel.batch import Number
from reconvene.errors import Malformed

__all__ = ["MOST_NOTE_BYTES", "MOST_RANGES", "TRANSACTION", "Commit", "Range", "decode_commit", "encode_commit"]

TRANSACTION = b"txn:"
"""How the sessions of transactions begin: of each, the highest number is remembered, apart from other sessions."""
MOST_NOTE_BYTES = 2_048
MOST_RANGES = 1 << 18
"""That one commit names. A range is at least a batch, where one replica took them."""

Range = tuple[Number, Annotated[int, Meta(ge=1, lt=1 << 62)]]
"""(position, count) of messages that follow each other."""


class Commit(Struct, array_like=True, frozen=True):
    """What the message of a commit says."""

    name: Annotated[str, Meta(max_length=1_024)]
    """The transaction's, for people; empty: it has none."""
    version: Number
    """Which of its attempts to go on this is: a batch of a query, a version of a table."""
    ranges: Annotated[list[Range], Meta(max_length=MOST_RANGES)]
    """What it makes visible, in this order."""
    index: Annotated[list[Range], Meta(max_length=MOST_RANGES)] = []
    """Staged messages that go with it, and that no reader of the log sees: the writers' own."""
    previous: Number | None = None
    """Where the commit of the same name before it stands, where its writer needs to know."""
    note: Annotated[bytes, Meta(max_length=MOST_NOTE_BYTES)] = b""
    """What is kept with the session. It is encoded only where there is one, so that other commits stay as they were:
    a program that does not know notes reads a commit that makes nothing visible."""

    @property
    def rows(self) -> int:
        return sum(count for _, count in self.ranges)

    @property
    def lowest(self) -> int | None:
        """Of all positions that it names."""
        return min((position for position, _ in (*self.ranges, *self.index)), default=None)


_COMMIT = msgpack.Decoder(Commit)


def encode_commit(commit: Commit) -> bytes:
    if commit.note:
        return msgpack.encode(commit)
    return msgpack.encode((commit.name, commit.version, commit.ranges, commit.index, commit.previous))


def decode_commit(data: bytes) -> Commit:
    """Raises Malformed, also where a message is named twice: a small commit could name very many messages."""
    try:
        commit = _COMMIT.decode(data)
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"a commit: {error}") from None
    end = 0
    for position, count in sorted((*commit.ranges, *commit.index)):
        if position < end:
            raise Malformed(f"a commit that names the message at {position} twice")
        end = position + count
    return commit
