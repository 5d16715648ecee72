"""The last transaction number of a store, kept in a file next to it.

If a disk loses a write that it had confirmed, or if someone restores an old data file, the store is sound but older
than what this site has acknowledged. The store itself does not show that.

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
        """To be called after a commit. If the file can't be written, the number stays behind; the store's own writes
        report the disk's error."""
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
