"""Damage of a replica's own storage, as an error of its own kind.

A malformed message of another site is counted and dropped. Where a replica can't read back a value of its own, it
must not continue: it would decide without something that it has promised to keep.
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
