"""Checks pages before LMDB reads them, for a store that is too large to be checked completely when it is opened.

Given: the data file of a store that only this process writes to. Promised: after each of these functions returned,
LMDB can read or write the named keys without meeting a damaged page; otherwise they raise Malformed, in one line. A
check costs a few times as much as the read, so a site stops checking once it has started.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from reconvene.storage.data_file import DataFile, Page

__all__ = ["Guard"]


class Guard:
    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._file = DataFile(path, self._fd)

    def ahead(self, start: bytes, end: bytes, most_keys: int) -> None:
        """At most so many keys from `start` to before `end`, and the one after them."""
        for leaf in self._leaves(start):
            found = len(leaf.keys) - bisect_left(leaf.keys, start)
            most_keys -= found
            if most_keys < 0 or leaf.keys[-1] >= end:
                return

    def near(self, keys: Iterable[bytes]) -> None:
        """The leaf where each key is or would be, and its neighbours: a cursor may step there, and LMDB may merge a
        leaf with them after a deletion."""
        for key in keys:
            for descending in (False, True):
                for _ in islice(self._leaves(key, descending), 3):
                    pass

    def one(self, key: bytes) -> None:
        """The leaf where the key is or would be."""
        next(self._leaves(key), None)

    def close(self) -> None:
        os.close(self._fd)

    def _leaves(self, key: bytes, descending: bool = False) -> Iterator[Page]:
        file = self._file
        meta = file.read_meta()
        if meta != file.meta:
            # A commit of this process has rewritten pages.
            file.meta, file.size = meta, os.fstat(self._fd).st_size
            file.known.clear()
        return file.leaves(meta.kept, key, descending)
