"""A copy of a store while it is in use, and a store from a copy.

Promised by both: whoever ends them in their midst leaves either nothing under the name that was asked for, or all of
it, synced, and for its owner alone to read. What an unfinished one leaves has a name of its own, and is cleared away
by the next.
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
    """All that is durable now, as one moment saw it, into a new directory; without the pages that are free.

    Writes go on meanwhile; what they free can't be used again before the copy is done, so the store grows by as much.
    Safe to call in another thread. Raises Rejected where there is something, Unavailable where the disk refuses.
    """
    with _made_whole(to) as unfinished:
        try:
            store.copy(unfinished)
        except OSError as error:
            raise Unavailable(f"{to}: the copy can't be written there: {error.strerror or error}") from None


def restore(copy: Path, to: Path, change: Callable[[LmdbStore], None] = lambda store: None) -> None:
    """A store at `to`, which must not be there yet or be an empty directory, from what `backup` made, with a change
    of the caller's: nobody sees it without.

    Raises Rejected where there is one already, Unavailable where the copy is of a newer program or the disk refuses,
    Malformed where any of its values is corrupt.
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
            # It is about the copy, which is elsewhere.
            raise type(error)(str(error).replace(str(unfinished), str(copy))) from None


def _look_through(path: Path, change: Callable[[LmdbStore], None]) -> None:
    """Opens it as the site will, which checks its format and migrates an older one, and reads all of it."""
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
    """A directory beside, that becomes `to` when all is done and synced."""
    unfinished = to.with_name(f"{to.name}.unfinished")
    try:
        if to.is_symlink() or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
            raise Rejected(f"{to}: there is something already")
        to.parent.mkdir(parents=True, exist_ok=True)
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
    except OSError as error:
        raise Unavailable(f"{to}: can't be made: {error.strerror or error}") from None
    try:
        yield unfinished
        (unfinished / _DATA).chmod(0o600)  # it holds what the log holds: for its owner alone, as the store is
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
