"""How a replica lies on stable storage: which keys there are, and what is under them.

    RECORD                        the durable variables (`Record`)
    BASE                          what was truncated, folded into one value (`Base`)
    BODIES     author, first      a batch's body; written once, never moved
    GREEN      position           a batch in its place in the total order (`Place`)
    YELLOW     number             a batch of the yellow zone; numbers grow along it
    RED        timestamp          a batch of the red part, which is in the order of timestamps
    ACCEPTED   author, first      a batch of this replica's own that has no timestamp yet
    SESSIONS   session            what is green of a client session …
    FOLDED     session            … and what of it was truncated
    VOIDS      position           of a green batch: which of its messages count for nothing
    NAMES      name               a state machine's name that is in use (`snapshot_rows.Use`)
    SNAPSHOTS  name, position     what is known of a state machine's snapshot (`snapshot_rows.Meta`)
    PIECES     name, position, index    a piece of it
    HOLDS      lowest, position   a commit, under the lowest position that it names (`holds.Hold`)
    LINE                          the green line (`Line`)
    FOLLOWING                     of a follower: which log it follows (`following.follower.Following`)

The first byte of a key is the table. A batch changes its colour by moving the small value; its body never moves.
"""

from struct import Struct as Layout
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, field, msgpack

from reconvene.corel.batch import BatchId, Number, Timestamp
from reconvene.corel.replicas.sets import MAX_NUMBER, ReplicaSet, check_replicas
from reconvene.errors import Malformed, Unavailable
from reconvene.ids import UNNAMED
from reconvene.voting import Kept

__all__ = [
    "ACCEPTED", "BASE", "BODIES", "FOLDED", "FOLLOWING", "FORMAT", "GREEN", "HOLDS", "LINE", "NAMES", "PIECES",
    "RECORD", "RED", "SESSIONS", "SNAPSHOTS", "VOIDS", "YELLOW", "Base", "Following", "Line", "Place", "Record",
    "Seen",
    "accepted_key", "batch_of", "body_key", "decode_base", "decode_line", "decode_place", "decode_record",
    "encode_place", "green_key", "name_key", "piece_key", "position_of", "red_key", "session_key", "snapshot_key",
    "table_end", "timestamp_of", "void_key", "yellow_key",
]  # fmt: skip

FORMAT = 3
"""Of this layout. A newer one is refused, an older one migrated (`corel.migrate`)."""

RECORD = b"\x01"
BODIES = b"\x02"
GREEN = b"\x03"
YELLOW = b"\x04"
RED = b"\x05"
ACCEPTED = b"\x06"
BASE = b"\x07"
SESSIONS = b"\x08"
SNAPSHOTS = b"\x09"
LINE = b"\x0a"
FOLDED = b"\x0b"
VOIDS = b"\x0c"
PIECES = b"\x0d"
HOLDS = b"\x0e"
NAMES = b"\x0f"
FOLLOWING = b"\x10"

Author = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]

_U64 = Layout(">Q")
_PIECE = Layout(">QI")
_BODY = Layout(">HQ")
_PLACE = Layout(">HQIB")


def table_end(table: bytes) -> bytes:
    """Above every key of the table."""
    return bytes((table[0] + 1,))


def body_key(batch: BatchId) -> bytes:
    return BODIES + _BODY.pack(*batch)


def green_key(position: int) -> bytes:
    return GREEN + _U64.pack(position)


def position_of(key: bytes) -> int:
    position: int = _U64.unpack_from(key, 1)[0]
    return position


def yellow_key(number: int) -> bytes:
    return YELLOW + _U64.pack(number)


def red_key(timestamp: Timestamp) -> bytes:
    return RED + b"".join(map(_U64.pack, timestamp))


def timestamp_of(key: bytes) -> Timestamp:
    """Of a red batch's key. Raises Malformed."""
    if len(key) % _U64.size != 1:
        raise Malformed(f"a red batch under {key.hex()}")
    return tuple(number for (number,) in _U64.iter_unpack(memoryview(key)[1:]))


def batch_of(key: bytes) -> BatchId:
    """Of the key of a body, or of an accepted batch. Raises Malformed."""
    if len(key) != 1 + _BODY.size:
        raise Malformed(f"a batch under {key.hex()}")
    return BatchId(*_BODY.unpack_from(key, 1))


def accepted_key(batch: BatchId) -> bytes:
    return ACCEPTED + _BODY.pack(*batch)


def session_key(table: bytes, session: bytes) -> bytes:
    return table + session


def void_key(position: int) -> bytes:
    return VOIDS + _U64.pack(position)


def name_key(name: str) -> bytes:
    return NAMES + name.encode()


def snapshot_key(name: str, position: int) -> bytes:
    return SNAPSHOTS + _named(name) + _U64.pack(position)


def piece_key(name: str, position: int, index: int) -> bytes:
    return PIECES + _named(name) + _PIECE.pack(position, index)


def _named(name: str) -> bytes:
    """The unnamed snapshot lies where format 1 had it, so that no piece has to be moved. No position begins with ff,
    and no name holds a 0, so the keys of one name lie together."""
    return b"" if name == UNNAMED else b"\xff" + name.encode() + b"\x00"


