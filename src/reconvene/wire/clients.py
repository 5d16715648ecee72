"""The messages between clients and their site, over a Unix socket or TCP.

A record is a list of these structs, all of one direction, encoded together; `wire.records` frames and seals records.
A request carries a number that its answer repeats. Answers come in any order. Events in groups are pushed to the
client in the order in which they happened. `major` must be the same on both sides. A higher `minor` adds fields at
the end of structs, which older readers skip, and structs that are sent only to a peer that knows them.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from reconvene.errors import Malformed
from reconvene.wire.client_isis import IsisAnswer, IsisRequest
from reconvene.wire.client_log import Count, LogAnswer, LogRequest, Name

__all__ = [
    "CURSOR_MINOR",
    "FOLLOW_MINOR",
    "HANDSHAKE_BYTES",
    "INIT_MINOR",
    "ISIS_MINOR",
    "LOG_MINOR",
    "MAJOR",
    "MINOR",
    "MOST_NAMED",
    "NAMES_MINOR",
    "OUTPOST_MINOR",
    "RECORD_BYTES",
    "SLACK_BYTES",
    "STAGING_MINOR",
    "WATCH_MINOR",
    "WHATIF_MINOR",
    "WIDE_ISIS_MINOR",
    "WIDE_MINOR",
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
    "WideArrived",
    "WideViewed",
    "check_request",
    "decode_from_client",
    "decode_from_site",
    "encode",
]

MAJOR = 1
MINOR = 11
"""1 adds the log, 2 headings without messages and transactions, 3 Init, 4 names of snapshots, 5 process groups in the
manner of ISIS, 6 WhatIf, 7 followers and outposts, 8 watches of processes, 9 wide groups, 10 casts to processes of
other clusters, 11 cursors."""
LOG_MINOR = 1
"""A site with a lower minor does not know requests about the log."""
STAGING_MINOR = 2
"""A site with a lower minor does not know transactions: it would treat staged messages as ordinary ones."""
INIT_MINOR = 3
"""A site with a lower minor begins its log by itself."""
NAMES_MINOR = 4
"""A site with a lower minor keeps one snapshot, which has no name."""
OUTPOST_MINOR = 7
"""A site with a lower minor takes nothing from an outpost."""
WHATIF_MINOR = 6
"""A site with a lower minor can't say what losing replicas would stop."""
FOLLOW_MINOR = 7
"""A site with a lower minor has no followers."""
ISIS_MINOR = 5
"""A site with a lower minor does not know process groups in the manner of ISIS."""

WATCH_MINOR = 8
"""A site with a lower minor can't watch processes."""

WIDE_MINOR = 9
"""A site with a lower minor has no wide groups: it would join another group of the same name."""

WIDE_ISIS_MINOR = 10
"""A site with a lower minor can't cast to processes of other clusters."""

CURSOR_MINOR = 11
"""A site with a lower minor does not know cursors."""

HANDSHAKE_BYTES = 4_096
"""The longest record before a site's Welcome: an unknown client gets no more memory than this."""
RECORD_BYTES = 256 << 10
"""Structs are put into a record until it is longer than this."""
SLACK_BYTES = 1 << 20
"""A record may be this much longer than the longest message: other structs before it, and headers."""
RECORD_STRUCTS = 1 << 16
"""The most structs in a client's record: small ones take far more room decoded than encoded."""
_HANDSHAKE = 2
"""Structs up to this tag belong to the handshake and have no number."""
_MOST_NUMBER = 1 << 62
MOST_NAMED = 4_096
"""The most processes that one Send may address."""

Ordinal = Annotated[int, Meta(ge=0, lt=64)]
ServiceNumber = Annotated[int, Meta(ge=0, le=3)]
Where = tuple[Ordinal, Count, Count]
"""A process: its site's ordinal and incarnation, and its number there."""
Nonce = Annotated[bytes, Meta(min_length=32, max_length=32)]
Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Line = Annotated[str, Meta(max_length=2_000)]


class Hello(Struct, array_like=True, tag=1):
    """The client's first message."""

    major: Count
    minor: Count
    name: Name
    """The name of the client's key; empty if it uses none."""
    nonce: Nonce


class Proof(Struct, array_like=True, tag=2):
    """Proves that the client holds the key that it named."""

    proof: Digest


class Join(Struct, array_like=True, tag=3):
    request: Count
    group: Annotated[str, Meta(max_length=4_096)]
    primary: bool
    """With the virtual-synchrony filter."""
    receive: bool
    """False: the process only sends, and receives no messages."""
    wide: bool = False
    """A group whose messages pass between clusters."""


class Leave(Struct, array_like=True, tag=4):
    request: Count
    membership: Count


class Send(Struct, array_like=True, tag=5, gc=False):
    """Sends messages to a group. Answered when the site has accepted all of them."""

    request: Count
    membership: Count
    service: ServiceNumber
    payloads: list[bytes]
    to: Annotated[list[Where], Meta(max_length=MOST_NAMED)] | None = None
    cluster: bool = False
    """To a wide group: the messages do not leave the cluster."""


class Status(Struct, array_like=True, tag=6):
    request: Count


class Health(Struct, array_like=True, tag=7):
    request: Count


