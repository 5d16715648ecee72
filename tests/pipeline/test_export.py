"""The log into tables on Spark: an export goes on where it was, and a tally counts what comes late."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.pipeline.log_places import addresses, append, running

from reconvene import blocking
from reconvene.errors import Malformed, Unavailable
from reconvene.local import LocalCluster
from reconvene.pipeline.export import export_log, hold
from reconvene.pipeline.tally import follow_tally, tally_by_window

pytestmark = pytest.mark.long("half a minute of Spark")

SPARK_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running(tmp_path_factory.mktemp("log") / "c") as made:
        yield made


def export(spark: SparkSession, cluster: LocalCluster, to: Path) -> None:
    with hold(to):
        assert export_log(spark, {"addresses": addresses(cluster)}, to, once=True).wait(SPARK_S)


def test_the_table_equals_the_log_again_and_again(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    for turn, site in enumerate("abb"):
        append(cluster, site, [b"%d %d" % (turn, number) for number in range(300)])
        export(spark, cluster, tmp_path)
        with blocking.connect(cluster.addresses["c"]) as client:
            client.log.barrier(30)
            wanted = [(entry.position, entry.id, entry.author, entry.data) for entry in client.log.read()]
        rows = pq.read_table(tmp_path / "log").sort_by("position").to_pylist()
        assert [(row["position"], row["id"], row["author"], row["payload"]) for row in rows] == wanted
    assert spark.read.parquet(str(tmp_path / "log")).count() == 900


def test_a_table_without_its_checkpoint_is_refused(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "log" / "batch=3").mkdir(parents=True)
    with hold(tmp_path):
        with pytest.raises(Malformed, match="has a table but no _checkpoint"):
            export_log(spark, {"addresses": addresses(cluster)}, tmp_path)
        with pytest.raises(Unavailable, match="another export writes there"), hold(tmp_path):
            pass


def test_messages_are_tallied_by_what_they_say(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    append(cluster, "a", [b'{"choice": "ada"}', b'{"choice": "bob"}', b'{"choice": "ada"}'])
    options = {"addresses": addresses(cluster), "format": "json", "schema": "choice STRING"}
    told: dict[str, int] = {}

    def tell(rows: list[tuple[str, str, int]]) -> None:
        for _, choice, count in rows:
            told[choice] = told.get(choice, 0) + count

    tally = follow_tally(spark, options, "1 day", ("choice",), tell, checkpoint=tmp_path, once=True)
    assert tally.wait(SPARK_S)
    assert (told["ada"], told["bob"]) == (2, 1)


# -- a minority that rejoins two hours late: its messages have old times, and are ordered, and told of, last

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _stream(spark: SparkSession, folder: Path) -> DataFrame:
    """As the source tells it, batch by batch: three hours' messages, then those of the minority. What is late Spark
    tells by the batch before the last one."""
    schema = "position long, time timestamp, log_time timestamp"
    majority = [(at, NOON + timedelta(minutes=at), NOON + timedelta(minutes=at)) for at in range(180)]
    last = majority[-1][2]
    minority = [(180 + at, NOON + timedelta(minutes=at), last) for at in range(60)]
    after = [(240, last + timedelta(minutes=10), last + timedelta(minutes=10))]
    for rows in (majority[:-1], majority[-1:], minority, after):
        spark.createDataFrame(rows, schema).coalesce(1).write.mode("append").parquet(str(folder))
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _counted(spark: SparkSession, counts: DataFrame, name: str, checkpoint: Path) -> int:
    query = (
        counts.writeStream.format("memory").queryName(name).outputMode("append")
        .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(int(SPARK_S))
    (row,) = spark.table(name).agg(F.sum("count").alias("count")).collect()
    return int(row["count"] or 0)


def test_a_minority_that_rejoins_hours_late_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    log = _stream(spark, tmp_path / "rows")
    by_log_time = _counted(spark, tally_by_window(log, "1 minute"), "by_log_time", tmp_path / "one")
    own = (
        log.withWatermark("time", "0 seconds").groupBy(F.window("time", "1 minute")).agg(F.count("*").alias("count"))
    )
    by_own_time = _counted(spark, own, "by_own_time", tmp_path / "two")
    # Of each, the last window is still open.
    assert by_log_time == 240
    assert by_own_time == 180
