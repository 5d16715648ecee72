"""Separate file systems that can be full, read-only or broken. Only root can mount them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["fill", "mounted", "remounted"]


@contextmanager
def mounted(at: Path, *options: str) -> Iterator[Path]:
    """`options` are mount's. Skips the test if nothing can be mounted."""
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(at)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"can't mount here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def remounted(at: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(at)], check=True)


def fill(at: Path, but: int = 0) -> Path:
    """Writes a file that fills the disk except for so many bytes."""
    file = at / "filler"
    with file.open("wb") as filler:
        room = os.statvfs(at)
        filler.write(bytes(room.f_bavail * room.f_frsize - but))
    return file