class Place(Struct, frozen=True, gc=False):
    """A batch in a green, yellow or red place."""

    id: BatchId
    count: int
    timestamp: Timestamp
    marked: bool
    """It was sent more than once, so that it may be had elsewhere under another timestamp."""


def encode_place(place: Place) -> bytes:
    return _PLACE.pack(*place.id, place.count, place.marked) + b"".join(map(_U64.pack, place.timestamp))


def decode_place(value: bytes) -> Place:
    rest = len(value) - _PLACE.size
    if rest < 0 or rest % _U64.size:
        raise Malformed(f"a place in the log of {len(value)} bytes")
    author, first, count, marked = _PLACE.unpack_from(value)
    timestamp = tuple(number for (number,) in _U64.iter_unpack(memoryview(value)[_PLACE.size :]))
    return Place(BatchId(author, first), count, timestamp, bool(marked))


class Seen(Struct, array_like=True, frozen=True):
    """What another replica reported last of its own starts."""

    identity: bytes
    incarnation: Number
    token: Number
    """Drawn at that start."""
    attempted: Number
    """The last primary component that it had attempted then."""


class Record(Struct, kw_only=True):
    """A replica's durable variables; the paper's names where it has them."""

    format: int = FORMAT
    identity: bytes
    """Of this storage: drawn when it was made, so that a replica that lost its storage is not taken for itself."""
    last_attempted_primary: int = 0
    last_committed_primary: int = 0
    attempt_conf: str = ""
    """The configuration of the last attempt, and its members …"""
    attempt_members: tuple[str, ...] = ()
    commit_conf: str = ""
    """… and the last commit of its own, for the trace."""
    commit_members: tuple[str, ...] = ()
    committed_here: int = 0
    """The last primary component that it committed to itself; others it knows from recovery."""
    heard_primary: int = 0
    """The last primary component that is known to a replica from which it took green messages. Until it knows of that
    component itself, its green line may be beyond what its yellow zone says."""
    replicas: ReplicaSet
    """As of the green line."""
    forced: bool = False
    """The set was last changed by force."""
    outcast: bool = False
    """It was removed by force: what it holds may not be the log's any more, and counts for nothing."""
    admitted: bool = True
    """This storage counts for a quorum. An empty one does not: it waits until the log is begun with it, or until it
    has recovered together with a quorum of others."""
    replaces: bool = False
    """An operator has said that this storage takes the place of one that is lost: it wants another number."""
    identities: dict[int, bytes] = field(default_factory=dict)
    """By replica number: the storage that was seen under it."""
    names: dict[int, str] = field(default_factory=dict)
    """By replica number: the site's name, also of former replicas."""
    boots: dict[int, int] = field(default_factory=dict)
    """By incarnation: the random token of each start of this storage, of the last ones."""
    seen: dict[int, Seen] = field(default_factory=dict)
    """By replica number: what others reported of their starts."""
    behind: str = ""
    """Why this storage is older than what others know of it, if it is: then it takes no part any more."""
    kept: Kept | None = None
    """The sessions of dynamic voting that it knows, under every kind of quorum. None: an older program made it."""


class Base(Struct, kw_only=True):
    """Everything green below `position`, folded together. Its bodies are gone."""

    position: Number = 0
    last_green: dict[Author, Number] = field(default_factory=dict)
    """By author: the counter of its last message below."""
    replicas: ReplicaSet
    time: int = 0
    """The highest author's clock below."""
    size: int = 0
    """Of the bodies below, in bytes."""
    names: dict[int, str] = field(default_factory=dict)
    """By number: the names of all replicas that there were below."""


class Following(Struct, array_like=True):
    """What a follower stores of the log that it follows."""

    origin: str = ""
    """The cluster whose log it is; empty: nothing of it has come yet."""


class Line(Struct, array_like=True, frozen=True):
    green: int
    last_green: dict[int, int]
    """By author: the counter of its last green message."""
    size: int = 0
    """Of all green bodies, truncated ones too, in bytes."""


def decode_line(stored: bytes) -> Line:
    try:
        return msgpack.decode(stored, type=Line)
    except (DecodeError, ValueError) as error:
        raise Malformed(f"the log's green line: {error}") from None


def decode_record(stored: bytes) -> Record:
    """Raises Unavailable where it was written by a newer program, Malformed where it is none."""
    try:
        found = msgpack.decode(stored, type=dict[str, object])
        number = found.get("format")
        if not isinstance(number, int) or number > FORMAT:
            raise Unavailable(
                f"the log was written by a newer program: format {number}; this one knows up to {FORMAT}"
            )
        return msgpack.decode(stored, type=Record)
    except (DecodeError, ValueError) as error:
        raise Malformed(f"the log's record: {error}") from None


def decode_base(stored: bytes) -> Base:
    """Raises Malformed, also where it comes from another replica and is nothing that storage could hold."""
    try:
        base = msgpack.decode(stored, type=Base)
    except (DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"the log's base: {error}") from None
    check_replicas(base.replicas)
    return base
