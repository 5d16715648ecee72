"""The exported table on disk: whatever happens, and whenever one looks, each batch is there wholly, once."""

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from reconvene.errors import Malformed
from reconvene.pipeline.export.table import LogTable

SMALL = 4_000


class Crash(Exception):
    pass


def batch_rows(batch: int, rows: int) -> pa.Table:
    """Payloads that don't compress, so that sizes mean something."""
    positions = range(batch * 1_000, batch * 1_000 + rows)
    payloads = [b"%d:" % position + bytes((position * 7 + i * i) % 251 for i in range(40)) for position in positions]
    return pa.table({"position": pa.array(positions, pa.int64()), "payload": pa.array(payloads, pa.binary())})


def stage(table: LogTable, batch: int, rows: pa.Table, files: int = 1) -> None:
    """As executors leave it, marks and checksums included."""
    place = table.staging(batch)
    place.mkdir(parents=True, exist_ok=True)
    share = -(-rows.num_rows // files)
    for index in range(files):
        pq.write_table(rows.slice(index * share, share), place / f"part-{index:05}.parquet")
    (place / "_SUCCESS").touch()
    (place / ".part-00000.parquet.crc").write_bytes(b"crc")


def positions(root: Path) -> list[int]:
    if not any(root.rglob("*.parquet")):
        return []
    told = ds.dataset(root, format="parquet", partitioning="hive").to_table(columns=["position"])
    return sorted(told["position"].to_pylist())


def expected(*batches: tuple[int, int]) -> list[int]:
    return sorted(itertools.chain(*(range(batch * 1_000, batch * 1_000 + rows) for batch, rows in batches)))


def ready(tmp_path: Path) -> LogTable:
    table = LogTable(tmp_path / "log", SMALL)
    table.prepare()
    return table


def test_small_batches_join_and_large_ones_stand_alone(tmp_path: Path) -> None:
    table = ready(tmp_path)
    sizes = [(0, 5), (1, 7), (2, 300), (3, 4), (4, 0), (5, 9)]
    for batch, rows in sizes:
        stage(table, batch, batch_rows(batch, rows))
        table.add(batch)
    assert positions(table.root) == expected(*sizes)
    assert sorted(place.name for place in table.root.iterdir()) == ["batch=0", "batch=2", "batch=3"]
    assert table.last() == 5


@pytest.mark.parametrize("rows", [6, 300])
@pytest.mark.parametrize("files", [1, 3])
def test_a_batch_that_comes_again_takes_the_place_of_its_own_rows(tmp_path: Path, rows: int, files: int) -> None:
    table = ready(tmp_path)
    for batch, count in ((0, 5), (1, rows)):
        stage(table, batch, batch_rows(batch, count))
        table.add(batch)
    stage(table, 1, batch_rows(1, rows), files)
    table.add(1)
    assert positions(table.root) == expected((0, 5), (1, rows))


@pytest.mark.parametrize("rows", [(5, 6, 7), (300, 6, 7), (5, 300, 7), (5, 6, 300), (300, 300, 300)])
def test_a_crash_before_or_after_any_step(tmp_path: Path, rows: tuple[int, int, int]) -> None:
    """Each batch is crashed in at every step before it succeeds; every look in between sees whole batches, once."""
    root = tmp_path / "log"
    for batch, count in enumerate(rows):
        before = expected(*enumerate(rows[:batch]))
        after = expected(*enumerate(rows[: batch + 1]))

        def crash(step: str) -> None:
            raise Crash(step)

        for _ in range(2):
            table = LogTable(root, SMALL, crash)
            table.prepare()
            stage(table, batch, batch_rows(batch, count))
            with pytest.raises(Crash):
                table.add(batch)
            assert positions(root) == before
        table = LogTable(root, SMALL)
        table.prepare()
        assert positions(root) == before
        stage(table, batch, batch_rows(batch, count))
        table.add(batch)
        assert positions(root) == after
        # The crash came between the table's step and Spark's note of it: the batch comes again.
        table.prepare()
        stage(table, batch, batch_rows(batch, count), 2)
        table.add(batch)
        assert positions(root) == after


def test_a_table_of_another_export_is_refused(tmp_path: Path) -> None:
    table = ready(tmp_path)
    stage(table, 7, batch_rows(7, 5))
    table.add(7)
    stage(table, 3, batch_rows(3, 5))
    with pytest.raises(Malformed, match="holds batch 7, but its checkpoint is at 3"):
        table.add(3)
    stage(table, 8, pa.table({"position": [8_000]}))
    with pytest.raises(Malformed, match="its columns are"):
        table.add(8)
    assert positions(table.root) == expected((7, 5))
