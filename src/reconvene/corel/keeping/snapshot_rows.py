"""What a replica stores of snapshots: which names are in use, and what is known of each snapshot."""

from collections.abc import Iterator

from msgspec import DecodeError, Struct, msgpack

from reconvene.corel.keeping.layout import NAMES, SNAPSHOTS, name_key, piece_key, snapshot_key, table_end
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import UNNAMED
from reconvene.storage.tables import Clear, Op, Put, Reader

__all__ = [
    "MOST_NAMES", "NAME_BYTES", "PIECE_BYTES", "VERSION", "Meta", "Use", "check_name", "decode_meta", "deleting",
    "put_meta", "put_use", "stored_metas", "stored_uses",
]  # fmt: skip

VERSION = 2
"""Of how snapshots are kept and sent. A newer one is refused, an older one migrated (`corel.migrate`)."""
PIECE_BYTES = 64 << 10
MOST_NAMES = 64
"""Names in use at one replica, those that it knows from others included."""
NAME_BYTES = 128


class Meta(Struct, array_like=True, frozen=True):
    """Of one snapshot, whole or on its way."""

    version: int
    position: int
    """Everything below it is in the state."""
    size: int
    checksum: int
    """CRC-32 of all of it."""
    pieces: int
    """How many there are so far, from the first on …"""
    running: int
    """… and the checksum of those."""
    whole: bool = False
    saved: bool = False
    """By this replica's own application; else it comes from another."""
    name: str = UNNAMED


class Use(Struct, array_like=True, frozen=True):
    """A state machine of this name is in use: nothing is truncated that it needs to start."""

    version: int
    name: str
    start: int
    """While there is no snapshot: the log is needed from here on."""
    here: bool
    """By a program of this site; else it is known from another replica."""


_META = msgpack.Decoder(Meta)
_USE = msgpack.Decoder(Use)


def check_name(name: object) -> str:
    """Raises Rejected."""
    if not isinstance(name, str):
        raise Rejected(f"a snapshot's name: expected text, not {type(name).__name__}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise Rejected("a snapshot's name: expected text, it has a lone surrogate") from None
    if not 0 < size <= NAME_BYTES or any(ord(char) < 32 or ord(char) == 127 for char in name):
        shown = name if size <= NAME_BYTES else f"{name[:16]}…"
        raise Rejected(
            f"a snapshot's name: expected 1 to {NAME_BYTES} bytes without control characters, not {shown!r}"
        )
    return name


def put_meta(meta: Meta) -> Op:
    return Put(snapshot_key(meta.name, meta.position), msgpack.encode(meta))


def put_use(use: Use) -> Op:
    return Put(name_key(use.name), msgpack.encode(use))


def deleting(meta: Meta) -> list[Op]:
    return [
        Put(snapshot_key(meta.name, meta.position), None),
        Clear(piece_key(meta.name, meta.position, 0), piece_key(meta.name, meta.position + 1, 0)),
    ]


def decode_meta(stored: bytes) -> Meta:
    """Raises Malformed, and Unavailable where a newer program wrote it."""
    try:
        _check_version(msgpack.decode(stored, type=list[object])[0])
        return _META.decode(stored)
    except (DecodeError, ValueError, IndexError) as error:
        raise Malformed(f"what is known of a snapshot: {error}") from None


def stored_metas(tables: Reader) -> Iterator[Meta]:
    """By name and position. Raises as `decode_meta`."""
    for _, value in tables.scan(SNAPSHOTS, table_end(SNAPSHOTS)):
        yield decode_meta(value)


def stored_uses(tables: Reader) -> Iterator[Use]:
    """By name. Raises Malformed, and Unavailable where a newer program wrote one."""
    for _, value in tables.scan(NAMES, table_end(NAMES)):
        try:
            _check_version(msgpack.decode(value, type=list[object])[0])
            yield _USE.decode(value)
        except (DecodeError, ValueError, IndexError) as error:
            raise Malformed(f"a name of a snapshot: {error}") from None


def _check_version(version: object) -> None:
    if not isinstance(version, int) or version > VERSION:
        raise Unavailable(
            f"a snapshot was written by a newer program: version {version}; this one knows up to {VERSION}"
        )
