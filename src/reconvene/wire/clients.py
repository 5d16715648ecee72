"""What clients and their site say to each other, over a Unix socket or TCP.

A record is a list of these structs, all of one direction, encoded together; `wire.records` frames and seals records.
A request carries a number that its answer repeats. Answers come in any order; what happens in groups comes as pushes,
in the order in which it happened. `major` must be the same on both sides; a higher `minor` adds fields at the end of
structs, which older readers skip, and structs that are only sent to who knows them.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from reconvene.errors import Malformed
from reconvene.wire.client_log import Count, LogAnswer, LogRequest, Name

__all__ = [
    "HANDSHAKE_BYTES",
    "INIT_MINOR",
    "LOG_MINOR",
    "MAJOR",
    "MINOR",
    "MOST_NAMED",
    "NAMES_MINOR",
    "RECORD_BYTES",
    "SLACK_BYTES",
    "STAGING_MINOR",
    "Arrived",
    "Block",
    "Blocked",
    "Challenge",
    "Done",
    "Failed",
    "Goodbye",
    "Health",
    "Hello",
    "Join",
    "Joined",
    "Leave",
    "Left",
    "Ping",
    "Proof",
    "Proven",
    "Refused",
    "Send",
    "Status",
    "Stop",
    "ToClient",
    "ToSite",
    "Told",
    "Unreadable",
    "Viewed",
    "Welcome",
    "check_request",
    "decode_from_client",
    "decode_from_site",
    "encode",
]

MAJOR = 1
MINOR = 4
"""1 has the log, 2 its headings alone, and transactions, 3 begins a log, 4 has names of snapshots."""
LOG_MINOR = 1
"""A site of a lower minor does not know what is asked about the log …"""
STAGING_MINOR = 2
"""… and one of a lower one than this nothing of transactions: it would take what is staged for what is not."""
INIT_MINOR = 3
"""A site of a lower minor begins its log by itself."""
NAMES_MINOR = 4
"""A site of a lower minor keeps one snapshot, which has no name."""

HANDSHAKE_BYTES = 4_096
"""The longest record before a site's Welcome: strangers get no more memory than this."""
RECORD_BYTES = 256 << 10
"""Structs are put into a record until it is longer than this."""
SLACK_BYTES = 1 << 20
"""A record may be this much longer than the longest message: other structs before it, and headers."""
RECORD_STRUCTS = 1 << 16
"""The most structs in a client's record: small ones take far more room decoded than encoded."""
_HANDSHAKE = 2
"""Structs up to this tag are of the handshake, and have no number."""
_MOST_NUMBER = 1 << 62
MOST_NAMED = 4_096
"""Processes that one Send may be for."""

Ordinal = Annotated[int, Meta(ge=0, lt=64)]
ServiceNumber = Annotated[int, Meta(ge=0, le=3)]
Where = tuple[Ordinal, Count, Count]
"""A process: its site's ordinal and incarnation, and its number there."""
Nonce = Annotated[bytes, Meta(min_length=32, max_length=32)]
Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Line = Annotated[str, Meta(max_length=2_000)]


class Hello(Struct, array_like=True, tag=1):
    """The client's first word."""

    major: Count
    minor: Count
    name: Name
    """Of the client's key; empty where it shows none."""
    nonce: Nonce


class Proof(Struct, array_like=True, tag=2):
    """The client holds the key that it named."""

    proof: Digest


class Join(Struct, array_like=True, tag=3):
    request: Count
    group: Annotated[str, Meta(max_length=4_096)]
    primary: bool
    """With the virtual-synchrony filter."""
    receive: bool
    """False: the process only sends, and is not told of messages."""


class Leave(Struct, array_like=True, tag=4):
    request: Count
    membership: Count


class Send(Struct, array_like=True, tag=5, gc=False):
    """Answered when the site has taken all of them."""

    request: Count
    membership: Count
    service: ServiceNumber
    payloads: list[bytes]
    to: Annotated[list[Where], Meta(max_length=MOST_NAMED)] | None = None


class Status(Struct, array_like=True, tag=6):
    request: Count


class Health(Struct, array_like=True, tag=7):
    request: Count


class Block(Struct, array_like=True, tag=8):
    """Fault injection: the site drops what comes from, and what goes to, these sites."""

    request: Count
    incoming: Annotated[list[Name], Meta(max_length=64)]
    outgoing: Annotated[list[Name], Meta(max_length=64)]


class Stop(Struct, array_like=True, tag=9):
    """The site is to leave its cluster and end."""

    request: Count


class Ping(Struct, array_like=True, tag=10):
    """A sign of life that asks for one."""

    request: Count


ToSite = (
    Hello | Proof | Ping  # the connection
    | Join | Leave | Send | Status | Health | Block | Stop
    | LogRequest
)  # fmt: skip


class Challenge(Struct, array_like=True, tag=1):
    """Prove that you hold the key that you named."""

    major: Count
    minor: Count
    cluster: Name
    site: Name
    nonce: Nonce


