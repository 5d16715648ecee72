"""Makes changes of a directory durable."""

import os
from pathlib import Path

__all__ = ["sync_directory"]


def sync_directory(path: Path) -> None:
    """Syncs a directory, so that files created or renamed in it survive a power failure."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
