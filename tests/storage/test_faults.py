"""Disks that are full, read-only or broken, and damaged files: each is reported in one line, and durable values
stay."""

import asyncio
import shutil
import subprocess
import sys
from errno import ENOSPC
from pathlib import Path
from random import Random

import lmdb
import pytest
from tests.storage.places import fill, mounted, remounted

from reconvene.errors import Malformed, Unavailable
from reconvene.runtime.disk import keeper as keeping
from reconvene.runtime.disk.keeper import Keeper
from reconvene.stack.turn import Write
from reconvene.storage.check import check
from reconvene.storage.data_file import walk
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Put

OPEN = """
import sys
from pathlib import Path
from reconvene.errors import ReconveneError
from reconvene.storage.check import check
from reconvene.storage.data_file import walk
from reconvene.storage.lmdb_store import LmdbStore
try:
    store = LmdbStore(Path(sys.argv[1]))
    print(*(check(store) or [f"sound: {sum(1 for _ in store.keys(b'', bytes([255])))}"]))
except ReconveneError as error:
    print(error)
"""


def opened(path: Path) -> str:
    """What a separate process reports of a store, since a damaged one could end the process by a signal."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def fill_store(store: LmdbStore) -> int:
    """Writes until the disk refuses; returns how many batches were written."""
    for number in range(10_000):
        try:
            store.write([Put(b"\x01%06d" % number, b"%d" % number * 1000), Put(b"\x02", b"%d" % number)])
        except OSError as error:
            if error.errno != ENOSPC:
                raise
            return number
    raise AssertionError("the disk is never full")


def test_a_full_disk_keeps_what_it_took_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "none") as disk:
        filler = fill(disk, but=600_000)
        store = LmdbStore(disk / "store")
        taken = fill_store(store)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left on device"):
                store.write([Put(b"\x01%06d" % taken, bytes(100_000)), Put(b"\x02", b"half")])
        store.close()
        store = LmdbStore(disk / "store")
        filler.unlink()
        assert [key for key, _ in store.scan(b"\x01", b"\x02")] == [b"\x01%06d" % number for number in range(taken)]
        assert store.get(b"\x02") == b"%d" % (taken - 1)
        store.write([Put(b"\x01%06d" % taken, bytes(100_000))])
        assert check(store) == []
        store.close()


def test_a_write_that_a_full_disk_cuts_short_is_told_as_what_it_is(tmp_path: Path) -> None:
    """LMDB calls it an input/output error."""
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "none") as disk:
        store = LmdbStore(disk / "store")
        store.write([Put(b"\x01%04d" % number, b"kept" * 500) for number in range(50)])
        refusals = list[OSError]()
        for pages in range(1, 12):
            filler = fill(disk, but=4096 * pages)
            try:
                store.write([Put(b"\x02%04d" % number, bytes(2000)) for number in range(400)])
            except OSError as error:
                refusals.append(error)
            filler.unlink()
        assert len(refusals) == 11
        assert {error.errno for error in refusals} == {ENOSPC}
        assert all("No space left on device" in str(error) for error in refusals)
        assert store.get(b"\x010049") == b"kept" * 500
        store.close()


def test_on_a_full_disk_nothing_comes_back_until_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_RETRY_S", 0.02)

    async def story(disk: Path) -> None:
        store = LmdbStore(disk / "store")
        filler = fill(disk)
        told, failures = list[int](), list[str]()
        keeper = Keeper(store, told.extend, failures.append)
        for token in range(5):
            keeper.write([Write(token, [Put(b"\x01%d" % token, bytes(50_000))])])
        await asyncio.sleep(0.2)
        assert told == []
        assert len(failures) == 1
        assert "No space left on device" in (keeper.trouble or "")
        filler.unlink()
        async with asyncio.timeout(10):
            while len(told) < 5:
                await asyncio.sleep(0.01)
        assert (told, keeper.trouble) == ([0, 1, 2, 3, 4], None)
        await keeper.close()
        store.close()

    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "none") as disk:
        asyncio.run(story(disk))


@pytest.mark.parametrize("kept", [False, True])
def test_hardly_any_room_at_the_start_is_one_line(tmp_path: Path, kept: bool) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=256k", "none") as disk:
        if kept:
            store = LmdbStore(disk / "store")
            store.put({"site": b"kept"})
            store.close()
            (disk / "store/lock.mdb").unlink()
        for pages in (0, 1, 2, 4, 6, 8):
            filler = fill(disk, but=4096 * pages)
            said = opened(disk / "store")
            assert "No space left on device" in said or said.startswith("sound"), said
            assert "\n" not in said
            assert "No space" in said or pages
            filler.unlink()
        assert opened(disk / "store") == f"sound: {2 if kept else 1}"


def test_a_read_only_disk_is_one_line(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "none") as disk:
        store = LmdbStore(disk / "store")
        store.put({"site": b"kept"})
        store.close()
        remounted(disk, "ro")
        with pytest.raises(Unavailable, match=r"can't be used as storage: .*Read-only file system"):
            LmdbStore(disk / "store")
        with pytest.raises(Unavailable, match=r"can't be used as storage: .*Read-only file system"):
            LmdbStore(disk / "other")


def test_a_disk_that_breaks_refuses_and_what_it_has_stays_readable(tmp_path: Path) -> None:
    """A disk that suddenly shrinks: every access beyond its new end is an I/O error."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    if shutil.which("mkfs.ext4") is None or shutil.which("losetup") is None:
        pytest.skip("no mkfs.ext4 or losetup here")
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", str(image)], check=True, capture_output=True)
    with mounted(tmp_path / "disk", "-o", "loop,errors=continue", str(image)) as disk:
        store = LmdbStore(disk / "store")
        store.put({"site": b"kept"})
        device = subprocess.run(
            ["losetup", "-nO", "NAME", "-j", str(image)], check=True, capture_output=True, text=True
        )
        with image.open("r+b") as file:
            file.truncate(1 << 20)
        subprocess.run(["losetup", "-c", device.stdout.strip()], check=True)
        refusals = []
        for number in range(100):
            try:
                store.write([Put(b"\x01%d" % number, bytes(200_000))])
            except OSError as error:
                refusals.append(str(error))
        assert len(refusals) > 50
        assert "Input/output error" in refusals[0]
        assert "\n" not in refusals[0]
        assert store.get("site") == b"kept"
        store.close()


