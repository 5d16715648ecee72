"""Stable storage in LMDB. Transactions and crash safety are LMDB's; the checksum on each value is added here.

Of LMDB's settings, `sync` and `metasync` stay on, and `writemap` off. So a commit writes the changed pages where
nothing is in use, syncs them, and only then writes one of the two meta pages, through a descriptor that syncs each
write: whatever moment the machine stops at, the newest whole meta page points to a whole tree, and a commit that
returned is found again. `sync=False` or `metasync=False` would give up the last commits in a power failure.
`writemap` is no quicker here; it would let stray writes of the process damage the file, and turn a full disk into
SIGBUS. The map is shared and only read, so its size takes addresses and no memory, and the file grows with what it
holds. `meminit` stays on: otherwise what the process had in its memory, keys among it, ends in the file.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from errno import EIO, ENOSPC
from pathlib import Path
from sys import maxsize
from threading import Lock
from typing import TypeVar
from zlib import crc32

import lmdb

from reconvene.errors import Malformed, Unavailable
from reconvene.storage.data_file import examine, newest_transaction, write_meta_pages_again
from reconvene.storage.directory import sync_directory
from reconvene.storage.guard import Guard
from reconvene.storage.tables import MOST_KEY_BYTES, Clear, Op, Put
from reconvene.storage.watermark import Watermark

T = TypeVar("T")

__all__ = ["CHECK_S", "FORMAT", "MAP_BYTES", "LmdbStore"]

FORMAT = 2
"""Format of a store: 1 has only the site's record, 2 also has the log. A newer format is refused."""

MAP_BYTES = 64 << 30
"""Default size limit of a store."""

CHECK_S = 0.25
"""How long a store is checked when it is opened: about 350,000 keys on an idle core."""

_FORMAT_KEY = b"format"
_SUM_BYTES = 4
_CHUNK_KEYS = 1024
_CHUNK_BYTES = 1 << 20
"""Of a scan, in one read transaction: one that is open for long keeps LMDB from using freed pages again."""
_LOCK_BYTES = 16384
"""More than LMDB needs for `_READERS`."""
_READERS = 16
_LEAST_ROOM = 1 << 20
"""After a short write, a disk with less free space than this counts as full."""