class Block(Struct, array_like=True, tag=8):
    """Fault injection: the site drops datagrams from `incoming` sites and to `outgoing` sites."""

    request: Count
    incoming: Annotated[list[Name], Meta(max_length=64)]
    outgoing: Annotated[list[Name], Meta(max_length=64)]
    above: bool = False
    """At a gateway: its site in the cluster above does."""


class Stop(Struct, array_like=True, tag=9):
    """Asks the site to leave its cluster and stop."""

    request: Count


class Ping(Struct, array_like=True, tag=10):
    """Shows that the client is alive; the answer shows that the site is."""

    request: Count


ToSite = (
    Hello | Proof | Ping  # the connection
    | Join | Leave | Send | Status | Health | Block | Stop
    | LogRequest
    | IsisRequest
)  # fmt: skip


class Challenge(Struct, array_like=True, tag=1):
    """Asks the client to prove that it holds the key that it named."""

    major: Count
    minor: Count
    cluster: Name
    site: Name
    nonce: Nonce


class Proven(Struct, array_like=True, tag=2):
    """Proves that the site holds the key too. All later records are sealed, unless TLS carries them."""

    proof: Digest


class Welcome(Struct, array_like=True, tag=3):
    """The client is a process of the site now."""

    major: Count
    minor: Count
    cluster: Name
    site: Name
    names: Annotated[list[Name], Meta(max_length=64)]
    """All sites; an index in this list is an ordinal."""
    process: Where
    role: Name
    """read | append | admin"""
    message_bytes: Count
    """The longest message; a record is at most `SLACK_BYTES` longer."""
    window_requests: Count
    window_bytes: Count
    """A client may send a further Send while fewer requests and bytes than these are unanswered. A site ends the
    connection of a client that exceeds them."""


class Refused(Struct, array_like=True, tag=4):
    """The site ends the connection, in the handshake or later."""

    kind: Name
    reason: Line


class Goodbye(Struct, array_like=True, tag=5):
    """The site is stopping: the client may connect to another one."""

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
    """How many of a Send's messages were accepted, from the first on."""


class Joined(Struct, array_like=True, tag=8):
    """Answers Join with the membership's number. The membership begins with its first Viewed or Blocked, or ends with
    Left."""

    request: Count
    membership: Count


class Told(Struct, array_like=True, tag=9):
    """The answer to Status, Health or a request about the log."""

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
    """The client's own process among the members."""


class Blocked(Struct, array_like=True, tag=12):
    membership: Count


class Left(Struct, array_like=True, tag=13):
    membership: Count
    reason: str


class WideArrived(Struct, array_like=True, tag=80, gc=False):
    """A message to a wide group."""

    membership: Count
    sender: tuple[Name, Name, Count, Count]
    """Cluster, site, the site's incarnation, the process's number there."""
    service: ServiceNumber
    payload: bytes
    conf: str
    counter: Count
    place: tuple[int, ...] | None


class WideViewed(Struct, array_like=True, tag=81):
    """A wide configuration begins, or the membership of a wide group does."""

    membership: Count
    regular: bool
    conf: str
    domains: Annotated[list[Name], Meta(max_length=64)]
    unreachable: Annotated[list[Name], Meta(max_length=64)]
    members: list[tuple[Name, Name, Count, Count]] = []
    """Cluster, site, the site's incarnation and number of each process of the group; empty: not known yet."""
    lost: list[tuple[Name, Name, str]] = []
    """Cluster and site of each that its cluster's majority goes on without, and that majority's configuration."""


ToClient = (
    Challenge | Proven | Welcome | Refused | Goodbye  # the connection
    | Done | Failed | Joined | Told  # answers
    | Arrived | Viewed | Blocked | Left | WideArrived | WideViewed  # pushes
    | LogAnswer
    | IsisAnswer
)  # fmt: skip


class Unreadable(Struct):
    """What a site decodes an invalid request to: the site answers it with an error, and carries out the other
    requests of the record. Never sent."""

    request: int
    reason: str


_Requests = Annotated[list[ToSite], Meta(max_length=RECORD_STRUCTS)]
_from_client: Callable[[bytes], list[ToSite]] = msgspec.msgpack.Decoder(_Requests).decode
_pieces: Callable[[bytes], list[msgspec.Raw]] = msgspec.msgpack.Decoder(
    Annotated[list[msgspec.Raw], Meta(max_length=RECORD_STRUCTS)]
).decode
_one_from_client: Callable[[msgspec.Raw], ToSite] = msgspec.msgpack.Decoder(ToSite).decode
_loosely: Callable[[msgspec.Raw], object] = msgspec.msgpack.Decoder().decode
_WRONG = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
_from_site = msgspec.msgpack.Decoder(list[ToClient]).decode


encode: Callable[[Sequence[ToSite] | Sequence[ToClient]], bytes] = msgspec.msgpack.Encoder().encode
"""What one record holds."""


def decode_from_client(record: bytes) -> list[ToSite | Unreadable]:
    """Raises Malformed and nothing else. An invalid request becomes Unreadable if its number can be read."""
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
    """Raises Malformed, TypeError, OverflowError or ValueError if a site could not read the request."""
    (read,) = decode_from_client(encode([request]))
    if isinstance(read, Unreadable):
        raise Malformed(read.reason)


def decode_from_site(record: bytes) -> list[ToClient]:
    """Raises Malformed and nothing else."""
    try:
        return _from_site(record)
    except _WRONG as error:
        raise Malformed(str(error)) from error
