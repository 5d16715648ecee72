"""Copies a store while it is in use, and makes a store from a copy.

Promised by both: if they are interrupted, the target either does not exist or is complete, synced, and readable only
by its owner. An unfinished copy has another name, and the next one removes it.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.storage.check import check
from reconvene.storage.data_file import walk
from reconvene.storage.directory import sync_directory
from reconvene.storage.lmdb_store import LmdbStore

__all__ = ["backup", "restore"]

_DATA = "data.mdb"


def backup(store: LmdbStore, to: Path) -> None:
    """Copies everything that is durable now, consistently, into a new directory, without free pages.

    Writes go on meanwhile. Pages that they free can't be reused until the copy is done, so the store grows by as
    much. May be called in another thread. Raises Rejected if the target exists, Unavailable if the disk refuses.
    """
    with _made_whole(to) as unfinished:
        try:
            store.copy(unfinished)
        except OSError as error:
            raise Unavailable(f"{to}: the copy can't be written there: {error.strerror or error}") from None


def restore(copy: Path, to: Path, change: Callable[[LmdbStore], None] = lambda store: None) -> None:
    """Makes a store at `to`, which must not exist or be an empty directory, from a copy made by `backup`, and applies
    the caller's change before the store gets its name.

    Raises Rejected if a store exists there, Unavailable if the copy is from a newer program or the disk refuses,
    Malformed if any value is corrupt.
    """
    if not (copy / _DATA).is_file():
        raise Rejected(f"{copy}: there is no copy of a store there")
    with _made_whole(to) as unfinished:
        try:
            shutil.copyfile(copy / _DATA, unfinished / _DATA)
        except OSError as error:
            raise Unavailable(f"{to}: the copy can't be written there: {error.strerror or error}") from None
        try:
            _look_through(unfinished, change)
        except (Malformed, Unavailable) as error:
            # The error names the unfinished copy, which has another name.
            raise type(error)(str(error).replace(str(unfinished), str(copy))) from None


def _look_through(path: Path, change: Callable[[LmdbStore], None]) -> None:
    """Opens it as the site will, which checks its format and migrates an older one, and reads every value."""
    walk(path / _DATA)
    store = LmdbStore(path)
    try:
        problems = check(store)
        if problems:
            raise Malformed(problems[0])
        change(store)
    finally:
        store.close()
    (path / "lock.mdb").unlink(missing_ok=True)


@contextmanager
def _made_whole(to: Path) -> Iterator[Path]:
    """A directory next to `to`, which is renamed to `to` when everything is done and synced."""
    unfinished = to.with_name(f"{to.name}.unfinished")
    try:
        if to.is_symlink() or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
            raise Rejected(f"{to}: exists already")
        to.parent.mkdir(parents=True, exist_ok=True)
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
    except OSError as error:
        raise Unavailable(f"{to}: can't be made: {error.strerror or error}") from None
    try:
        yield unfinished
        (unfinished / _DATA).chmod(0o600)  # it contains the log: only for its owner, as the store
        _sync_file(unfinished / _DATA)
        sync_directory(unfinished)
        unfinished.rename(to)  # also over an empty directory
        sync_directory(to.parent)
    except OSError as error:
        raise Unavailable(f"{to}: can't be made: {error.strerror or error}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
