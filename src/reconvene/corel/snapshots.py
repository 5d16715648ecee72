"""Snapshots of an application's state machine: kept in pieces beside the log, and sent to replicas that lack one.

Given: a state, as bytes, with the position up to which everything is in it. Promised: the newest whole snapshot is
kept, and an older one until the newer is whole; what is whole is what was saved, by its checksum. A replica whose
base is beyond its snapshot gets another's, a piece at a time, beside all other work: nothing waits for it. Pieces are
durable as they come, so that a transfer goes on after a change of configuration or a restart where it was.

In each configuration a replica that lacks one asks everyone; everyone answers; it fetches from the best, each piece
after the one before is on its disk.
"""

from collections.abc import Callable, Iterator
from zlib import crc32

from msgspec import DecodeError, Struct, msgpack
from msgspec.structs import replace

from reconvene.corel.events import SnapshotKept
from reconvene.corel.home import Home
from reconvene.corel.layout import SNAPSHOTS, piece_key, snapshot_key, table_end
from reconvene.corel.messages import SNAPSHOT
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import Service
from reconvene.storage.tables import Clear, Op, Put, Reader

__all__ = ["PIECE_BYTES", "VERSION", "Meta", "Snapshots", "decode_meta", "stored_metas"]

VERSION = 1
"""Of how snapshots are kept and sent. A newer one is refused, an older one migrated (`corel.migrate`)."""
PIECE_BYTES = 64 << 10
_PIECES_A_TURN = 16
"""That a saved snapshot is written by."""


class Meta(Struct, array_like=True, frozen=True):
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


class Ask(Struct, tag=1, array_like=True, frozen=True):
    """Who has a whole snapshot of this position or a later one?"""

    least: int
    position: int
    checksum: int
    """Best this one, of which the asker has a part."""


class Offer(Struct, tag=2, array_like=True, frozen=True):
    """To one site, or to everyone ("")."""

    to: str
    version: int
    position: int
    """-1: it has none."""
    size: int
    checksum: int


class Fetch(Struct, tag=3, array_like=True, frozen=True):
    to: str
    position: int
    checksum: int
    piece: int


class Piece(Struct, tag=4, array_like=True, frozen=True):
    to: str
    position: int
    piece: int
    data: bytes | None
    """None: the sender has it no more."""


_MESSAGES: msgpack.Decoder[Ask | Offer | Fetch | Piece] = msgpack.Decoder(Ask | Offer | Fetch | Piece)
_META = msgpack.Decoder(Meta)


class _Saving:
    """A snapshot on its way to stable storage."""

    __slots__ = ("data", "meta", "then")

    def __init__(self, meta: Meta, data: bytes, then: Callable[[], None]) -> None:
        self.meta = meta
        self.data = data
        self.then = then


