"""A disk that fails during a commit: no acknowledged value is lost, and the store recovers by itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.injected import injecting

from reconvene.storage.check import check
from reconvene.storage.data_file import walk
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Put

WRITES = 25

WRITER = f"""
import sys
from pathlib import Path
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Put

store = LmdbStore(Path(sys.argv[1]))
for number in range({WRITES}):
    for attempt in range(4):
        try:
            store.write([Put(b"\\x02%03d" % number, b"%d" % number * 3000), Put(b"\\x03", b"%d" % number)])
        except OSError as error:
            assert str(error).count("\\n") == 0
            print("refused", error, flush=True)
            if number:
                assert store.get(b"\\x02%03d" % (number - 1)), "what is durable can be read"
        else:
            print("taken", number, flush=True)
            break
    else:
        break
"""


def run(path: Path, call: str, error: str, when: str) -> list[list[str]]:
    LmdbStore(path).close()
    command = [*injecting(call, error, when, path / "data.mdb"), sys.executable, "-c", WRITER, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split(" ", 1) for line in done.stdout.splitlines()]


def taken(said: list[list[str]]) -> list[int]:
    return [int(what) for word, what in said if word == "taken"]


def reopened(path: Path, numbers: list[int]) -> None:
    walk(path / "data.mdb")
    store = LmdbStore(path)
    assert check(store) == []
    for number in numbers:
        assert store.get(b"\x02%03d" % number) == b"%d" % number * 3000
    store.write([Put(b"\x04", b"goes on")])
    store.close()


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize(
    ("call", "when"),
    [("pwrite64", "17"), ("pwrite64", "18"), ("pwrite64", "19"), ("pwrite64", "20"), ("fdatasync", "7")],
)
def test_one_call_that_fails_costs_one_write(tmp_path: Path, call: str, when: str, error: str) -> None:
    """A commit here writes three pages by pwrite64, then calls fdatasync, then writes the meta page by pwrite64."""
    said = run(tmp_path, call, error, when)
    assert taken(said) == list(range(WRITES))
    assert sum(word == "refused" for word, _ in said) == 1
    reopened(tmp_path, list(range(WRITES)))


@pytest.mark.parametrize(("call", "error"), [("pwrite64", "EIO"), ("fdatasync", "ENOSPC")])
def test_a_disk_that_stays_broken_takes_nothing_and_loses_nothing(tmp_path: Path, call: str, error: str) -> None:
    said = run(tmp_path, call, error, "9+")
    done = taken(said)
    assert done == list(range(len(done)))
    assert len(done) < WRITES
    assert [word for word, _ in said[len(done) :]] == ["refused"] * (len(said) - len(done))
    reopened(tmp_path, done)
