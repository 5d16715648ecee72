"""A batch: the messages that one replica accepted together, the unit that the log stores, sends and orders.

Its boundaries are fixed when it is accepted, and never change: a batch that is sent again is the same batch. So the
paper's "message" is a batch here, and costs are paid by the batch. Message `i` of it is message `first + i` of its
author.
A batch's *body* is all of it, as it is stored and sent:

    kind, author, incarnation, first, count, time, length of the sources    fixed, big endian
    sources                                                                 msgpack
    the messages' data                                                      msgpack, an array of byte strings
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct as Layout
from typing import Annotated, NamedTuple

from msgspec import DecodeError, Meta, Struct, msgpack

from reconvene.errors import Malformed

__all__ = [
    "BatchId", "Heading", "Kind", "Origin", "Source", "Timestamp", "decode_heading", "encode_batch", "messages_of",
    "sources_of",
]  # fmt: skip

_LAYOUT = Layout(">BHQQIQI")
_LARGE_BYTES = 1 << 16
_ONE_LARGE = Layout(">BBI")
"""An array of one byte string that is longer than that, up to its bytes."""

_MOST = 1 << 62
Number = Annotated[int, Meta(ge=0, lt=_MOST)]

Timestamp = tuple[Number, ...]
"""Of a batch: its delivery's, with its index in the frame. A message's own ends with its index in the batch."""


class Kind(IntEnum):
    DATA = 0
    """An application's messages."""
    CHANGE = 1
    """One message: a change of the replicas or of the quorum (`replicas.Change`)."""
    STAGED = 2
    """An application's messages that readers do not see at their own place …"""
    COMMIT = 3
    """… but at that of the one message which names them (`commits.Commit`)."""


class BatchId(NamedTuple):
    author: Annotated[int, Meta(ge=0, lt=1 << 16)]
    """A replica's number in the log: never used for another one."""
    first: Number
    """Counter of its first message among its author's, from 1, without gaps, across incarnations."""


class Origin(NamedTuple):
    """Which outpost of the log accepted messages, and in which incarnation."""

    outpost: str
    incarnation: int


class Source(Struct, array_like=True, frozen=True):
    """Messages of a client session, so that a retry is taken once."""

    session: bytes
    number: int
    """The session's own number of the first of them; the others follow."""
    start: int
    """Where in the batch they begin."""
    count: int
    origin: Origin | None = None
    """An outpost's messages: then the session is its own, and the numbers count its messages. It is encoded only
    where there is one, so that other batches stay as they were."""


class Heading(Struct, frozen=True, gc=False):
    """What is known of a batch without reading its messages."""

    kind: Kind
    author: int
    incarnation: int
    """In which its author accepted it."""
    first: int
    count: int
    time: int
    """The author's clock at accept: ns since 1970."""
    sourced: bool = False
    """Some of its messages are a client session's (`sources_of`)."""
    size: int = 0
    """Of its body, in bytes."""

    @property
    def id(self) -> BatchId:
        return BatchId(self.author, self.first)

    @property
    def last(self) -> int:
        """Counter of its last message."""
        return self.first + self.count - 1


_SOURCES = msgpack.Decoder(list[Source])
_MESSAGES = msgpack.Decoder(list[bytes])
_KINDS = {kind.value: kind for kind in Kind}


def encode_batch(heading: Heading, messages: Sequence[bytes], sources: Sequence[Source] = ()) -> bytes:
    """The body."""
    named = msgpack.encode([_encodable(source) for source in sources]) if sources else b""
    fixed = _LAYOUT.pack(
        heading.kind, heading.author, heading.incarnation, heading.first, heading.count, heading.time, len(named)
    )
    if len(messages) == 1 and len(messages[0]) > _LARGE_BYTES:
        # As msgpack does it, with one copy instead of three.
        return b"".join((fixed, named, _ONE_LARGE.pack(0x91, 0xC6, len(messages[0])), messages[0]))
    return fixed + named + msgpack.encode(messages)


def _encodable(source: Source) -> object:
    if source.origin is not None:
        return source
    return source.session, source.number, source.start, source.count


def decode_heading(body: bytes) -> Heading:
    """The messages are not looked at. Raises Malformed."""
    if len(body) < _LAYOUT.size:
        raise Malformed("a batch shorter than its heading")
    kind, author, incarnation, first, count, time, sources = _LAYOUT.unpack_from(body)
    if count < 1 or not 1 <= first < _MOST - count or kind not in _KINDS:
        raise Malformed(f"a batch of kind {kind} with {count} messages from {first} on")
    return Heading(_KINDS[kind], author, incarnation, first, count, time, sources > 0, len(body))


def sources_of(body: bytes) -> list[Source]:
    length = _LAYOUT.unpack_from(body)[6]
    if not length:
        return []
    try:
        return _SOURCES.decode(body[_LAYOUT.size : _LAYOUT.size + length])
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"a batch's sources: {error}") from None


def messages_of(body: bytes) -> list[bytes]:
    """Raises Malformed, also where they are not as many as the heading says."""
    _, _, _, _, count, _, length = _LAYOUT.unpack_from(body)
    try:
        messages = _MESSAGES.decode(memoryview(body)[_LAYOUT.size + length :])
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"a batch's messages: {error}") from None
    if len(messages) != count:
        raise Malformed(f"a batch of {len(messages)} messages that claims {count}")
    return messages
