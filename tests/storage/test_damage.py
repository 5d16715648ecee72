"""A store that was damaged or put back is refused in one line, or it has all its values."""

import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from reconvene.errors import Malformed
from reconvene.storage import watermark as watermarks
from reconvene.storage.data_file import walk
from reconvene.storage.lmdb_store import CHECK_S, LmdbStore
from reconvene.storage.tables import Clear, Put

TRIAL = Path(__file__).with_name("damage_trial.py")


@pytest.mark.parametrize(
    "check_s",
    [
        pytest.param(60.0, id="all pages first"),
        pytest.param(0.0, id="each page before it is read", marks=pytest.mark.long("the same damage once more")),
    ],
)
def test_no_damage_ends_the_process_or_goes_unnoticed(tmp_path: Path, check_s: float) -> None:
    """Every page zeroed, a bit of every byte of the meta pages flipped, a bit of every other page's beginning."""
    done = subprocess.run(
        [sys.executable, str(TRIAL), str(tmp_path), str(check_s)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert len(found) > 300
    assert [line for line in found if line[2].startswith("signal") or line[2] == "other"] == []
    refused = [line for line in found if line[2] != "same"]
    assert len(refused) > 100
    assert {(page, bit) for page, bit, _ in refused} >= {("0", "-1"), ("1", "-1")}


def test_the_pages_of_a_sound_store_always_pass(tmp_path: Path) -> None:
    """A walk accepts all pages that LMDB writes, whatever is put and deleted."""
    for seed in range(3):
        random = Random(seed)
        store = LmdbStore(tmp_path / str(seed))
        for _ in range(40):
            ops: list[Put | Clear] = []
            for _ in range(random.choice((1, 5, 150))):
                key = (b"%c%0*d" % (random.randrange(1, 5), random.choice((1, 4, 60, 500)), random.randrange(400)))[
                    :511
                ]
                size = random.choice((0, 1, 30, 100, 1000, 2030, 5000, 70_000))
                kind = random.random()
                ops.append(
                    Put(key, bytes(size) if kind < 0.55 else None) if kind < 0.9 else Clear(key, key[:1] + b"9")
                )
            store.write(ops)
            walk(tmp_path / str(seed) / "data.mdb")
        (tmp_path / f"copy-{seed}").mkdir()
        store.copy(tmp_path / f"copy-{seed}")
        walk(tmp_path / f"copy-{seed}" / "data.mdb")
        store.close()


def test_a_guarded_store_reads_and_writes_like_any_other(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.write([Put(b"\x02%05d" % number, b"%d" % number * 30) for number in range(5000)])
    store.close()
    store = LmdbStore(tmp_path, check_s=0.0)
    assert not store.is_checked
    assert store.get(b"\x0204999") == b"4999" * 30
    assert len(list(store.keys(b"\x02", b"\x03"))) == 5000
    assert store.last(b"\x02", b"\x03") == (b"\x0204999", b"4999" * 30)
    assert store.last(b"\x03", b"\x04") is None
    store.write([Put(b"\x03", b"new"), Clear(b"\x0201000", b"\x0202000"), Put(b"\x0200000", None)])
    assert [key for key, _ in store.scan(b"\x0200990", b"\x0202010")] == [
        b"\x02%05d" % number for number in (*range(990, 1000), *range(2000, 2010))
    ]
    store.trust()
    assert store.get(b"\x03") == b"new"
    store.close()
    assert LmdbStore(tmp_path, check_s=None).is_checked


def rolled_back(path: Path, beyond: int) -> None:
    """The store as it was before the last writes, with a record of the later transactions."""
    store = LmdbStore(path)
    store.put({"site": b"1"})
    older = (path / "data.mdb").read_bytes()
    for number in range(beyond):
        store.put({"site": b"%d" % number})
    store.close()
    (path / "data.mdb").write_bytes(older)


def test_a_store_that_was_put_back_is_refused(tmp_path: Path) -> None:
    rolled_back(tmp_path / "store", 2)
    with pytest.raises(Malformed, match=r"is older than this site's own record of it: .* replace the site$"):
        LmdbStore(tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    LmdbStore(tmp_path / "store").close()


def test_a_data_file_that_is_gone_is_no_new_store(tmp_path: Path) -> None:
    rolled_back(tmp_path, 3)
    (tmp_path / "data.mdb").unlink()
    with pytest.raises(Malformed, match="is older than"):
        LmdbStore(tmp_path)


def test_a_write_that_the_disk_lost_is_noticed_without_a_clean_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The meta page of the last commit has its earlier contents, so that the two meta pages are consistent."""
    monkeypatch.setattr(watermarks, "EVERY_S", 0.0)
    store = LmdbStore(tmp_path)
    store.put({"site": b"before"})
    older = (tmp_path / "data.mdb").read_bytes()[:8192]
    store.put({"site": b"acknowledged"})
    data = (tmp_path / "data.mdb").read_bytes()
    (tmp_path / "data.mdb").write_bytes(older + data[8192:])
    with pytest.raises(Malformed, match="is older than"):
        LmdbStore(tmp_path)
    store.close()


def test_the_record_beside_it_is_no_reason_to_refuse(tmp_path: Path) -> None:
    for content in (b"", b"999 1", b"\xff" * 64, b"999"):
        (tmp_path / "newest").write_bytes(content)
        LmdbStore(tmp_path).close()
    assert (tmp_path / "newest").read_bytes() != b"999"


def test_a_large_store_is_looked_at_in_part(tmp_path: Path) -> None:
    """The time of a check is bounded. A damaged page that a start does not read is found by a check of all pages."""
    store = LmdbStore(tmp_path)
    store.write([Put(b"\x02%05d" % number, bytes(100)) for number in range(2000)])
    store.close()
    data = tmp_path / "data.mdb"
    whole = bytearray(data.read_bytes())
    at = whole.rfind(b"\x0200003") & ~4095
    whole[at : at + 4096] = bytes(4096)
    data.write_bytes(whole)
    store = LmdbStore(tmp_path, check_s=0.0)
    assert store.get(b"\x0201900") == bytes(100)
    with pytest.raises(Malformed, match="is damaged: page"):
        store.get(b"\x0200003")
    store.close()
    for check_s in (CHECK_S, None):
        with pytest.raises(Malformed, match="is damaged: page"):
            LmdbStore(tmp_path, check_s=check_s)