def test_a_full_map_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, map_bytes=1 << 20)
    store.put({"site": b"kept"})
    with pytest.raises(OSError, match="MDB_MAP_FULL"):
        store.write([Put(b"site", b"lost"), Put(b"\x01", bytes(2 << 20))])
    assert (store.get("site"), store.get(b"\x01")) == (b"kept", None)
    store.write([Put(b"\x01", bytes(100_000))])
    store.close()
    store = LmdbStore(tmp_path)  # a larger map has room for more
    store.write([Put(b"\x01", bytes(2 << 20))])
    store.close()


def test_flipped_bytes_are_found_and_named(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.write([Put(b"\x01%03d" % number, b"small %03d" % number) for number in range(100)])
    store.write([Put(b"\x02", b"large" * 4000)])
    store.close()
    data = tmp_path / "data.mdb"
    whole = data.read_bytes()
    damaged = whole.replace(b"small 042", b"small 043").replace(b"largelarge" * 100, b"largelarqe" * 100, 1)
    data.write_bytes(damaged)
    store = LmdbStore(tmp_path)
    with pytest.raises(Malformed, match=f"{b'042'.hex()} is corrupt: its checksum does not match"):
        store.get(b"\x01042")
    with pytest.raises(Malformed, match="is corrupt"):
        list(store.scan(b"\x01", b"\x02"))
    with pytest.raises(Malformed, match="02 is corrupt"):
        store.last(b"\x01", b"\x03")
    assert store.get(b"\x01041") == b"small 041"
    seen: list[tuple[int, int]] = []
    problems = check(store, lambda values, size: seen.append((values, size)))
    assert [problem.split(": ")[1] for problem in problems] == [
        "the value of 01303432 is corrupt",
        "the value of 02 is corrupt",
    ]
    assert seen[-1][0] == 102
    store.close()


def test_a_file_that_is_cut_short_is_one_line(tmp_path: Path) -> None:
    """If LMDB mapped it, it would end the process with SIGBUS."""
    store = LmdbStore(tmp_path / "whole")
    for number in range(8):
        store.write([Put(b"\x01%d%d" % (number, one), bytes(200 * one)) for one in range(60)])
    store.close()
    whole = (tmp_path / "whole/data.mdb").read_bytes()
    for size in (0, 1, 4096, 8191, 8192, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        cut = tmp_path / f"cut-{size}"
        cut.mkdir()
        (cut / "data.mdb").write_bytes(whole[:size])
        with pytest.raises(Malformed, match=r"data\.mdb: is cut short.*it has \d+ bytes") as raised:
            LmdbStore(cut)
        assert "\n" not in str(raised.value)
    assert opened(cut).endswith("is in use")


def test_a_file_that_is_no_store_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"nonsense" * 5000)
    with pytest.raises(Malformed, match="no data file of LMDB"):
        LmdbStore(tmp_path)


def test_another_programs_lmdb_is_not_taken_for_a_store(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as transaction:
        transaction.put(b"theirs", b"value")
    with pytest.raises(Malformed, match="has no format number"):
        LmdbStore(tmp_path)


def test_a_sound_file_may_be_shorter_than_its_meta_page_says(tmp_path: Path) -> None:
    """LMDB does not write pages that one transaction both allocated and freed."""
    store = LmdbStore(tmp_path)
    for _ in range(4):
        store.write([Put(b"\x01", b"kept")])
    store.write([Put(b"\x02", bytes(100_000)), Put(b"\x02", None)])
    store.close()
    with lmdb.open(str(tmp_path)) as env:
        assert (tmp_path / "data.mdb").stat().st_size < (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    assert opened(tmp_path) == "sound: 2"


@pytest.mark.long("many damaged files")
def test_damage_to_pages_is_found_before_they_are_mapped(tmp_path: Path) -> None:
    """LMDB trusts its pages: some of these files would end the process, and some would lack keys without an error."""
    store = LmdbStore(tmp_path / "store")
    for number in range(12):
        store.write([Put(b"\x01%d%d" % (number, one), bytes([one]) * (one * 97 % 5000)) for one in range(30)])
    expected = list(store.keys(b"", b"\xff"))
    store.close()
    data = tmp_path / "store/data.mdb"
    walk(data)
    whole, random, found = data.read_bytes(), Random("damage"), 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(random.choice((1, 1, 8))):
            page = 4096 * random.randrange(len(whole) // 4096)
            damaged[page + random.randrange(random.choice((32, 4096)))] ^= 1 << random.randrange(8)
        data.write_bytes(damaged)
        try:
            walk(data)
            store = LmdbStore(tmp_path / "store")
        except (Malformed, Unavailable):
            found += 1
            continue
        found += bool(check(store))
        # If no damage is found, it is in a page that holds no values.
        assert check(store) or list(store.keys(b"", b"\xff")) == expected
        store.close()
    assert 100 < found < 290
