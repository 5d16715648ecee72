"""Snapshots between replicas: each announces what it keeps, and fetches what it lacks.

Given: the names in use here, and their snapshots (`Kept`). Promised: a replica whose base is beyond its snapshot of a
name gets another's, and so does one whose truncation waits for a name that no program of its own uses. They come one
after the other, a piece at a time, beside all other work: nothing waits for them. Each piece is made durable when it
comes, so that a transfer continues after a change of configuration or a restart.

In each configuration every replica that has names in use sends its table, and again when that changes. A replica
fetches from the best holder, each piece after the one before is on its disk.
"""

from typing import Annotated, Protocol
from zlib import crc32

from msgspec import DecodeError, Struct, msgpack
from msgspec import Meta as Bounds
from msgspec.structs import replace

from reconvene.corel.after_sync import FetchPiece, KeepFetched
from reconvene.corel.keeping.layout import piece_key
from reconvene.corel.keeping.snapshot_rows import (
    MOST_NAMES,
    PIECE_BYTES,
    VERSION,
    Meta,
    Use,
    check_name,
    deleting,
    put_meta,
)
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.messages import SNAPSHOT
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.queue import Queue
from reconvene.errors import Malformed, Rejected
from reconvene.ids import Service
from reconvene.storage.tables import Put

__all__ = ["Fetch", "Kept", "Piece", "Row", "Table", "Transfer", "decode_message"]

_Number = Annotated[int, Bounds(ge=-1, lt=1 << 62)]


class Row(Struct, array_like=True, frozen=True):
    """A name in use at a replica, with its snapshot there."""

    name: str
    here: bool
    """By a program of that site."""
    start: Annotated[int, Bounds(ge=0, lt=1 << 62)]
    """Where there is no snapshot, a machine of this name needs the log from here on."""
    version: int
    position: _Number
    """-1: it has none."""
    size: _Number
    checksum: int


class Ask(Struct, tag=1, array_like=True, frozen=True):
    """From a program before snapshots had names: it asks which replicas have one, and waits for everyone's answer.
    The answer is that there is none, since that program could not know of which machine it is."""

    least: int
    position: int
    checksum: int


class Offer(Struct, tag=2, array_like=True, frozen=True):
    """The answer to that."""

    to: str
    version: int
    position: int
    size: int
    checksum: int


class Table(Struct, tag=5, array_like=True, frozen=True):
    """All names in use at the sender."""

    rows: Annotated[list[Row], Bounds(max_length=MOST_NAMES)]


class Fetch(Struct, tag=6, array_like=True, frozen=True):
    to: str
    name: str
    position: _Number
    checksum: int
    piece: _Number


class Piece(Struct, tag=7, array_like=True, frozen=True):
    to: str
    name: str
    position: _Number
    piece: _Number
    data: bytes | None
    """None: the sender has it no more."""


class Dropped(Struct, tag=8, array_like=True, frozen=True):
    """An operator says that this name is not in use any more."""

    name: str


class _OldFetch(Struct, tag=3, array_like=True, frozen=True):
    """Of a program before names, to another of those."""


class _OldPiece(Struct, tag=4, array_like=True, frozen=True):
    """The same."""


_Message = Ask | Offer | Table | Fetch | Piece | Dropped | _OldFetch | _OldPiece
_MESSAGES: msgpack.Decoder[_Message] = msgpack.Decoder(_Message)


def decode_message(payload: bytes) -> _Message:
    """Raises Malformed."""
    try:
        message = _MESSAGES.decode(memoryview(payload)[1:])
        for row in message.rows if isinstance(message, Table) else ():
            check_name(row.name)
    except (DecodeError, ValueError, RecursionError, Rejected) as error:
        raise Malformed(f"a message about snapshots: {error}") from None
    return message


class Kept(Protocol):
    """What a replica keeps (`snapshots.Snapshots`)."""

    uses: dict[str, Use]
    newest: dict[str, Meta]

    def cover(self, name: str) -> int: ...
    def lacks(self, name: str) -> bool: ...
    def room(self, name: str) -> int: ...
    def rows(self) -> list[Row]: ...
    def piece(self, name: str, position: int, piece: int) -> bytes: ...
    def learn(self, name: str, start: int) -> None: ...
    def forget(self, name: str) -> None: ...
    def keep(self, meta: Meta) -> None: ...
    def damaged(self, name: str) -> None: ...


