"""A site's storage while the site is stopped: checks it, backs it up, restores it from a backup.

A backup can also be made while the site runs: LMDB lets another process read.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, msgpack

from reconvene.corel.batch import Kind, messages_of
from reconvene.corel.keeping.check import check as check_log
from reconvene.corel.keeping.layout import RECORD, decode_record
from reconvene.corel.keeping.load import exists
from reconvene.corel.replica import Replica
from reconvene.errors import Malformed, ReconveneError, Rejected, Unavailable
from reconvene.runtime.disk.directory import OWNER_FILE
from reconvene.runtime.log.start import IDENTITY_BYTES
from reconvene.storage.backup import backup, restore
from reconvene.storage.check import check
from reconvene.storage.data_file import walk
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Put, Tables

__all__ = ["STORE", "Checked", "as_another", "backup_site", "check_site", "restore_site", "unordered"]

STORE = "store"
"""The subdirectory of a site's directory that holds its storage."""


class Checked(Struct):
    """What a check found."""

    store: str
    values: int = 0
    bytes: int = 0
    problems: list[str] = []
    base: int | None = None
    """The first position that the log holds; None: there is no log."""
    green: int | None = None
    pending: int | None = None
    """How many messages are not ordered yet."""


def check_site(directory: Path, progress: Callable[[int, int], None] | None = None) -> Checked:
    """Checks the directory of a site or of a backup: every page, every value, and whether the log can be loaded.

    Raises Rejected if there is no storage, Unavailable if the site runs.
    """
    path = _store_of(directory)
    found = Checked(str(path))

    def count(values: int, size: int) -> None:
        found.values, found.bytes = values, size
        if progress is not None:
            progress(values, size)

    with _not_running(path.parent):
        try:
            walk(path / "data.mdb")
            store = LmdbStore(path)
        except ReconveneError as error:
            found.problems.append(str(error))
            return found
        try:
            found.problems += check(store, count)
            found.problems += [f"the log: {problem}" for problem in check_log(store)]
            if not found.problems:
                _take_up(store, found)
        finally:
            store.close()
    return found


def _take_up(store: LmdbStore, found: Checked) -> None:
    """Loads the log as the site would when it starts."""
    if not exists(store):
        return
    try:
        replica = Replica("?", (), 1, store)
        replica.invariants()
    except (ReconveneError, AssertionError) as error:
        found.problems.append(f"the log: {error or 'its parts contradict each other'}")
        return
    queue = replica.queue
    found.base, found.green = queue.base.position, queue.green
    found.pending = sum(entry.heading.count for entry in queue.pending())
    found.pending += sum(waiting.heading.count for waiting in queue.accepted)


class Unordered(Struct, frozen=True):
    """A message that a site accepted and that has no position as far as the site knows."""

    index: int
    author: str
    incarnation: int
    counter: int
    time: int
    data: bytes


def unordered(directory: Path) -> Iterator[Unordered]:
    """The unordered messages that a stopped site accepted itself, in the order in which it accepted them.

    Raises Rejected if there is no storage or no log, Unavailable if the site runs, Malformed if storage is damaged.
    """
    path = _store_of(directory)
    with _not_running(path.parent):
        walk(path / "data.mdb")
        store = LmdbStore(path)
        try:
            if not exists(store):
                raise Rejected(f"{directory}: there is no log in it")
            replica = Replica("?", (), 1, store)
            yield from _unordered(replica)
        finally:
            store.close()


def _unordered(replica: Replica) -> Iterator[Unordered]:
    record = replica.record
    own = {number for number, identity in record.identities.items() if identity == record.identity}
    own |= {waiting.heading.author for waiting in replica.queue.accepted}
    index = 0
    for heading in replica.not_green():
        if heading.author in own and heading.kind is Kind.DATA:
            for at, data in enumerate(messages_of(replica.body(heading))):
                author = replica.name_of(heading.author)
                yield Unordered(index, author, heading.incarnation, heading.first + at, heading.time, data)
                index += 1


def backup_site(directory: Path, to: Path) -> int:
    """Copies a site's storage, as of one moment, into a new directory; returns the copy's size in bytes."""
    store = LmdbStore(_store_of(directory))
    try:
        backup(store, to)
    finally:
        store.close()
    return sum(file.stat().st_size for file in to.iterdir())


def restore_site(copy: Path, directory: Path) -> None:
    """Makes a site's directory from a backup. Raises Rejected if the directory has storage already.

    The restored log gets a new identity. The original may have acknowledged messages after the backup was made; the
    restored log lacks them and would use their counters again. So the other replicas must treat it as a stranger.
    """
    if not copy.is_dir():
        raise Rejected(f"{copy}: expected a copy that `log backup` made")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"{directory}: can't be made: {error.strerror}") from None
    with _not_running(directory):
        restore(_store_of(copy), directory / STORE, as_another)


def as_another(store: Tables) -> None:
    """Changes the identity of the log in this storage."""
    stored = store.get(RECORD)
    if stored is None:
        return  # a site without the log
    record = decode_record(stored)
    before, record.identity = record.identity, os.urandom(IDENTITY_BYTES)
    record.identities = {
        number: record.identity if seen == before else seen for number, seen in record.identities.items()
    }
    store.write([Put(RECORD, msgpack.encode(record))])


def _store_of(directory: Path) -> Path:
    """The storage in the directory of a site or of a backup."""
    for path in (directory / STORE, directory):
        if (path / "data.mdb").is_file():
            return path
    raise Rejected(
        f"{directory}: expected a site's directory (`dir` in its file; DIR/sites/NAME/data of a local cluster), or a"
        " copy of its storage: there is no data.mdb in it"
    )


@contextmanager
def _not_running(directory: Path) -> Iterator[None]:
    """Holds the site's lock, if there is one. Raises Unavailable if the site holds it."""
    try:
        file = os.open(directory / OWNER_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise Malformed(f"{directory}: can't be read: {error.strerror}") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Unavailable(f"{directory}: its site is running: stop it first, or look at a copy of it") from None
        yield
    finally:
        os.close(file)