class LmdbStore:
    """A directory of its own. One process at a time: the site holds a lock on its directory.

    The site's values are under names, the log's under keys that begin with a byte below 0x20, so they can't meet.
    """

    def __init__(self, path: Path, map_bytes: int = MAP_BYTES, check_s: float | None = CHECK_S) -> None:
        """Checks the pages first, for at most `check_s`; None: all of them, however long it takes.

        If the time was too short, each read and write checks its pages before LMDB does, until `trust`. Raises
        Malformed if a page is damaged, or if the store is older than its watermark file says; Unavailable if the disk
        refuses, or if a newer program wrote the store.
        """
        self.path = path
        self.map_bytes = map_bytes
        self._guard: Guard | None = None
        self._committed = 0
        """The last transaction that is known to be durable."""
        self._is_doubtful = False
        """LMDB does not know any more what is on disk: see `_mend`."""
        self.used_bytes = 0
        """Size of the values, in whole pages, without free pages. Measured by whoever writes: asking LMDB lets other
        threads run, which a site's loop would have to wait for after every sync."""
        self._writing, self._copying, self._using = Lock(), Lock(), Lock()
        """Taken in this order: by a write, by a copy, and by a read or when the environment is replaced."""
        try:
            data = path / "data.mdb"
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._watermark = Watermark(path / "newest")
            if not data.exists():
                _make(data)
            self._check_age(data)
            if not examine(data, check_s):
                self._guard = Guard(data)
            _make_room_for_locks(path / "lock.mdb")
            self._env = self._open()
        except (OSError, lmdb.Error) as error:
            self.trust()
            raise Unavailable(f"{path}: can't be used as storage: {error}") from None
        try:
            self._check_format()
            self._measure()
        except OSError as error:
            self.close()
            raise Unavailable(f"{path}: can't be used as storage: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise

    @property
    def is_checked(self) -> bool:
        """Whether every page was checked when it was opened."""
        return self._guard is None

    def trust(self) -> None:
        """From now on pages are not checked before LMDB reads them: a damaged one ends the process."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()

    def _check_age(self, data: Path) -> None:
        found, known = newest_transaction(data), self._watermark.lowest
        if found < known:
            raise Malformed(
                f"{self.path}: is older than this site's own record of it: it ends with transaction {found}, and"
                f" {known} was written: the disk lost writes, or an older copy was put back; replace the site"
            )

    # -- reading

    def get(self, key: bytes | str) -> bytes | None:
        name = key.encode() if isinstance(key, str) else key
        if self._guard is not None:
            self._guard.one(name)
        try:
            stored = self._read(lambda cursor: cursor.get(name))
        except lmdb.Error as error:
            raise self._unreadable(name, error) from None
        return None if stored is None else self._opened(name, stored)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, stored in self._stored(start, end):
            yield key, self._opened(key, stored)

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        for key, _ in self._stored(start, end):
            yield key

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        if self._guard is not None:
            self._guard.near([end])
        try:
            found = self._read(lambda cursor: _last(cursor, start, end))
        except lmdb.Error as error:
            raise self._unreadable(end, error) from None
        return None if found is None else (found[0], self._opened(*found))

    def _stored(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        after: bytes | None = None
        while True:
            chunk, more = self._chunk(start, after, end)
            yield from chunk
            if not more:
                return
            after = chunk[-1][0]

    def _chunk(self, start: bytes, after: bytes | None, end: bytes) -> tuple[list[tuple[bytes, bytes]], bool]:
        """The next chunk of a scan, and whether there may be more."""
        first = start if after is None else after
        if self._guard is not None:
            self._guard.ahead(first, end, _CHUNK_KEYS)
        try:
            return self._read(lambda cursor: _chunk(cursor, start, after, end))
        except lmdb.Error as error:
            raise self._unreadable(first, error) from None

    def _read(self, read: "Callable[[lmdb.Cursor[bytes]], T]") -> T:
        """In one transaction."""
        try:
            with self._using, self._env.begin() as transaction, transaction.cursor() as cursor:
                return read(cursor)
        except lmdb.PanicError:
            with self._writing:  # the write that failed opens the store anew before it ends
                pass
            with self._using, self._env.begin() as transaction, transaction.cursor() as cursor:
                return read(cursor)

    def _opened(self, key: bytes, stored: bytes) -> bytes:
        value = stored[_SUM_BYTES:]
        if int.from_bytes(stored[:_SUM_BYTES]) != crc32(value, crc32(key)):
            raise Malformed(f"{self.path}: the value of {_shown(key)} is corrupt: its checksum does not match")
        return value

    def _unreadable(self, key: bytes, error: lmdb.Error) -> Malformed:
        return Malformed(f"{self.path}: {_shown(key)} can't be read: {error}")

    # -- writing

    def put(self, values: Mapping[str, bytes]) -> None:
        self.write([Put(key.encode(), value) for key, value in values.items()])

    def write(self, ops: Sequence[Op]) -> None:
        """Raises ValueError, without changing anything, if a key is empty or too long."""
        if self._guard is not None:
            _look_ahead(self._guard, ops)
        with self._writing:
            if self._is_doubtful:
                self._mend()
            try:
                with self._env.begin(write=True) as transaction, transaction.cursor() as cursor:
                    changed = _perform(cursor, ops)
                    number = transaction.id()
            except lmdb.BadValsizeError:
                raise ValueError(f"a key is empty, or longer than {MOST_KEY_BYTES} bytes") from None
            except lmdb.Error as error:
                self._look_for_panic()
                raise self._refused(error) from error
            if changed:  # else LMDB commits nothing, and gives the number to the next transaction
                self._committed = number
                self._watermark.note(number)
                self._measure()

    def _measure(self) -> None:
        stat = self._env.stat()
        pages: int = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        self.used_bytes = pages * int(stat["psize"])

    def room(self) -> tuple[int, int] | None:
        """Bytes that this program may still write to the file system, and the file system's size; None: not known."""
        return _room(self.path)

    def _look_for_panic(self) -> None:
        """After a write that failed. Where LMDB has given up nothing could be read either: so at once."""
        try:
            with self._env.begin():
                return
        except lmdb.Error:
            self._is_doubtful = True
        with suppress(OSError):
            self._mend()

    def _mend(self) -> None:
        """A meta page could not be written, and LMDB does not know whether the disk has the old one or the new one.
        Both point to whole trees. The one that is read now becomes the one that the disk has: only then may pages be
        written again, since what is free in one may be in use in the other. Raises OSError where the disk refuses."""
        with self._copying, self._using:
            self._env.close()
            try:
                self._env = self._open()
            except (OSError, lmdb.Error) as error:
                self._env = lmdb.open(str(self.path), map_size=self.map_bytes, readonly=True, lock=False)
                raise OSError(EIO, f"can't be opened anew: {error}", str(self.path)) from None
        try:
            write_meta_pages_again(self.path / "data.mdb")
        except Malformed as error:
            raise OSError(EIO, str(error), str(self.path)) from None
        found = self._env.info()["last_txnid"]
        if found < self._committed:
            raise OSError(EIO, f"has lost transaction {self._committed}, and ends with {found}", str(self.path))
        self._is_doubtful = False

    def _open(self) -> lmdb.Environment:
        return lmdb.open(str(self.path), map_size=self.map_bytes, mode=0o600, max_readers=_READERS, max_spare_txns=2)

    def copy(self, to: Path) -> None:
        """What is durable now, as one moment saw it, into an empty directory; not synced. Raises OSError."""
        try:
            with self._copying:
                self._env.copy(str(to), compact=True)
        except lmdb.Error as error:
            raise self._refused(error) from error

    def close(self) -> None:
        self.trust()
        with suppress(lmdb.Error):
            self._watermark.note(self._env.info()["last_txnid"], at_once=True)
        self._env.close()

    def _refused(self, error: lmdb.Error) -> OSError:
        number, what = error.code if error.code > 0 else EIO, str(error)
        if number == EIO and _is_full(self.path):
            # LMDB calls a write that was cut short an I/O error.
            number, what = ENOSPC, f"{what} ({os.strerror(ENOSPC)})"
        return OSError(number, what, str(self.path))

    def _check_format(self) -> None:
        stored = self.get(_FORMAT_KEY)
        if stored is None:
            if self._env.stat()["entries"]:
                raise Malformed(f"{self.path}: has no format number: it is not a site's storage")
            self.write([Put(_FORMAT_KEY, b"%d" % FORMAT)])
        elif not stored.isdigit() or int(stored) > FORMAT:
            raise Unavailable(
                f"{self.path}: was written by a newer program: format {stored.decode(errors='replace')};"
                f" this one knows up to {FORMAT}"
            )
        elif int(stored) < FORMAT:
            # All that format 1 has is in format 2 as it was. The number keeps older programs from what is new.
            self.write([Put(_FORMAT_KEY, b"%d" % FORMAT)])


def _last(cursor: "lmdb.Cursor[bytes]", start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
    # LMDB takes no longer key; all that are equal to the start of a longer `end` are before it.
    found = cursor.set_range(end[:MOST_KEY_BYTES]) or cursor.last()
    while found and cursor.key() >= end:
        found = cursor.prev()
    return cursor.item() if found and cursor.key() >= start else None


def _chunk(
    cursor: "lmdb.Cursor[bytes]", start: bytes, after: bytes | None, end: bytes
) -> tuple[list[tuple[bytes, bytes]], bool]:
    chunk: list[tuple[bytes, bytes]] = []
    room = _CHUNK_BYTES
    if not cursor.set_range((start if after is None else after)[:MOST_KEY_BYTES]):
        return chunk, False
    for key, stored in cursor.iternext():
        if key >= end:
            return chunk, False
        if key < start or key == after:
            continue
        chunk.append((key, stored))
        room -= len(stored)
        if room <= 0 or len(chunk) == _CHUNK_KEYS:
            return chunk, True
    return chunk, False


def _perform(cursor: "lmdb.Cursor[bytes]", ops: Sequence[Op]) -> bool:
    """Returns whether anything changed: what was to be deleted may not be there."""
    run: list[tuple[bytes, bytes]] = []
    changed = False
    for op in ops:
        if type(op) is Put:
            key, value = op
            if value is not None:
                # The key is in the sum: a value under another's key is corrupt too.
                run.append((key, crc32(value, crc32(key)).to_bytes(_SUM_BYTES) + value))
                changed = True
                continue
        if run:
            cursor.putmulti(run)
            run = []
        if type(op) is Clear:
            changed |= _clear(cursor, op.start, op.end)
        elif cursor.set_key(op[0]):
            changed |= cursor.delete()
    if run:
        cursor.putmulti(run)
    return changed


def _clear(cursor: "lmdb.Cursor[bytes]", start: bytes, end: bytes) -> bool:
    if not cursor.set_range(start[:MOST_KEY_BYTES]):
        return False
    changed = False
    while b"" < (key := cursor.key()) < end:  # an empty one: beyond the last
        if key >= start:
            changed |= cursor.delete()  # moves on to the next
        else:
            cursor.next()
    return changed


def _look_ahead(guard: Guard, ops: Sequence[Op]) -> None:
    for op in ops:
        if type(op) is Clear:
            guard.ahead(op.start, op.end, maxsize)
            guard.near([op.start, op.end])
        else:
            guard.near([op[0]])


def _make(data: Path) -> None:
    """A new data file, whole before it has its name: an empty one that is found is damage, and never a new store."""
    new = data.with_name("data.mdb.new")
    new.unlink(missing_ok=True)
    with (
        lmdb.open(str(new), map_size=1 << 20, mode=0o600, subdir=False, lock=False) as env,
        env.begin(write=True) as transaction,
    ):
        _perform(transaction.cursor(), [Put(_FORMAT_KEY, b"%d" % FORMAT)])
    new.rename(data)
    sync_directory(data.parent)
    sync_directory(data.parent.parent)


def _make_room_for_locks(lock: Path) -> None:
    """LMDB maps its lock file and writes to it: without room for it on the disk that is SIGBUS.

    An error here is an OSError, while there is still someone to catch it.
    """
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, _LOCK_BYTES)
    finally:
        os.close(fd)


def _is_full(path: Path) -> bool:
    found = _room(path)
    return found is not None and found[0] < _LEAST_ROOM


def _room(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return None


def _shown(key: bytes) -> str:
    return key.decode() if key.isascii() and key.decode().isprintable() else key.hex()
