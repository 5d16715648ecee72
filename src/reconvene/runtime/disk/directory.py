"""A site's directory. It belongs to one site: it is locked while the site runs, and marked with the site's name."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconvene.errors import Rejected, Unavailable

__all__ = ["OWNER_FILE", "held", "owner_problem", "runs_in"]

OWNER_FILE = "owner"
"""Contains CLUSTER SITE PID, on one line. The lock on it ends with the process, however that ends."""


@contextmanager
def held(directory: Path, cluster: str, site: str) -> Iterator[None]:
    """Locks the directory, and creates it if it is missing. Raises Unavailable if another process holds it, Rejected
    if it can't be written to or belongs to another site."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(directory / OWNER_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Rejected(f"dir: {directory}: expected a directory to write to: {error.strerror}") from None
    try:
        _lock(file, directory)
        _claim(file, directory, cluster, site)
        yield
    finally:
        os.close(file)


def runs_in(directory: Path) -> str | None:
    """CLUSTER SITE PID of the site that holds the directory now; None if no site does. Only for diagnosis: a site
    that starts during the call, which takes microseconds, would be refused."""
    try:
        file = os.open(directory / OWNER_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return " ".join(_owner(file))
    finally:
        os.close(file)
    return None


def owner_problem(directory: Path, cluster: str, site: str) -> str | None:
    """Why the directory belongs to another site; None if it belongs to this one or to none."""
    try:
        file = os.open(directory / OWNER_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # it does not exist, or is not readable: then creating it fails
    try:
        return _not_owned(_owner(file), directory, cluster, site)
    finally:
        os.close(file)


def _not_owned(owner: list[str], directory: Path, cluster: str, site: str) -> str | None:
    if not owner or owner[:2] == [cluster, site]:
        return None
    # With the other site's storage this site would take over its numbers.
    whose = f"site {owner[1]} of cluster {owner[0]}" if len(owner) == 3 else "something else"
    return f"dir: {directory}: holds {whose}; expected a directory of site {site}"


def _lock(file: int, directory: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise Rejected(f"dir: {directory}: expected a directory with locks: {error.strerror}") from None
        owner = _owner(file)
        who = f"site {owner[1]} of cluster {owner[0]}, process {owner[2]}" if len(owner) == 3 else "another site"
        raise Unavailable(f"dir: {directory}: in use by {who}") from None


def _claim(file: int, directory: Path, cluster: str, site: str) -> None:
    problem = _not_owned(_owner(file), directory, cluster, site)
    if problem is not None:
        raise Rejected(problem)
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"{cluster} {site} {os.getpid()}\n".encode(), 0)
    except OSError as error:
        raise Unavailable(f"dir: {directory}: can't be written to: {error.strerror}") from None


def _owner(file: int) -> list[str]:
    return os.pread(file, 4096, 0).decode(errors="replace").split()
