"""Every store keeps what a plain dictionary would: in LMDB, in memory and on the simulated disk."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.sim.disk import Disk
from reconvene.sim.loop import Loop
from reconvene.stack.turn import Write
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import MOST_KEY_BYTES, Clear, Inspectable, Op, Put, Tables

KEYS = st.binary(min_size=1, max_size=2).map(lambda tail: b"\x01" + tail)
BOUNDS = st.binary(max_size=3).map(lambda tail: b"\x01" + tail)
VALUES = st.sampled_from([b"", b"short", bytes(3000), bytes(9000)])
OPS: st.SearchStrategy[Op] = st.one_of(
    st.builds(Put, KEYS, st.one_of(st.none(), VALUES, VALUES)), st.builds(Clear, BOUNDS, BOUNDS)
)


class Simulated:
    """The simulated disk, with writes that wait until they are durable."""

    def __init__(self) -> None:
        self._loop = Loop()
        self.disk = Disk(self._loop, Random("disk"), lambda token: None)

    def write(self, ops: list[Op]) -> None:
        self.disk.write([Write(1, ops)])
        self._loop.run(self._loop.now + 10_000_000)


def oracle(kept: dict[bytes, bytes], ops: list[Op]) -> None:
    for op in ops:
        match op:
            case Put(key, None):
                kept.pop(key, None)
            case Put(key, value):
                assert value is not None
                kept[key] = value
            case Clear(start, end):
                for key in [key for key in kept if start <= key < end]:
                    del kept[key]


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(OPS, max_size=30), max_size=6),
    bounds=st.lists(st.tuples(BOUNDS, BOUNDS), min_size=1, max_size=8),
)
def test_all_keep_the_same(batches: list[list[Op]], bounds: list[tuple[bytes, bytes]]) -> None:
    kept: dict[bytes, bytes] = {}
    memory, simulated = MemoryTables(), Simulated()
    # On tmpfs a sync is free.
    with TemporaryDirectory(dir="/dev/shm") as directory:
        store = LmdbStore(Path(directory))
        for ops in batches:
            oracle(kept, ops)
            store.write(ops)
            memory.write(ops)
            simulated.write(ops)
        readers: list[Inspectable] = [store, memory, simulated.disk]
        for reader in readers:
            for start, end in [*bounds, (b"\x01", b"\x02"), (b"\x01", b"\x01" + b"\xff" * 600)]:
                expected = sorted((key, value) for key, value in kept.items() if start <= key < end)
                assert list(reader.scan(start, end)) == expected
                assert list(reader.keys(start, end)) == [key for key, _ in expected]
                assert reader.last(start, end) == (expected[-1] if expected else None)
            for key in [*kept, b"\x01none"]:
                assert reader.get(key) == kept.get(key)
        store.close()


@pytest.fixture(params=["lmdb", "memory"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    tables: Tables = LmdbStore(tmp_path / "store") if request.param == "lmdb" else MemoryTables()
    yield tables
    tables.close()


@pytest.mark.parametrize("key", [b"", bytes(MOST_KEY_BYTES + 1)])
def test_a_key_that_cannot_be_is_refused(tables: Tables, key: bytes) -> None:
    with pytest.raises(ValueError, match="key"):
        tables.write([Put(key, b"")])


def test_the_longest_key_is_scanned_past(tables: Tables) -> None:
    longest = b"\x01" * MOST_KEY_BYTES
    tables.write([Put(longest, bytes(1 << 20)), Put(b"\x02", b"after")])
    assert [key for key, _ in tables.scan(b"\x01", b"\x03")] == [longest, b"\x02"]
    assert tables.last(b"", b"\x02") == (longest, bytes(1 << 20))


def test_a_scan_in_chunks_gives_every_key_once_while_others_are_written(tables: Tables) -> None:
    keys = [b"\x01" + number.to_bytes(4) for number in range(5000)]
    tables.write([Put(key, b"value") for key in keys])
    seen = []
    for number, (key, _) in enumerate(tables.scan(b"\x01", b"\x02")):
        seen.append(key)
        if number % 1000 == 0:
            tables.write([Put(b"\x00%d" % number, b"before"), Put(key, b"again"), Put(b"\x03", b"beyond")])
    assert seen == keys


def test_a_scan_holds_no_page_while_it_is_not_read(tmp_path: Path) -> None:
    """LMDB can't reuse a page that an open transaction may still read: the file would grow without limit."""
    store = LmdbStore(tmp_path)
    store.write([Put(b"\x01%04d" % number, bytes(2000)) for number in range(2000)])
    scan = store.scan(b"\x01", b"\x02")
    next(scan)
    size = (tmp_path / "data.mdb").stat().st_size
    for turn in range(60):
        store.write([Put(b"\x02", b"%d" % turn * 10_000)])
    assert (tmp_path / "data.mdb").stat().st_size < size + 500_000
    assert sum(1 for _ in scan) == 1999
    store.close()
