"""Directories that keep what was made in them."""

import os
from pathlib import Path

__all__ = ["sync_directory"]


def sync_directory(path: Path) -> None:
    """A file that was made or renamed there is found there after a power failure."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
