"""Stable storage, as a site needs it: a few values under names, written together and synced.

Promised by every store: `put` returns once all of it is on stable storage, or raises and has changed nothing; a
value that comes back is the one that was put, or `Malformed` is raised.
"""

from collections.abc import Mapping
from typing import Protocol

__all__ = ["Store"]


class Store(Protocol):
    def get(self, key: str) -> bytes | None: ...

    def put(self, values: Mapping[str, bytes]) -> None:
        """One transaction, one sync. Raises OSError where the disk refuses."""

    def close(self) -> None: ...
