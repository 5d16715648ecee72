"""The disk of the replicas: which one it is, and how many syncs a second it does."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from reconvene.errors import Unavailable

__all__ = ["FOLDER", "Disk", "disk_of", "folder", "syncs_a_second"]

FOLDER = Path("/var/tmp")
"""The default for RECONVENE_BENCH_DIR: the system's folder for temporary files that survive a restart, and so are on
a disk."""

_BLOCK = 4096
_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}


@dataclass(frozen=True, slots=True)
class Disk:
    kind: str
    """Of its file system."""
    device: str


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder on a disk, removed afterwards."""
    under = Path(os.environ.get("RECONVENE_BENCH_DIR") or FOLDER)
    if not under.is_dir():
        raise Unavailable(f"{under}: expected a directory for the replicas' data (RECONVENE_BENCH_DIR names one)")
    disk = disk_of(under)
    if disk is not None and disk.kind in _IN_MEMORY:
        raise Unavailable(f"{under} is in memory ({disk.kind}): name a directory on a disk with RECONVENE_BENCH_DIR")
    with tempfile.TemporaryDirectory(prefix="rcv-", dir=under, ignore_cleanup_errors=True) as made:
        yield Path(made)


def disk_of(path: Path) -> Disk | None:
    """None if the system does not know."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return None
    found, longest = None, -1
    real = path.resolve()
    for line in lines:
        device, at, kind = line.split()[:3]
        # Of two mounts at the same path, the last one is visible.
        if real.is_relative_to(at) and len(at) >= longest:
            found, longest = Disk(kind, device), len(at)
    return found


def syncs_a_second(under: Path, seconds: float) -> float:
    """Syncs a second: one process appends and syncs one block at a time."""
    block = os.urandom(_BLOCK)
    count = 0
    with (under / "syncs").open("wb", buffering=0) as file:
        began = monotonic()
        while monotonic() < began + seconds:
            file.write(block)
            os.fdatasync(file.fileno())
            count += 1
        took = monotonic() - began
    (under / "syncs").unlink()
    return count / took
