"""What replicas send to each other, inside the site's messages: the first byte is the kind.

    DATA       kind, marked, acknowledged, green, body        fixed, then a batch's body
    ACK        kind, acknowledged, green                      fixed
    others     kind, msgpack

All but acknowledgements are sent in the agreed order, so that every member handles them after the same messages.
"""

from struct import Struct as Layout
from typing import Annotated, NamedTuple, TypeVar

from msgspec import DecodeError, Meta, Struct, msgpack

from reconvene.corel.batch import BatchId, Number, Timestamp
from reconvene.corel.keeping.layout import Author, Seen
from reconvene.corel.replicas.sets import ReplicaSet, check_replicas
from reconvene.errors import Malformed
from reconvene.voting import Kept, check_kept

__all__ = [
    "ACK", "BARRIER", "BASE", "CLAIMS", "COMMIT", "DATA", "ECHO", "FED", "FEED", "FORCE", "FOREIGN", "INIT", "KINDS",
    "PRIORITY", "READY", "RED", "SNAPSHOT", "STATE", "Ack", "Barrier", "BaseSent", "Claims", "Commit", "Data",
    "Echo", "Fed", "Feed", "Force", "Init", "Item", "Priority", "Ready", "Reds", "Stamped", "State",
    "decode", "decode_ack", "decode_data", "encode", "encode_ack", "encode_data",
]  # fmt: skip

DATA, ACK, STATE, CLAIMS, BASE, PRIORITY, RED, READY, COMMIT, BARRIER, ECHO, FORCE, SNAPSHOT = range(16, 29)
FEED, FOREIGN, FED, INIT = 30, 31, 32, 33
"""FOREIGN: not the log's: plain messages beside it, as the simulator sends them."""
KINDS = frozenset((*range(DATA, SNAPSHOT + 1), FEED, FED, INIT))
"""First bytes of the log's own messages."""

_DATA = Layout(">BBQQ")
_ACK = Layout(">BQQ")

Count = Annotated[int, Meta(ge=1, lt=1 << 32)]
Stamp = Annotated[Timestamp, Meta(min_length=1, max_length=8)]
"""As far as stable storage can hold it."""


class Data(NamedTuple):
    marked: bool
    """It may have been sent before."""
    acknowledged: int
    green: int
    body: bytes


class Ack(NamedTuple):
    acknowledged: int
    """How many DATA of this configuration, in the order of delivery, the sender has on stable storage."""
    green: int
    """The sender's green line."""


class Stamped(Struct, array_like=True, frozen=True):
    """A marked red batch, and the timestamp under which its holder has it."""

    id: BatchId
    timestamp: Stamp


class State(Struct, array_like=True, frozen=True):
    """Recovery, step 1: what the sender has on stable storage."""

    keeps: bool
    """It keeps a replica of the log; otherwise the rest means nothing."""
    identity: bytes
    replicas: ReplicaSet
    last_committed_primary: Number
    last_attempted_primary: Number
    green: Number
    """The green line: how many messages are green."""
    yellow: Number
    """The yellow line: how many are green or yellow."""
    base: Number
    """How many of the green ones are truncated."""
    has: dict[Author, Number]
    """By author: the counter of its last message that the sender has."""
    marked: list[Stamped]
    identities: dict[Author, bytes]
    heard_primary: Number = 0
    """As `layout.Record` has it."""
    admitted: bool = True
    """As `layout.Record` has it."""
    boots: dict[Number, Number] = {}
    """As `layout.Record` has them …"""
    seen: dict[Author, Seen] = {}
    authored: Number = 0
    """The counter of the last message that the sender has accepted under its number."""
    behind: str = ""
    replaces: bool = False
    begin: list[str] | None = None
    """An operator has said that a new log may begin here, without these replicas if they are absent. None: no
    operator has."""
    kept: Kept | None = None
    """The sessions of dynamic voting that it knows. None: it runs an older program."""


class Claims(Struct, array_like=True, frozen=True):
    """Of the marked batches in all state messages: those that the sender has, red, under another timestamp."""

    claims: list[Stamped]


class BaseSent(Struct, array_like=True, frozen=True):
    """What the representative has truncated, for replicas that lack some of it."""

    base: bytes
    sessions: list[tuple[bytes, bytes]]
    last: bool
    primary: Number = 0
    """To a follower: the last primary component of which the sender knows."""


class Item(Struct, array_like=True, frozen=True):
    """A batch sent again with its original timestamp; without its body where everyone has it."""

    id: BatchId
    count: Count
    timestamp: Stamp
    marked: bool
    body: bytes | None


class Priority(Struct, array_like=True, frozen=True):
    """Recovery, step 5: the representative's green and yellow batches, from `position` on."""

    position: Number
    items: list[Item]
    last: bool


class Reds(Struct, array_like=True, frozen=True):
    """Recovery, step 7."""

    items: list[Item]


class Ready(Struct, array_like=True, frozen=True):
    """The sender has recovered. With a number: it attempts that primary component (phase 1)."""

    primary: Number


class Commit(Struct, array_like=True, frozen=True):
    """Phase 2."""

    primary: Number


class Barrier(Struct, array_like=True, frozen=True):
    """Asks every member to say that it is still here."""

    number: Number


class Echo(Struct, array_like=True, frozen=True):
    to: str
    number: Number


class Feed(Struct, array_like=True, frozen=True):
    """Green batches for a follower, from `position` on; `green`: the sender's green line."""

    to: str
    position: Number
    items: list[Item]
    green: Number
    primary: Number = 0
    """The last primary component of which the sender knows."""


class Fed(Struct, array_like=True, frozen=True):
    """A follower's answer: its green line, on stable storage."""

    green: Number


class Force(Struct, array_like=True, frozen=True):
    """An administrator says that the replicas that are not in this set are lost."""

    replicas: ReplicaSet


class Init(Struct, array_like=True, frozen=True):
    """An operator says that a new log begins, without these replicas if they are absent."""

    without: list[str]


M = TypeVar("M")
_DECODERS: dict[type, msgpack.Decoder[object]] = {}


def encode(kind: int, content: Struct) -> bytes:
    return bytes((kind,)) + msgpack.encode(content)


def decode(payload: bytes, form: type[M]) -> M:
    """Raises Malformed."""
    decoder = _DECODERS.get(form)
    if decoder is None:
        decoder = _DECODERS[form] = msgpack.Decoder(form)
    try:
        message: M = decoder.decode(memoryview(payload)[1:])  # type: ignore[assignment]
    except (DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"a message of the log: {error}") from None
    if isinstance(message, State | Force):
        check_replicas(message.replicas)
    if isinstance(message, State) and message.kept is not None:
        check_kept(message.kept)
    return message


def encode_data(marked: bool, acknowledged: int, green: int, body: bytes) -> bytes:
    return _DATA.pack(DATA, marked, acknowledged, green) + body


def decode_data(payload: bytes) -> Data:
    if len(payload) < _DATA.size:
        raise Malformed("a batch shorter than its heading")
    _, marked, acknowledged, green = _DATA.unpack_from(payload)
    return Data(bool(marked), acknowledged, green, payload[_DATA.size :])


def encode_ack(acknowledged: int, green: int) -> bytes:
    return _ACK.pack(ACK, acknowledged, green)


def decode_ack(payload: bytes) -> Ack:
    if len(payload) < _ACK.size:
        raise Malformed("an acknowledgement shorter than its fields")
    _, acknowledged, green = _ACK.unpack_from(payload)
    return Ack(acknowledged, green)
