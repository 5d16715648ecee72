"""Copies of a store in use, and stores from copies: complete or absent, even if the process is killed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep

import pytest
from tests.storage.places import mounted

from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.storage.backup import backup, restore
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Put

VALUES = 300


def make(path: Path) -> LmdbStore:
    store = LmdbStore(path)
    store.put({"site": b"record"})
    store.write([Put(b"\x01%04d" % number, os.urandom(20_000)) for number in range(VALUES)])
    return store


def content(path: Path) -> dict[bytes, bytes]:
    store = LmdbStore(path)
    try:
        return dict(store.scan(b"", b"\xff"))
    finally:
        store.close()


def test_a_copy_is_of_one_moment_while_writes_go_on(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    stop = Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            store.write([Put(b"\x02", b"%d" % number), Put(b"\x03", b"%d" % number), Put(b"\x04%d" % number, b"")])
            number += 1

    store.write([Put(b"\x02", b"none"), Put(b"\x03", b"none")])
    writer = Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            backup(store, tmp_path / f"copy-{number}")
    finally:
        stop.set()
        writer.join()
    store.close()
    for number in range(3):
        restore(tmp_path / f"copy-{number}", tmp_path / f"restored-{number}")
        copied = content(tmp_path / f"restored-{number}")
        assert copied[b"\x02"] == copied[b"\x03"]
        assert (sum(key[:1] == b"\x01" for key in copied), copied[b"site"]) == (VALUES, b"record")
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_restored_store_is_the_one_that_was_copied_without_its_free_pages(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    store.write([Put(b"\x01%04d" % number, None) for number in range(VALUES // 2)])
    backup(store, tmp_path / "copy")
    store.close()
    (tmp_path / "restored").mkdir()
    restore(tmp_path / "copy", tmp_path / "restored")
    assert content(tmp_path / "restored") == content(tmp_path / "store")
    sizes = [(tmp_path / name / "data.mdb").stat().st_size for name in ("copy", "store")]
    assert sizes[0] < 0.7 * sizes[1]


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    backup(store, tmp_path / "copy")
    with pytest.raises(Rejected, match="copy: exists already"):
        backup(store, tmp_path / "copy")
    store.close()
    with pytest.raises(Rejected, match="store: exists already"):
        restore(tmp_path / "copy", tmp_path / "store")
    with pytest.raises(Rejected, match="nowhere: there is no copy of a store there"):
        restore(tmp_path / "nowhere", tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(Rejected, match="file: exists already"):
        restore(tmp_path / "copy", tmp_path / "file")


def test_a_newer_or_a_damaged_copy_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    store.write([Put(b"\x01", b"value" * 1000)])
    backup(store, tmp_path / "copy")
    store.put({"format": b"99"})
    backup(store, tmp_path / "newer")
    store.close()
    data = tmp_path / "copy/data.mdb"
    whole = data.read_bytes()
    with pytest.raises(Unavailable, match=f"^{tmp_path}/newer: was written by a newer program: format 99"):
        restore(tmp_path / "newer", tmp_path / "restored")
    data.write_bytes(whole.replace(b"valuevalue", b"valuevalva"))
    with pytest.raises(Malformed, match=f"^{tmp_path}/copy: the value of 01 is corrupt"):
        restore(tmp_path / "copy", tmp_path / "restored")
    data.write_bytes(whole[:-4096])
    with pytest.raises(Malformed, match=f"^{tmp_path}/copy/data.mdb: is cut short"):
        restore(tmp_path / "copy", tmp_path / "restored")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "newer", "store"]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "none") as disk:
        with pytest.raises(Unavailable, match=r"copy: .*No space left on device"):
            backup(store, disk / "copy")
        assert list(disk.iterdir()) == []
        backup(store, tmp_path / "copy")
        with pytest.raises(Unavailable, match=r"restored: .*No space left on device"):
            restore(tmp_path / "copy", disk / "restored")
        assert list(disk.iterdir()) == []
    store.close()


KILLED = """
import sys
from pathlib import Path
from reconvene.storage.backup import backup, restore
from reconvene.storage.lmdb_store import LmdbStore
directory = Path(sys.argv[1])
store = LmdbStore(directory / "store")
print("ready", flush=True)
for number in range(1000):
    backup(store, directory / f"copy-{number}")
    restore(directory / f"copy-{number}", directory / f"restored-{number}")
"""


def test_a_kill_leaves_nothing_or_all(tmp_path: Path) -> None:
    make(tmp_path / "store").close()
    expected = content(tmp_path / "store")
    unfinished = 0
    for delay_s in (0.0, 0.005, 0.02, 0.05, 0.1):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            sleep(delay_s)
            process.send_signal(signal.SIGKILL)
        for made in [*tmp_path.glob("copy-*"), *tmp_path.glob("restored-*")]:
            if made.name.endswith(".unfinished"):
                unfinished += 1
            else:
                assert content(made) == expected
            shutil.rmtree(made)
    assert unfinished, "no kill came amidst"


WRITES = """
import sys
from pathlib import Path
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Clear, Put
store = LmdbStore(Path(sys.argv[1]))
number = int(store.get(b"\\x01last") or b"0")
while True:
    number += 1
    first, beyond = b"\\x02%08d" % max(number - 50, 0), b"\\x02%08d" % (number - 20)
    value = b"%d" % number
    store.write([Put(b"\\x01last", value), Put(b"\\x02%08d" % number, value * 3000), Clear(first, beyond)])
    print(number, flush=True)
"""


def test_a_kill_amidst_writes_keeps_all_that_was_synced_and_whole_batches_only(tmp_path: Path) -> None:
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITES, str(tmp_path / "store")], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            first = int(process.stdout.readline())
            until = monotonic() + 0.15
            while monotonic() < until:
                first = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            told = [int(line) for line in process.stdout.read().splitlines()] or [first]
        kept = content(tmp_path / "store")
        last = int(kept[b"\x01last"])
        assert told[-1] <= last <= told[-1] + 1
        keys = sorted(key for key in kept if key[:1] == b"\x02")
        assert keys == [b"\x02%08d" % number for number in range(max(1, last - 20), last + 1)]


def test_a_store_and_a_copy_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = LmdbStore(tmp_path / "store")
        store.put({"site": b"secret"})
        backup(store, tmp_path / "copy")
        store.close()
        restore(tmp_path / "copy", tmp_path / "restored")
    finally:
        os.umask(before)
    for name in ("store", "copy", "restored"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
        for file in (tmp_path / name).iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file
