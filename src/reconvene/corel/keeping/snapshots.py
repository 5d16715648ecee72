"""Snapshots of applications' state machines, one for each name, kept in pieces beside the log.

Given: a state, as bytes, with the position up to which everything is in it, and the name of the machine. Promised: of
each name the newest whole snapshot is kept, and an older one until the newer is whole; what is whole is what was
saved, by its checksum.

A name is in use from when a machine of that name is run with snapshots, or a snapshot is saved under it, until it is
dropped. Every replica that hears of it keeps it in use too. Truncation stops at `floor`: no machine of a name in use
loses what it needs to start at this replica.
"""

from zlib import crc32

from msgspec.structs import replace

from reconvene.corel.after_sync import AnnounceDropped, AnnounceSnapshots, ConfirmRequest, KeepSaved
from reconvene.corel.events import RequestStored, SnapshotKept
from reconvene.corel.keeping.layout import name_key, piece_key
from reconvene.corel.keeping.snapshot_rows import (
    MOST_NAMES,
    PIECE_BYTES,
    VERSION,
    Meta,
    Use,
    check_name,
    deleting,
    put_meta,
    put_use,
    stored_metas,
    stored_uses,
)
from reconvene.corel.keeping.snapshot_transfer import Row, Transfer
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.limits import LogLimits
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.queue import Queue
from reconvene.corel.turn_share import TurnShare
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.storage.tables import Put, Reader

__all__ = ["Snapshots"]

_PIECES_A_TURN = 16
"""Of a saved snapshot: so many pieces are written in one turn."""


class _Saving:
    """A snapshot on its way to stable storage."""

    __slots__ = ("data", "meta", "request")

    def __init__(self, meta: Meta, data: bytes, request: int) -> None:
        self.meta = meta
        self.data = data
        self.request = request