class Transfer:
    def __init__(self, name: str, kept: Kept, queue: Queue, writes: Writes, outgoing: Outgoing) -> None:
        self._name = name
        self._kept = kept
        self._queue = queue
        self._writes = writes
        self._outgoing = outgoing
        self._part: Meta | None = None
        """The snapshot that is being received, as far as it has come."""
        self._finishing: Meta | None = None
        """The same, whole, but not on stable storage."""
        self._members: tuple[str, ...] = ()
        self._opening = 0
        """How often the replicas have met anew."""
        self._tables: dict[str, dict[str, Row]] = {}
        """By member: what it keeps."""
        self._holder: str | None = None
        self._refused: set[tuple[str, Row]] = set()
        """Snapshots that turned out to be wrong, or gone, in this configuration."""

    def resume(self, part: Meta) -> bool:
        """Continues this one after a restart. Returns False where another one is under way."""
        if self._part is None:
            self._part = part
            return True
        return False

    def finishing(self, name: str) -> int:
        """The position of the one that has come whole; -1: there is none."""
        return -1 if self._finishing is None or self._finishing.name != name else self._finishing.position

    def status(self) -> dict[str, object]:
        part = self._part
        if part is None:
            return {}
        received = min(part.pieces * PIECE_BYTES, part.size)
        return {
            "receiving": {
                "name": part.name, "position": part.position, "received": received, "bytes": part.size,
                "from": self._holder,
            }
        }  # fmt: skip

    @property
    def fetching(self) -> bool:
        """A snapshot is being received."""
        return self._holder is not None

    # -- what changes here

    def make_way(self, name: str, position: int) -> None:
        """One is saved here: a part of another that would lie in its place is deleted."""
        if self._part is not None and (self._part.name, self._part.position) == (name, position):
            self._drop_part()

    def forget(self, name: str) -> None:
        if self._part is not None and self._part.name == name:
            self._drop_part()
        if self._finishing is not None and self._finishing.name == name:
            self._writes.ops += deleting(self._finishing)
            self._finishing = None

    def _drop_part(self) -> None:
        if self._part is not None:
            self._writes.ops += deleting(self._part)
        self._part = self._holder = None

    # -- with others

    def open(self, members: tuple[str, ...]) -> None:
        self._members = members
        if self._kept.uses:
            self.announce()

    def close(self) -> None:
        self._members = ()
        self._opening += 1
        self._refused.clear()
        self._tables.clear()
        self._holder = None

    def announce(self) -> None:
        if self._members:
            self._send(Table(self._kept.rows()))

    def announce_dropped(self, name: str) -> None:
        if self._members:
            self._send(Dropped(name))
            self.announce()

    def _send(self, message: _Message) -> None:
        # In the agreed order a table comes after what opened the configuration, at everyone, and the newest one last.
        # Pieces need no place in the order, nor should they make anything wait for one.
        service = Service.FIFO if isinstance(message, Fetch | Piece) else Service.AGREED
        self._outgoing.messages.append((service, bytes((SNAPSHOT,)) + msgpack.encode(message)))

    def receive(self, sender: str, payload: bytes) -> None:
        """Raises Malformed."""
        message = decode_message(payload)
        if sender not in self._members:
            return
        match message:
            case Table(rows=rows):
                self._learn(sender, rows)
            case Dropped(name=name) if sender != self._name:
                self._kept.forget(name)
            case Fetch(to=to) if to == self._name:
                self._send_piece(sender, message)
            case Piece(to=to) if to == self._name:
                self._take(sender, message)
            case Ask() if sender != self._name:
                self._send(Offer(sender, 1, -1, 0, 0))
            case _:
                pass  # to another replica, or from a program before names

    def _learn(self, sender: str, rows: list[Row]) -> None:
        if sender == self._name:
            return
        self._tables[sender] = {row.name: row for row in rows}
        for row in rows:
            if row.here:
                self._kept.learn(row.name, row.start)
        self.reconsider()

    @property
    def has_newer(self) -> bool:
        uses = self._kept.uses
        if self._holder is not None or not uses:
            return False
        return any(
            row.position > self._kept.cover(row.name) and not uses[row.name].here
            for table in self._tables.values()
            for row in table.values()
            if row.name in uses
        )

    def reconsider(self, held: bool = False) -> None:
        """Begins or ends a transfer, as is wanted now. `held`: truncation waits for snapshots."""
        part, kept = self._part, self._kept
        if part is not None and (part.name not in kept.uses or part.position <= kept.cover(part.name)):
            self._drop_part()
        if self._holder is not None or self._finishing is not None:
            return
        found = max(self._sound(held), key=lambda found: found[:2], default=None)
        if found is not None:
            (resumes, _), _, name, row = found
            self._holder = name
            if not resumes:
                self._begin(row)
            self._fetch()

    def _sound(self, held: bool) -> list[tuple[tuple[bool, bool], int, str, Row]]:
        """((it continues the part, it is lacking), position, holder, row) of all that are worth fetching."""
        part, kept, base = self._part, self._kept, self._queue.base.position
        found = []
        for holder in sorted(self._tables, reverse=True):
            for row in self._tables[holder].values():
                if row.name not in kept.uses or row.version > VERSION or (holder, row) in self._refused:
                    continue
                lacks = kept.lacks(row.name)
                wanted = lacks or (held and not kept.uses[row.name].here)
                least = base if lacks else kept.cover(row.name) + 1
                if wanted and row.position >= least and 0 <= row.size <= kept.room(row.name):
                    resumes = part is not None and (part.name, part.position, part.checksum, part.size) == (
                        row.name, row.position, row.checksum, row.size
                    )  # fmt: skip
                    found.append(((resumes, lacks), row.position, holder, row))
        return found

    def _begin(self, row: Row) -> None:
        if self._part is not None:
            self._writes.ops += deleting(self._part)
        self._part = Meta(row.version, row.position, row.size, row.checksum, 0, 0, name=row.name)
        self._writes.ops.append(put_meta(self._part))

    def fetch(self, opening: int) -> None:
        """The last piece is on stable storage."""
        if opening == self._opening:
            self._fetch()

    def _fetch(self) -> None:
        """Asks for the next piece, or ends."""
        part = self._part
        if part is None or self._holder is None:
            return
        if part.pieces * PIECE_BYTES >= part.size:
            self._complete(part)
        else:
            self._send(Fetch(self._holder, part.name, part.position, part.checksum, part.pieces))

    def _send_piece(self, sender: str, message: Fetch) -> None:
        newest = self._kept.newest.get(message.name)
        data = None
        if newest is not None and (newest.position, newest.checksum) == (message.position, message.checksum):
            try:
                data = self._kept.piece(message.name, message.position, message.piece)
            except Malformed:
                self._kept.damaged(message.name)
        self._send(Piece(sender, message.name, message.position, message.piece, data))

    def _take(self, sender: str, message: Piece) -> None:
        part = self._part
        if (
            part is None
            or sender != self._holder
            or (message.name, message.position, message.piece) != (part.name, part.position, part.pieces)
        ):
            return
        expected = min(PIECE_BYTES, part.size - part.pieces * PIECE_BYTES)
        if message.data is None or len(message.data) != expected:
            self._refuse()
            return
        running = crc32(message.data, part.running)
        self._part = replace(part, pieces=part.pieces + 1, running=running)
        self._writes.ops += (
            Put(piece_key(part.name, part.position, part.pieces), message.data),
            put_meta(self._part),
        )
        self._writes.after(FetchPiece(self._opening))

    def _refuse(self) -> None:
        """The holder has it no more, or what it sends is wrong: another holder is asked."""
        part, holder = self._part, self._holder
        assert part is not None, "something is under way"
        assert holder is not None, "it has a holder"
        row = self._tables.get(holder, {}).get(part.name)
        if row is not None and (row.position, row.checksum) == (part.position, part.checksum):
            self._refused.add((holder, row))
        self._holder = None
        self.reconsider()

    def _complete(self, part: Meta) -> None:
        if part.running != part.checksum:
            self._refuse_all(part)
            return
        whole = replace(part, whole=True)
        self._part = self._holder = None
        self._finishing = whole
        self._writes.ops.append(put_meta(whole))
        self._writes.after(KeepFetched())

    def _refuse_all(self, part: Meta) -> None:
        """Some of its pieces are wrong, and may have come from several holders: it begins anew, from another one."""
        holder = self._holder or ""
        self._drop_part()
        row = self._tables.get(holder, {}).get(part.name)
        if row is not None:
            self._refused.add((holder, row))
        self.reconsider()

    def finished(self) -> None:
        """The one that has come whole is on stable storage."""
        whole, self._finishing = self._finishing, None
        if whole is not None:  # else the name was dropped meanwhile
            self._kept.keep(whole)
            self.announce()
            self.reconsider()
