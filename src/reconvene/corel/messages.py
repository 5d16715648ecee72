"""What replicas say to each other, inside the site's messages: the first byte tells the kind.

    DATA       kind, round, marked, acknowledged, green, body        fixed, then a batch's body
    ACK        kind, round, acknowledged, green                      fixed
    others     kind, msgpack

All but acknowledgements go by the agreed service: whoever is further on was sent for by nobody who is not.
"""

from struct import Struct as Layout
from typing import Annotated, NamedTuple, TypeVar

from msgspec import DecodeError, Meta, Struct, msgpack

from reconvene.corel.batch import BatchId, Timestamp
from reconvene.corel.replicas import ReplicaSet
from reconvene.errors import Malformed

__all__ = [
    "ACK", "BARRIER", "BASE", "CLAIMS", "COMMIT", "DATA", "ECHO", "FORCE", "FOREIGN", "PRIORITY", "READY", "RED",
    "RESTART", "SNAPSHOT", "STATE", "Ack", "Barrier", "BaseSent", "Claims", "Commit", "Data", "Echo", "Force",
    "Item", "Priority", "Ready", "Reds", "Restart", "Stamped", "State", "decode", "decode_ack", "decode_data",
    "encode", "encode_ack", "encode_data",
]  # fmt: skip

DATA, ACK, STATE, CLAIMS, BASE, PRIORITY, RED, READY, COMMIT, BARRIER, ECHO, RESTART, FORCE, SNAPSHOT = range(16, 30)
FOREIGN = 31
"""Not the log's: plain messages beside it, as the simulator sends them."""

_DATA = Layout(">BIBQQ")
_ACK = Layout(">BIQQ")

Number = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Data(NamedTuple):
    round: int
    marked: bool
    """It may have been sent before."""
    acknowledged: int
    green: int
    body: bytes


class Ack(NamedTuple):
    round: int
    acknowledged: int
    """How many DATA of this round, in the order of delivery, the sender has on stable storage."""
    green: int
    """The sender's green line."""


class Stamped(Struct, array_like=True, frozen=True):
    """A marked red batch, and the timestamp under which its holder has it."""

    id: BatchId
    timestamp: Timestamp


class State(Struct, array_like=True, frozen=True):
    """Recovery, step 1: what the sender has on stable storage."""

    round: Number
    keeps: bool
    """It keeps a replica of the log; else the rest says nothing."""
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
    has: dict[int, int]
    """By author: the counter of its last message that the sender has."""
    marked: list[Stamped]
    identities: dict[int, bytes]


class Claims(Struct, array_like=True, frozen=True):
    """Of the marked batches that anyone listed: those that the sender has, red, under another timestamp."""

    round: Number
    claims: list[Stamped]


class BaseSent(Struct, array_like=True, frozen=True):
    """What the representative has truncated, for who needs more than that."""

    round: Number
    base: bytes
    sessions: list[tuple[bytes, bytes]]
    last: bool


class Item(Struct, array_like=True, frozen=True):
    """A batch sent again with its original timestamp; without its body where everyone has it."""

    id: BatchId
    count: int
    timestamp: Timestamp
    marked: bool
    body: bytes | None


class Priority(Struct, array_like=True, frozen=True):
    """Recovery, step 5: the representative's green and yellow batches, from `position` on."""

    round: Number
    position: Number
    items: list[Item]
    last: bool


class Reds(Struct, array_like=True, frozen=True):
    """Recovery, step 7."""

    round: Number
    items: list[Item]


class Ready(Struct, array_like=True, frozen=True):
    """The sender has recovered. With a number: it attempts that primary component (phase 1)."""

    round: Number
    primary: Number


class Commit(Struct, array_like=True, frozen=True):
    """Phase 2."""

    round: Number
    primary: Number


class Barrier(Struct, array_like=True, frozen=True):
    """Asks every member to say that it is still here."""

    round: Number
    number: Number


class Echo(Struct, array_like=True, frozen=True):
    round: Number
    to: str
    number: Number


class Restart(Struct, array_like=True, frozen=True):
    """Everyone goes through recovery again in this configuration: the set of replicas has changed."""

    round: Number


class Force(Struct, array_like=True, frozen=True):
    """An administrator's word that the replicas left out of this set are lost."""

    replicas: ReplicaSet


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
        return decoder.decode(memoryview(payload)[1:])  # type: ignore[return-value]
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"a message of the log: {error}") from None


def encode_data(round_: int, marked: bool, acknowledged: int, green: int, body: bytes) -> bytes:
    return _DATA.pack(DATA, round_, marked, acknowledged, green) + body


def decode_data(payload: bytes) -> Data:
    if len(payload) < _DATA.size:
        raise Malformed("a batch shorter than its heading")
    _, round_, marked, acknowledged, green = _DATA.unpack_from(payload)
    return Data(round_, bool(marked), acknowledged, green, payload[_DATA.size :])


def encode_ack(round_: int, acknowledged: int, green: int) -> bytes:
    return _ACK.pack(ACK, round_, acknowledged, green)


def decode_ack(payload: bytes) -> Ack:
    if len(payload) < _ACK.size:
        raise Malformed("an acknowledgement shorter than its fields")
    _, round_, acknowledged, green = _ACK.unpack_from(payload)
    return Ack(round_, acknowledged, green)