class Snapshots:
    def __init__(
        self,
        name: str,
        limits: LogLimits,
        tables: Reader,
        *,
        queue: Queue,
        writes: Writes,
        outgoing: Outgoing,
        turn: TurnShare,
    ) -> None:
        """`name`: of this site. Raises Malformed, and Unavailable where a newer program wrote them."""
        self._most_bytes = limits.snapshot_bytes
        self._tables = tables
        self._queue = queue
        self._writes = writes
        self._turn = turn
        self._requests = 0
        """The number of the application's last request."""
        self.uses: dict[str, Use] = {}
        """The names in use."""
        self.newest: dict[str, Meta] = {}
        """By name: the newest whole one on stable storage."""
        self._saving: dict[str, _Saving] = {}
        self._transfer = Transfer(name, self, queue, writes, outgoing)
        self._load()

    def _load(self) -> None:
        self.uses = {use.name: use for use in stored_uses(self._tables)}
        for meta in stored_metas(self._tables):
            if meta.name not in self.uses:
                raise Malformed(f"a snapshot {meta.name!r} is stored, and its name is not")
            if meta.whole:
                if meta.name in self.newest:
                    self._delete(self.newest[meta.name])
                self.newest[meta.name] = meta
            elif meta.saved or not self._transfer.resume(meta):
                self._delete(meta)  # the application that was about to save it is gone

    def _delete(self, meta: Meta) -> None:
        self._writes.ops += deleting(meta)

    # -- what there is

    @property
    def floor(self) -> int | None:
        """Nothing at this position or above it may be truncated: a machine needs it. None: no name is in use."""
        return min(map(self.cover, self.uses)) if self.uses else None

    def cover(self, name: str) -> int:
        """A machine of this name needs the log from here on, to start at this replica."""
        newest = self.newest.get(name)
        return self.uses[name].start if newest is None else newest.position

    def lacks(self, name: str) -> bool:
        """What was truncated here is in no snapshot of this name here."""
        # What is on its way to the disk counts: another of the same position would lie in its place.
        sure = [self.cover(name), self._transfer.finishing(name)]
        if name in self._saving:
            sure.append(self._saving[name].meta.position)
        return max(sure) < self._queue.base.position

    @property
    def lacking(self) -> list[str]:
        return [name for name in sorted(self.uses) if self.lacks(name)]

    def room(self, name: str) -> int:
        """How many bytes a snapshot of this name may have beside the others."""
        sizes = {meta.name: meta.size for meta in self.newest.values()}
        for saving in self._saving.values():
            sizes[saving.meta.name] = max(saving.meta.size, sizes.get(saving.meta.name, 0))
        sizes.pop(name, None)
        return max(0, self._most_bytes - sum(sizes.values()))

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Of the newest. Raises Unavailable where there is none, Malformed where storage lacks it."""
        newest = self.newest.get(name)
        if newest is None:
            raise Unavailable(f"no snapshot {name!r} is kept here")
        position, end = newest.position, min(offset + size, newest.size)
        found = bytearray()
        while offset < end:
            piece = self.piece(name, position, offset // PIECE_BYTES)
            start = offset % PIECE_BYTES
            taken = piece[start : start + end - offset]
            found += taken
            offset += len(taken)
            if not taken:
                raise Malformed(f"piece {offset // PIECE_BYTES} of snapshot {name!r} of {position} is too short")
        return bytes(found)

    def piece(self, name: str, position: int, piece: int) -> bytes:
        found = self._tables.get(piece_key(name, position, piece))
        if found is None:
            raise Malformed(f"the log's storage lacks piece {piece} of snapshot {name!r} of {position}")
        return found

    def status(self) -> dict[str, object]:
        """JSON-able."""
        found: dict[str, object] = {"lacks": bool(self.lacking)}
        if self.uses:
            found["holds"] = self.floor
            found["names"] = {
                name: {
                    "position": self.newest[name].position if name in self.newest else None,
                    "bytes": self.newest[name].size if name in self.newest else 0,
                    "needs": self.cover(name),
                    "here": use.here,
                    "lacks": self.lacks(name),
                }
                for name, use in sorted(self.uses.items())
            }
        return found | self._transfer.status()

    # -- from the application

    def _next_request(self) -> int:
        self._requests += 1
        return self._requests

    def use(self, name: str, start: int) -> int:
        """A machine of this name is run at this site, and has everything below `start`: what is above it is kept
        until it has saved a snapshot. Returns the request's number: RequestStored reports when that is on stable
        storage. Raises Rejected (a bad name, too many, a start that is truncated)."""
        check_name(name)
        base = self._queue.base.position
        if start < base:
            raise Rejected(f"{name!r} is at position {start}, which is truncated: the log begins at {base}")
        self._check_count(name)
        self._take_up(Use(VERSION, name, start, True))
        return self._confirm()

    def _confirm(self) -> int:
        number = self._next_request()
        self._writes.after(ConfirmRequest(number))
        return number

    def _check_count(self, name: str) -> None:
        if name not in self.uses and len(self.uses) >= MOST_NAMES:
            raise Rejected(
                f"{name!r} would be one name more than the {MOST_NAMES} that a site keeps snapshots of: drop one "
                "that is not in use any more (reconvene log snapshot --drop NAME)"
            )

    def _take_up(self, use: Use) -> None:
        before = self.uses.get(use.name)
        if before != use:
            self.uses[use.name] = use
            self._writes.ops.append(put_use(use))
            if before is None or not before.here:
                self._writes.after(AnnounceSnapshots())

    def learn(self, name: str, start: int) -> None:
        """Another replica has this name in use: a machine of it may be run here too, so what it needs is kept.
        Without a snapshot it needs the log from `start` on."""
        if name not in self.uses and len(self.uses) < MOST_NAMES:
            self._take_up(Use(VERSION, name, start, False))

    def drop(self, name: str) -> int:
        """An operator says: no machine of this name is in use any more, here and at all sites that are connected. Its
        snapshot is deleted. Returns the request's number, as `use`. Raises Rejected where there is no such name,
        Unavailable while it is being saved."""
        if name not in self.uses:
            known = ", ".join(sorted(self.uses)) or "none is in use"
            raise Rejected(f"no snapshot {name!r} is in use here: expected one of: {known}")
        if name in self._saving:
            raise Unavailable(f"snapshot {name!r} is being saved: end the program that uses it before you drop it")
        self.forget(name)
        self._writes.after(AnnounceDropped(name))
        return self._confirm()

    def forget(self, name: str) -> None:
        if name in self._saving or self.uses.pop(name, None) is None:
            return  # a machine that is saving its snapshot is in use, whatever an operator says at another site
        newest = self.newest.pop(name, None)
        if newest is not None:
            self._delete(newest)
        self._transfer.forget(name)
        self._writes.ops.append(Put(name_key(name), None))

    def save(self, name: str, position: int, data: bytes) -> int:
        """Returns the request's number, as `use`. Raises Rejected, and Unavailable while another of this name is
        being saved."""
        check_name(name)
        self._check_count(name)
        queue = self._queue
        if len(data) > self._most_bytes:
            raise Rejected(f"a snapshot of {len(data)} bytes is larger than {self._most_bytes}")
        if len(data) > self.room(name):
            raise Rejected(
                f"snapshot {name!r} of {len(data)} bytes: expected at most {self.room(name)}, since all names "
                f"together may have {self._most_bytes} (log.snapshot_bytes)"
            )
        if not queue.base.position <= position <= queue.green:
            raise Rejected(f"a snapshot of {position}: expected one from {queue.base.position} to {queue.green}")
        kept = max(self.newest[name].position if name in self.newest else -1, self._transfer.finishing(name))
        if position <= kept:
            raise Rejected(f"snapshot {name!r} of {position}: one of {kept} is kept already")
        if name in self._saving:
            raise Unavailable(f"a snapshot {name!r} of {self._saving[name].meta.position} is being saved")
        self._transfer.make_way(name, position)
        use = self.uses.get(name)
        # Until it is whole, nothing is known to be in it: a name that is new needs all of the log.
        self._take_up(Use(VERSION, name, 0 if use is None else use.start, True))
        meta = Meta(VERSION, position, len(data), crc32(data), 0, 0, saved=True, name=name)
        request = self._next_request()
        self._saving[name] = _Saving(meta, data, request)
        self._writes.ops.append(put_meta(meta))
        return request

    def step(self) -> bool:
        """Writes as much of a snapshot that is being saved as a turn takes. Returns whether there is more."""
        if not self._saving:
            return False
        left = [saving for saving in self._saving.values() if not saving.meta.whole]
        if not left:
            return False
        saving = left[0]
        meta, ops = saving.meta, self._writes.ops
        count = -(-meta.size // PIECE_BYTES)
        end = min(count, meta.pieces + _PIECES_A_TURN)
        for piece in range(meta.pieces, end):
            start = piece * PIECE_BYTES
            ops.append(Put(piece_key(meta.name, meta.position, piece), saving.data[start : start + PIECE_BYTES]))
        saving.meta = meta = replace(meta, pieces=end, whole=end == count, running=meta.checksum * (end == count))
        if meta.whole:
            ops.append(put_meta(meta))
            self._writes.after(KeepSaved(meta.name))
        return not meta.whole or len(left) > 1

    def saved(self, name: str) -> None:
        """The application's snapshot is whole, on stable storage."""
        saving = self._saving.pop(name)
        self.keep(saving.meta)
        self._transfer.announce()
        self._turn.report(RequestStored(saving.request))

    def keep(self, meta: Meta) -> None:
        """It is whole, on stable storage: the one before it is deleted."""
        newest = self.newest.get(meta.name)
        if newest is not None and newest.position > meta.position:
            self._delete(meta)
            return
        if newest is not None:
            self._delete(newest)
        self.newest[meta.name] = meta
        self._transfer.reconsider()
        self._turn.report(SnapshotKept(meta.position, meta.name))

    def damaged(self, name: str) -> None:
        """It can't be read back: no replica gets it from here any more."""
        self.newest.pop(name, None)

    # -- between replicas

    def rows(self) -> list[Row]:
        """What the other replicas get to know."""
        rows = []
        for name, use in sorted(self.uses.items()):
            newest = self.newest.get(name)
            kept = (-1, 0, 0) if newest is None else (newest.position, newest.size, newest.checksum)
            rows.append(Row(name, use.here, use.start, VERSION, *kept))
        return rows

    def announce(self) -> None:
        """Sends the table of names in use."""
        self._transfer.announce()

    def announce_dropped(self, name: str) -> None:
        self._transfer.announce_dropped(name)

    def fetch(self, opening: int) -> None:
        """A piece is on stable storage: the next one is asked for."""
        self._transfer.fetch(opening)

    def fetched(self) -> None:
        """The snapshot that was received is whole, on stable storage."""
        self._transfer.finished()

    def open(self, members: tuple[str, ...]) -> None:
        """A configuration is open for the log, in which these take part."""
        self._transfer.open(members)

    def close(self) -> None:
        self._transfer.close()

    def receive(self, sender: str, payload: bytes) -> None:
        """Raises Malformed."""
        self._transfer.receive(sender, payload)

    @property
    def could_fetch(self) -> bool:
        """Another replica has a newer snapshot of a name that is not used here."""
        return self._transfer.has_newer

    @property
    def fetching(self) -> bool:
        """A snapshot is being received."""
        return self._transfer.fetching

    def hold_up(self) -> None:
        """Truncation waits for snapshots: those of names that are not used here come from others."""
        self._transfer.reconsider(held=True)