class Proven(Struct, array_like=True, tag=2):
    """The site holds the key too. What follows is sealed, unless TLS carries it."""

    proof: Digest


class Welcome(Struct, array_like=True, tag=3):
    """The client is a process of the site now."""

    major: Count
    minor: Count
    cluster: Name
    site: Name
    names: Annotated[list[Name], Meta(max_length=64)]
    """All sites; a place in this list is an ordinal."""
    process: Where
    role: Name
    """read | append | admin"""
    message_bytes: Count
    """The longest message; a record is at most `SLACK_BYTES` longer."""
    window_requests: Count
    window_bytes: Count
    """A further Send may go out while fewer than these are unanswered; a site ends the connection beyond that."""


class Refused(Struct, array_like=True, tag=4):
    """The site ends the connection, in the handshake or later."""

    kind: Name
    reason: Line


class Goodbye(Struct, array_like=True, tag=5):
    """The site is stopping: another one may be asked."""

    reason: Line


class Done(Struct, array_like=True, tag=6):
    """These requests have been carried out."""

    requests: list[Count]


class Failed(Struct, array_like=True, tag=7):
    request: Count
    kind: Name
    """rejected | unavailable | unknown | malformed"""
    reason: Line
    taken: Count = 0
    """Of a Send's messages, from the first on."""


class Joined(Struct, array_like=True, tag=8):
    """The membership has a number. It begins with its first Viewed or Blocked, or ends with Left."""

    request: Count
    membership: Count


class Told(Struct, array_like=True, tag=9):
    """What Status, Health or a question about the log asked for."""

    request: Count
    document: Any


class Arrived(Struct, array_like=True, tag=10, gc=False):
    """Messages of one sender, in order."""

    membership: Count
    sender: Where
    service: ServiceNumber
    payloads: list[bytes]
    view: tuple[Count, Count]
    conf: str
    first: Count
    timestamp: tuple[int, ...] | None
    index: Count


class Viewed(Struct, array_like=True, tag=11):
    membership: Count
    kind: Literal["regular", "transitional", "hidden"]
    view: tuple[Count, Count]
    conf: str
    members: list[Where]
    primary: bool
    process: Where | None = None
    """The client's own among them."""


class Blocked(Struct, array_like=True, tag=12):
    membership: Count


class Left(Struct, array_like=True, tag=13):
    membership: Count
    reason: str


ToClient = (
    Challenge | Proven | Welcome | Refused | Goodbye  # the connection
    | Done | Failed | Joined | Told  # answers
    | Arrived | Viewed | Blocked | Left  # pushes
    | LogAnswer
)  # fmt: skip


class Unreadable(Struct):
    """What a site makes of a request that is not as it should be: it is answered, and the others are carried out.
    It never travels."""

    request: int
    reason: str


_encode = msgspec.msgpack.Encoder().encode
_Requests = Annotated[list[ToSite], Meta(max_length=RECORD_STRUCTS)]
_from_client: Callable[[bytes], list[ToSite]] = msgspec.msgpack.Decoder(_Requests).decode
_pieces: Callable[[bytes], list[msgspec.Raw]] = msgspec.msgpack.Decoder(
    Annotated[list[msgspec.Raw], Meta(max_length=RECORD_STRUCTS)]
).decode
_one_from_client: Callable[[msgspec.Raw], ToSite] = msgspec.msgpack.Decoder(ToSite).decode
_loosely: Callable[[msgspec.Raw], object] = msgspec.msgpack.Decoder().decode
_WRONG = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
_from_site = msgspec.msgpack.Decoder(list[ToClient]).decode


def encode(structs: Sequence[ToSite] | Sequence[ToClient]) -> bytes:
    return _encode(structs)


def decode_from_client(record: bytes) -> list[ToSite | Unreadable]:
    """Raises Malformed and nothing else. A request that has a number, and is wrong otherwise, is Unreadable."""
    try:
        return _from_client(record)  # type: ignore[return-value]
    except msgspec.ValidationError as error:
        why = error
    except _WRONG as error:
        raise Malformed(str(error)) from error
    try:
        return [_read(piece, why) for piece in _pieces(record)]
    except _WRONG as error:
        raise Malformed(str(error)) from error


def _read(piece: msgspec.Raw, why: Exception) -> ToSite | Unreadable:
    try:
        return _one_from_client(piece)
    except msgspec.ValidationError as error:
        match _loosely(piece):
            case [int(kind), int(request), *_] if kind > _HANDSHAKE and 0 <= request <= _MOST_NUMBER:
                return Unreadable(request, f"request of kind {kind}: {error}")
    raise Malformed(str(why))


def check_request(request: ToSite) -> None:
    """Raises Malformed, TypeError, OverflowError or ValueError where a site could not read it."""
    (read,) = decode_from_client(encode([request]))
    if isinstance(read, Unreadable):
        raise Malformed(read.reason)


def decode_from_site(record: bytes) -> list[ToClient]:
    """Raises Malformed and nothing else."""
    try:
        return _from_site(record)
    except _WRONG as error:
        raise Malformed(str(error)) from error
