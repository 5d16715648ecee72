"""How an outpost lies on stable storage.

    RECORD              its identity, its incarnation, how far its messages are green (`Record`)
    ENTRIES    first    messages that were accepted together and may not be green (`Stored`), by counter

The keys begin with bytes that neither a replica's tables nor a site's names use.
"""

from struct import Struct as Layout
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, msgpack

from reconvene.corel.clients.session_table import OUTPOST
from reconvene.errors import Malformed, Unavailable
from reconvene.storage.tables import Op, Put, Reader

__all__ = [
    "ENTRIES",
    "RECORD",
    "Record",
    "Stored",
    "boot",
    "decode_stored",
    "entry_counter",
    "entry_key",
    "load_record",
]

FORMAT = 1
RECORD = b"\x15"
ENTRIES = b"\x16"
IDENTITY_BYTES = 16

_U64 = Layout(">Q")
Number = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Record(Struct, array_like=True):
    """The durable variables."""

    format: int
    identity: Annotated[bytes, Meta(min_length=IDENTITY_BYTES, max_length=IDENTITY_BYTES)]
    """Drawn at the first start, and never again: the log knows by it what it has."""
    incarnation: Number = 0
    green: Number = 0
    """Messages up to this counter are green."""

    @property
    def session(self) -> bytes:
        """The log session under which everything is forwarded."""
        return OUTPOST + self.identity


class Stored(Struct, array_like=True, gc=False):
    """Messages that follow each other, accepted in one incarnation."""

    incarnation: Number
    time: Number
    """The outpost's clock when it accepted them: ns since 1970."""
    sources: list[tuple[bytes, Number, Number, Number]]
    """(session, number, start, count) of clients."""
    messages: Annotated[list[bytes], Meta(min_length=1)]


_RECORD = msgpack.Decoder(Record)
_STORED = msgpack.Decoder(Stored)


def entry_key(first: int) -> bytes:
    return ENTRIES + _U64.pack(first)


def entry_counter(key: bytes) -> int:
    counter: int = _U64.unpack(key[1:])[0]
    return counter


def decode_stored(value: bytes) -> Stored:
    """Raises Malformed."""
    try:
        return _STORED.decode(value)
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"messages of the outpost: {error}") from None


def load_record(tables: Reader) -> Record | None:
    """Raises Malformed, and Unavailable for one of a later program."""
    stored = tables.get(RECORD)
    if stored is None:
        return None
    try:
        found: tuple[int, ...] = msgpack.decode(stored, type=tuple)
        if found and isinstance(found[0], int) and found[0] > FORMAT:
            raise Unavailable(f"the outpost's storage has format {found[0]}, this program knows {FORMAT}: update it")
        return _RECORD.decode(stored)
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"the outpost's record: {error}") from None


def boot(tables: Reader, identity: bytes) -> list[Op]:
    """What is to be synced before the outpost starts: the next incarnation, and at the first start who it is."""
    record = load_record(tables) or Record(FORMAT, identity)
    record.incarnation += 1
    return [Put(RECORD, msgpack.encode(record))]
