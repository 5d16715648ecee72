"""What the demo's Spark process says of the stream's table and of a trace."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from reconvene.demo.spark import Table
from reconvene.demo.spark_worker import count_votes
from reconvene.objects.tally import Addition


def test_votes_are_counted_by_what_they_say(spark: SparkSession, tmp_path: Path) -> None:
    votes = [msgspec.msgpack.encode(Addition("mayor", choice, 1)) for choice in ("Ada", "Bo", "Ada", "Ada")]
    place = tmp_path / "log" / "batch=0"
    place.mkdir(parents=True)
    table = pa.table({"position": pa.array([0, 1, 3, 3], pa.int64()), "payload": pa.array(votes, pa.binary())})
    pq.write_table(table, place / "part-0.parquet")
    assert count_votes(spark, tmp_path) == Table(4, 3, {"Ada": 3, "Bo": 1})
