"""What a store keeps, and in which format."""

import shutil
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from reconvene.core.record import KEY, boot
from reconvene.errors import Malformed, Unavailable
from reconvene.storage.check import check
from reconvene.storage.lmdb_store import FORMAT, MAP_BYTES, LmdbStore
from reconvene.storage.tables import Clear, Op, Put

VERSIONS = Path(__file__).parent / "versions"
RECORD = bytes.fromhex("9202ce00020001")


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


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_directory_of_each_version_is_read_and_migrated(tmp_path: Path, version: str) -> None:
    """Each was written by the program version of its time, for site 1 in its second incarnation."""
    shutil.copytree(VERSIONS / version, tmp_path / "store")
    for _ in range(2):
        store = LmdbStore(tmp_path / "store")
        assert store.get("format") == b"2"
        record = store.get(KEY)
        assert record == RECORD
        assert boot(record, 1) > record
        if version == "2":
            assert [value for _, value in store.scan(b"\x01", b"\x02")] == [b"value %d" % one for one in range(10)]
            assert store.get(b"\x02large") == b"large" * 2000
        assert check(store) == []
        store.write([Put(b"\x03", b"new")])
        store.close()


def test_there_is_a_directory_of_each_version() -> None:
    assert sorted(path.name for path in VERSIONS.iterdir()) == [str(version) for version in range(1, FORMAT + 1)]


def test_three_large_maps_take_no_room(tmp_path: Path) -> None:
    stores = [LmdbStore(tmp_path / name) for name in "abc"]
    for store in stores:
        assert store.map_bytes == MAP_BYTES == 64 << 30
        store.put({"site": b"value"})
        assert sum(file.stat().st_blocks * 512 for file in store.path.iterdir()) < 100_000
        store.close()


def test_a_store_comes_to_be_whole(tmp_path: Path) -> None:
    """The leftovers of an unfinished start are not a store, and do not disturb the next start."""
    (tmp_path / "data.mdb.new").write_bytes(b"half")
    store = LmdbStore(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data.mdb", "lock.mdb"]
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
    with pytest.raises(Malformed, match=r"data\.mdb: is damaged: page \d+ is not what it should be"):
        LmdbStore(tmp_path)


def test_a_write_that_changes_nothing_is_no_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB has no trace of it: after a crash nothing of it may seem to be lost."""
    monkeypatch.setattr("reconvene.storage.watermark.EVERY_S", 0.0)
    with closing(LmdbStore(tmp_path / "store")) as store:
        nothing: list[list[Op]] = [[], [Put(b"\x01none", None)], [Clear(b"\x01", b"\x02")]]
        something: list[list[Op]] = [[Put(b"\x01key", b"value")], [Clear(b"\x01", b"\x02")]]
        for at, ops in enumerate([*nothing, *something, *nothing]):
            store.write(ops)
            shutil.copytree(tmp_path / "store", tmp_path / f"crashed-{at}")
    for at in range(8):
        LmdbStore(tmp_path / f"crashed-{at}").close()


def test_how_much_a_store_holds(tmp_path: Path) -> None:
    with closing(LmdbStore(tmp_path)) as store:
        empty = store.used_bytes
        store.write([Put(b"\x01key", b"x" * 100_000)])
        full = store.used_bytes
        assert 100_000 <= full - empty < 120_000
    with closing(LmdbStore(tmp_path)) as store:
        assert store.used_bytes == full
        store.write([Clear(b"\x01", b"\x02")])
        assert store.used_bytes == empty
