"""What a store keeps, and what it does where the disk does not."""

from pathlib import Path

import lmdb
import pytest

from reconvene.errors import Malformed, Unavailable
from reconvene.storage.lmdb_store import FORMAT, LmdbStore


def test_what_was_put_comes_back_also_after_a_restart(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store")
    assert store.get("site") is None
    store.put({"site": b"one", "other": b""})
    store.put({"site": b"two"})
    store.close()
    store = LmdbStore(tmp_path / "store")
    assert (store.get("site"), store.get("other")) == (b"two", b"")
    store.close()


def test_a_corrupt_value_is_refused(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.put({"site": b"value", "twin": b"value"})
    store.close()
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as transaction:
        stored = bytes(transaction.get(b"site", b""))
        transaction.put(b"site", stored[:-1] + b"!")
        transaction.put(b"twin", stored)
    store = LmdbStore(tmp_path)
    for key in ("site", "twin"):
        with pytest.raises(Malformed, match=f"value of {key} is corrupt"):
            store.get(key)
    store.close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.put({"format": b"%d" % (FORMAT + 1)})
    store.close()
    with pytest.raises(Unavailable, match="newer program"):
        LmdbStore(tmp_path)


def test_a_full_store_raises_and_keeps_what_it_has(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, map_bytes=1 << 16)
    store.put({"site": b"kept"})
    with pytest.raises(OSError, match="MDB_MAP_FULL"):
        store.put({"site": b"lost", "large": bytes(1 << 20)})
    assert store.get("site") == b"kept"
    store.close()


def test_a_directory_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="can't be used as storage"):
        LmdbStore(tmp_path / "file" / "store")


def test_pages_that_are_none_are_one_clear_line(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.put({"site": b"value"})
    store.close()
    data = tmp_path / "data.mdb"
    whole = data.read_bytes()
    data.write_bytes(whole[:8192] + bytes(len(whole) - 8192))
    with pytest.raises(Malformed, match=r"format can't be read: .*CORRUPTED"):
        LmdbStore(tmp_path)
