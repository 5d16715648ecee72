"""How far a store had come, kept in a file beside it.

A disk that loses a write it had confirmed, or a data file that someone put back, leaves a store that is sound and
older than what this site has told others. Nothing in it says so.

Given: transaction numbers of commits that are synced. Promised: `lowest` is at most the number of the last commit,
and at most `EVERY_S` seconds of writing behind it, since `note` syncs the file that often. A file that is missing or
damaged says 0: it guards the store, and is no reason to refuse it.
"""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic
from zlib import crc32

from reconvene.storage.directory import sync_directory

__all__ = ["EVERY_S", "Watermark"]

EVERY_S = 10.0
_BYTES = 64
"""Less than a sector: it is written as a whole or not at all."""


class Watermark:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._due_at = 0.0
        self.lowest = self._read()

    def note(self, transaction: int, at_once: bool = False) -> None:
        """After a commit. Where the file can't be written the number stays behind; the store's own writes tell of the
        disk."""
        now = monotonic()
        if transaction <= self.lowest or (now < self._due_at and not at_once):
            return
        with suppress(OSError):
            self._write(transaction)
            self.lowest = transaction
        self._due_at = now + EVERY_S

    def _read(self) -> int:
        try:
            number, checksum = self._path.read_bytes()[:_BYTES].split()
            return int(number) if int(checksum) == crc32(number) else 0
        except (OSError, ValueError):
            return 0

    def _write(self, transaction: int) -> None:
        is_new = not self._path.exists()
        number = b"%d" % transaction
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, (b"%s %d" % (number, crc32(number))).ljust(_BYTES - 1) + b"\n", 0)
            os.fdatasync(fd)
        finally:
            os.close(fd)
        if is_new:
            sync_directory(self._path.parent)
