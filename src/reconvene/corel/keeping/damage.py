"""What a replica's own storage does to it, told apart from what others send.

A message that makes no sense is counted and dropped. A value of its own that can't be read back is another matter:
the replica can't go on, since it would decide from less than it has promised to keep.
"""

from collections.abc import Iterator

from reconvene.errors import Malformed
from reconvene.storage.tables import Reader

__all__ = ["Damaged", "Guarded"]


class Damaged(Malformed):
    """This replica's stable storage does not hold what it should."""


class Guarded:
    """A Reader that raises Damaged where the one below raises Malformed."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Reader) -> None:
        self._tables = tables

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._tables.get(key)
        except Malformed as error:
            raise Damaged(str(error)) from None

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from self._tables.scan(start, end)
        except Malformed as error:
            raise Damaged(str(error)) from None

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        try:
            return self._tables.last(start, end)
        except Malformed as error:
            raise Damaged(str(error)) from None
