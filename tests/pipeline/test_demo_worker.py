"""The demo's Spark process: what it says of the stream's table, and where it can't start."""

import asyncio
import re
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from reconvene.errors import Unavailable
from reconvene.lab.demo.spark import SparkBeside, SparkPatience, Table
from reconvene.lab.demo.spark_worker import count_votes, patiently
from reconvene.objects.tally import Addition


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    async def start() -> None:
        async with SparkBeside(tmp_path / "spark.log") as spark:
            assert spark.says() == "starting"
            spark.follow(["nobody"], tmp_path / "table")
            with pytest.raises(Unavailable, match="no Java found in JAVA_HOME=/nowhere"):
                await spark.first_rows(SparkPatience())
            assert not spark.has_started
            with pytest.raises(Unavailable, match="no Java found"):
                await spark.close(7, SparkPatience())

    asyncio.run(start())


@pytest.mark.long("runs the demo's job on Spark")
def test_votes_are_counted_by_what_they_say(spark: SparkSession, tmp_path: Path) -> None:
    votes = [msgspec.msgpack.encode(Addition("mayor", choice, 1)) for choice in ("Ada", "Bo", "Ada", "Ada")]
    place = tmp_path / "log" / "batch=0"
    place.mkdir(parents=True)
    table = pa.table({"position": pa.array([0, 1, 3, 3], pa.int64()), "payload": pa.array(votes, pa.binary())})
    pq.write_table(table, place / "part-0.parquet")
    assert count_votes(spark, tmp_path) == Table(4, 3, {"Ada": 3, "Bo": 1})


LATE = "Spark: [STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."


def test_a_python_process_that_was_late_is_tried_again() -> None:
    fates = [Unavailable(LATE), Unavailable(LATE), None]

    def work() -> int:
        fate = fates.pop(0)
        if fate is not None:
            raise fate
        return 7

    assert patiently(work) == 7


@pytest.mark.parametrize(("why", "tries"), [("Spark: the table is gone", 1), (LATE, 10)])
def test_other_failures_and_endless_ones_are_told(why: str, tries: int) -> None:
    tried: list[None] = []

    def work() -> None:
        tried.append(None)
        raise Unavailable(why)

    with pytest.raises(Unavailable, match=re.escape(why)):
        patiently(work)
    assert len(tried) == tries
