"""The disk of a real site: an LMDB store, and a thread that writes to it."""

from collections.abc import Callable
from pathlib import Path

from reconvene.runtime.disk.keeper import Keeper
from reconvene.runtime.outside import Store
from reconvene.storage.lmdb_store import CHECK_S, LmdbStore

__all__ = ["LmdbDisk"]


class LmdbDisk:
    def __init__(self, check_all: bool = False) -> None:
        """`check_all`: check all pages of a store when it is opened, however long that takes."""
        self._check_s = None if check_all else CHECK_S

    def open(self, path: Path, max_bytes: int) -> LmdbStore:
        return LmdbStore(path, max_bytes, self._check_s)

    def keeper(self, store: Store, synced: Callable[[list[int]], None], failed: Callable[[str], None]) -> Keeper:
        assert isinstance(store, LmdbStore), "the one that `open` returned"
        store.trust()  # the site has started: from now on reading has to be quick
        return Keeper(store, synced, failed)
