"""The interface of stable storage: sorted keys and values, as the log needs them.

Promised by every implementation: `write` returns once all of it is on stable storage, in one transaction with one
sync, or raises OSError and has changed nothing; a value that comes back is the one that was put, or `Malformed` is
raised; reads see what was written before they began, whole batches only. A scan reads in chunks, each of which is
such a read: what is written meanwhile may show in the chunks that follow.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

__all__ = ["MOST_KEY_BYTES", "Clear", "Inspectable", "Op", "Put", "Reader", "Tables"]

MOST_KEY_BYTES = 511


class Put(NamedTuple):
    """Under a key of 1 to `MOST_KEY_BYTES` bytes; None deletes it."""

    key: bytes
    value: bytes | None


class Clear(NamedTuple):
    """Deletes every key from `start` on and before `end`."""

    start: bytes
    end: bytes


Op = Put | Clear
"""Of one batch, in its order: a later one sees the earlier."""


class Reader(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys from `start` on and before `end`, in their order."""

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """The highest key in that range."""


class Inspectable(Reader, Protocol):
    """Storage whose keys can be listed even if values are corrupt."""

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """As `scan`, without reading the values."""


class Tables(Inspectable, Protocol):
    def write(self, ops: Sequence[Op]) -> None:
        """Writes in one transaction with one sync. Raises OSError if the disk refuses."""

    def close(self) -> None: ...