class Snapshots:
    def __init__(self, home: Home) -> None:
        """Raises Malformed, and Unavailable where a newer program wrote them."""
        self.home = home
        self.newest: Meta | None = None
        """The newest whole one on stable storage."""
        self._part: Meta | None = None
        """Of another's: what has come so far."""
        self._finishing: Meta | None = None
        """The same, whole, but not on stable storage."""
        self._saving: _Saving | None = None
        self._members: tuple[str, ...] = ()
        self._round = 0
        self._offers: dict[str, Offer] | None = None
        """While it asks."""
        self._holder: str | None = None
        self._refused: set[str] = set()
        """Who sent something wrong in this configuration."""
        self._load()

    def _load(self) -> None:
        for meta in stored_metas(self.home.tables):
            if meta.whole:
                if self.newest is not None:
                    self._delete(self.newest)
                self.newest = meta
            elif meta.saved or self._part is not None:
                self._delete(meta)  # the application that was about to save it is gone
            else:
                self._part = meta

    def _delete(self, meta: Meta) -> None:
        self.home.durable.ops += _deleting(meta)

    # -- what there is

    @property
    def position(self) -> int | None:
        return None if self.newest is None else self.newest.position

    @property
    def lacks(self) -> bool:
        """What was truncated here is in no snapshot here."""
        base = self.home.queue.base.position
        # What is on its way to the disk counts: another of the same position would lie in its place.
        sure = [self.newest, self._finishing, None if self._saving is None else self._saving.meta]
        return base > 0 and all(meta is None or meta.position < base for meta in sure)

    def read(self, offset: int, size: int) -> bytes:
        """Of the newest. Raises Unavailable where there is none, Malformed where storage lacks it."""
        if self.newest is None:
            raise Unavailable("no snapshot is kept here")
        position, end = self.newest.position, min(offset + size, self.newest.size)
        found = bytearray()
        while offset < end:
            piece = self._piece(position, offset // PIECE_BYTES)
            start = offset % PIECE_BYTES
            taken = piece[start : start + end - offset]
            found += taken
            offset += len(taken)
            if not taken:
                raise Malformed(f"piece {offset // PIECE_BYTES} of the snapshot of {position} is too short")
        return bytes(found)

    def _piece(self, position: int, piece: int) -> bytes:
        found = self.home.tables.get(piece_key(position, piece))
        if found is None:
            raise Malformed(f"the log's storage lacks piece {piece} of the snapshot of {position}")
        return found

    def status(self) -> dict[str, object]:
        """JSON-able."""
        found: dict[str, object] = {"lacks": self.lacks}
        if self.newest is not None:
            found |= {"position": self.newest.position, "bytes": self.newest.size}
        if self._part is not None:
            part = self._part
            received = min(part.pieces * PIECE_BYTES, part.size)
            found["receiving"] = {
                "position": part.position, "received": received, "bytes": part.size, "from": self._holder,
            }  # fmt: skip
        return found

    # -- from the application

    def save(self, position: int, data: bytes, then: Callable[[], None]) -> None:
        """`then` is called once it is on stable storage. Raises Rejected, and Unavailable while another is saved."""
        queue, most = self.home.queue, self.home.limits.snapshot_bytes
        if len(data) > most:
            raise Rejected(f"a snapshot of {len(data)} bytes is larger than {most}")
        if not queue.base.position <= position <= queue.green:
            raise Rejected(f"a snapshot of {position}: expected one from {queue.base.position} to {queue.green}")
        for kept in (self.newest, self._finishing):
            if kept is not None and position <= kept.position:
                raise Rejected(f"a snapshot of {position}: one of {kept.position} is kept already")
        if self._saving is not None:
            raise Unavailable(f"a snapshot of {self._saving.meta.position} is being saved")
        if self._part is not None and self._part.position == position:
            self._drop_part()
        meta = Meta(VERSION, position, len(data), crc32(data), 0, 0, saved=True)
        self._saving = _Saving(meta, data, then)
        self.home.durable.ops.append(Put(snapshot_key(position), msgpack.encode(meta)))

    def step(self) -> bool:
        """Writes what a turn takes of a snapshot that is being saved; tells whether there is more."""
        saving = self._saving
        if saving is None or saving.meta.whole:
            return False
        meta, ops = saving.meta, self.home.durable.ops
        count = -(-meta.size // PIECE_BYTES)
        end = min(count, meta.pieces + _PIECES_A_TURN)
        for piece in range(meta.pieces, end):
            start = piece * PIECE_BYTES
            ops.append(Put(piece_key(meta.position, piece), saving.data[start : start + PIECE_BYTES]))
        saving.meta = meta = replace(meta, pieces=end, whole=end == count, running=meta.checksum * (end == count))
        if meta.whole:
            ops.append(Put(snapshot_key(meta.position), msgpack.encode(meta)))
            self.home.durable.after(self._saved)
        return not meta.whole

    def _saved(self) -> None:
        saving, self._saving = self._saving, None
        assert saving is not None, "one is saved at a time"
        self._keep(saving.meta)
        saving.then()
        if self._members:
            self._send(_offer("", saving.meta))  # someone may be waiting for one

    def _keep(self, meta: Meta) -> None:
        """It is whole, on stable storage: the one before it goes."""
        if self.newest is not None and self.newest.position > meta.position:
            self._delete(meta)
            return
        if self.newest is not None:
            self._delete(self.newest)
        self.newest = meta
        if self._part is not None and not self.lacks:
            self._drop_part()
        self.home.tell(SnapshotKept(meta.position))

    def _drop_part(self) -> None:
        if self._part is not None:
            self._delete(self._part)
        self._part = self._offers = self._holder = None

    # -- between replicas

    def open(self, members: tuple[str, ...]) -> None:
        """A configuration is open for the log, in which these take part."""
        self._members = members
        self._ask()

    def close(self) -> None:
        self._members = ()
        self._round += 1
        self._refused.clear()
        self._offers = self._holder = None

    def _ask(self) -> None:
        self._offers = self._holder = None
        if self._part is not None and not self.lacks:
            self._drop_part()
        if not self.lacks or not self._members:
            return
        part = self._part
        self._offers = {}
        least = self.home.queue.base.position
        self._send(Ask(least, *((-1, 0) if part is None else (part.position, part.checksum))))

    def _send(self, message: Ask | Offer | Fetch | Piece) -> None:
        # In the agreed order a question comes after what opened the configuration, at everyone; nothing else of this
        # needs a place in the order, nor should it make anything wait for one.
        service = Service.AGREED if isinstance(message, Ask) else Service.FIFO
        self.home.outgoing.append((service, bytes((SNAPSHOT,)) + msgpack.encode(message)))

    def receive(self, sender: str, payload: bytes) -> None:
        """Raises Malformed."""
        try:
            message = _MESSAGES.decode(memoryview(payload)[1:])
        except (DecodeError, ValueError, RecursionError) as error:
            raise Malformed(f"a message about snapshots: {error}") from None
        if sender not in self._members:
            return
        match message:
            case Ask():
                self._answer(sender, message)
            case Offer(to=to):
                if to == self.home.name:
                    self._offered(sender, message)
                elif to == "" and self.lacks and self._holder is None and self._offers is None:
                    self._ask()
            case Fetch(to=to):
                if to == self.home.name:
                    self._hand_over(sender, message)
            case Piece(to=to):
                if to == self.home.name:
                    self._take(sender, message)

    def _answer(self, sender: str, message: Ask) -> None:
        newest = self.newest
        if newest is None or newest.position < message.least:
            self._send(Offer(sender, VERSION, -1, 0, 0))
        else:
            self._send(_offer(sender, newest))

    def _offered(self, sender: str, message: Offer) -> None:
        if self._offers is None:
            return
        self._offers[sender] = message
        if any(name not in self._offers for name in self._members):
            return
        offers, self._offers = self._offers, None
        most, part = self.home.limits.snapshot_bytes, self._part
        sound = [
            (
                part is not None and (offer.position, offer.checksum) == (part.position, part.checksum),
                offer.position,
                name,
            )
            for name, offer in sorted(offers.items(), reverse=True)
            if name not in self._refused
            and offer.version <= VERSION
            and offer.position >= 0
            and 0 <= offer.size <= most
        ]
        if not sound or not self.lacks:
            return
        resumes, position, name = max(sound, key=lambda found: found[:2])
        if position < self.home.queue.base.position:
            return
        self._holder = name
        if not resumes:
            self._begin(offers[name])
        self._fetch()

    def _begin(self, offer: Offer) -> None:
        if self._part is not None:
            self._delete(self._part)
        self._part = Meta(offer.version, offer.position, offer.size, offer.checksum, 0, 0)
        self.home.durable.ops.append(Put(snapshot_key(offer.position), msgpack.encode(self._part)))

    def _fetch(self) -> None:
        """The next piece, or the end."""
        part = self._part
        if part is None or self._holder is None:
            return
        if part.pieces * PIECE_BYTES >= part.size:
            self._complete(part)
        else:
            self._send(Fetch(self._holder, part.position, part.checksum, part.pieces))

    def _hand_over(self, sender: str, message: Fetch) -> None:
        newest = self.newest
        data = None
        if newest is not None and (newest.position, newest.checksum) == (message.position, message.checksum):
            try:
                data = self._piece(message.position, message.piece)
            except Malformed:
                self.newest = None  # nobody gets it from here
        self._send(Piece(sender, message.position, message.piece, data))

    def _take(self, sender: str, message: Piece) -> None:
        part = self._part
        if (
            part is None
            or sender != self._holder
            or (message.position, message.piece) != (part.position, part.pieces)
        ):
            return
        expected = min(PIECE_BYTES, part.size - part.pieces * PIECE_BYTES)
        if message.data is None or len(message.data) != expected:
            self._ask()
            return
        running = crc32(message.data, part.running)
        self._part = replace(part, pieces=part.pieces + 1, running=running)
        self.home.durable.ops += (
            Put(piece_key(part.position, part.pieces), message.data),
            Put(snapshot_key(part.position), msgpack.encode(self._part)),
        )
        round_ = self._round
        self.home.durable.after(lambda: self._fetch() if round_ == self._round else None)

    def _complete(self, part: Meta) -> None:
        if part.running != part.checksum:
            self._refused.add(self._holder or "")
            self._drop_part()
            self._ask()
            return
        whole = replace(part, whole=True)
        self._part = self._holder = None
        self._finishing = whole
        self.home.durable.ops.append(Put(snapshot_key(part.position), msgpack.encode(whole)))
        self.home.durable.after(self._finished)

    def _finished(self) -> None:
        whole, self._finishing = self._finishing, None
        assert whole is not None, "one is received at a time"
        self._keep(whole)


def _offer(to: str, meta: Meta) -> Offer:
    return Offer(to, meta.version, meta.position, meta.size, meta.checksum)


def _deleting(meta: Meta) -> list[Op]:
    return [
        Put(snapshot_key(meta.position), None),
        Clear(piece_key(meta.position, 0), piece_key(meta.position + 1, 0)),
    ]


def decode_meta(stored: bytes) -> Meta:
    """Raises Malformed, and Unavailable where a newer program wrote it."""
    try:
        version = msgpack.decode(stored, type=list[object])[0]
        if not isinstance(version, int) or version > VERSION:
            raise Unavailable(
                f"a snapshot was written by a newer program: version {version}; this one knows up to {VERSION}"
            )
        return _META.decode(stored)
    except (DecodeError, ValueError, IndexError) as error:
        raise Malformed(f"what is known of a snapshot: {error}") from None


def stored_metas(tables: Reader) -> Iterator[Meta]:
    """By position. Raises as `decode_meta`."""
    for _, value in tables.scan(SNAPSHOTS, table_end(SNAPSHOTS)):
        yield decode_meta(value)
