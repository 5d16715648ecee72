"""One rename changes all that a reader sees, whatever stands at the place: a directory takes another's at once."""

import ctypes
import errno
import os
import shutil
from pathlib import Path

from reconvene.errors import Unavailable

__all__ = ["put_directory", "put_file", "sync_directory", "sync_file"]

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def put_file(new: Path, place: Path) -> None:
    """`new`, whole and synced, stands at `place`, instead of what stood there."""
    sync_file(new)
    os.replace(new, place)
    sync_directory(place.parent)


def put_directory(new: Path, place: Path) -> None:
    """The same for a directory whose files are whole. What stood at `place` stands at `new` for a moment."""
    for file in new.iterdir():
        sync_file(file)
    sync_directory(new)
    if place.exists():
        _exchange(new, place)
        sync_directory(place.parent)
        shutil.rmtree(new)
    else:
        os.rename(new, place)
        sync_directory(place.parent)


def _exchange(one: Path, other: Path) -> None:
    """Python has no name for it; Linux has it on every file system that keeps directories itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    renameat2 = getattr(libc, "renameat2", None)
    if renameat2 is None:
        raise Unavailable("this system can't exchange two directories at once (renameat2); export needs Linux")
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS):
            raise Unavailable(f"{other.parent}: this file system can't exchange two directories at once")
        raise OSError(code, os.strerror(code), str(other))


def sync_file(path: Path) -> None:
    _sync(path, os.O_RDONLY)


def sync_directory(path: Path) -> None:
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
