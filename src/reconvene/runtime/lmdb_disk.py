"""The disk of a real site: an LMDB store, and a thread that writes to it."""

from collections.abc import Callable
from pathlib import Path

from reconvene.runtime.keeper import Keeper
from reconvene.runtime.ports import Store
from reconvene.storage.lmdb_store import LmdbStore

__all__ = ["LmdbDisk"]


class LmdbDisk:
    def open(self, path: Path, max_bytes: int) -> LmdbStore:
        return LmdbStore(path, max_bytes)

    def keeper(
        self,
        store: Store,
        synced: Callable[[list[int]], None],
        failed: Callable[[str], None],
        logged: Callable[[list[int]], None],
    ) -> Keeper:
        return Keeper(store, synced, failed, logged)
