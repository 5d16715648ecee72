"""The source through Spark: found by its name, read in parallel, streamed with a checkpoint, waiting for sites."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, lit, spark_partition_id
from pyspark.sql.streaming.query import StreamingQuery
from tests.pipeline.log_places import BUSY_S, addresses, append, running

from reconvene import blocking
from reconvene.local import LocalCluster

pytestmark = pytest.mark.long("half a minute of Spark")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running(tmp_path_factory.mktemp("log") / "c", nodes=2) as made:
        for at, site in enumerate("abab"):
            append(made, site, [b'{"item": "i%d", "n": %d}' % (at, of) for of in range(250)])
        append(made, "a", [b"no JSON"])
        yield made


def log_of(spark: SparkSession, cluster: LocalCluster, **options: object) -> DataFrame:
    reader = spark.read.format("reconvene").option("addresses", addresses(cluster))
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 5 * BUSY_S
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_batch_is_read_in_parallel_and_decoded(spark: SparkSession, cluster: LocalCluster) -> None:
    table = log_of(spark, cluster, partitions=4, format="json", schema="item STRING, n INT")
    assert table.schema.simpleString() == (
        "struct<position:bigint,id:string,author:string,time:timestamp,log_time:timestamp,payload:binary,"
        "item:string,n:int>"
    )
    rows = table.withColumn("part", spark_partition_id()).collect()
    with blocking.connect(cluster.addresses["b"]) as client:
        entries = client.log.read()
    assert [(row.position, row.id, row.author, bytes(row.payload)) for row in rows] == [
        (entry.position, entry.id, entry.author, entry.data) for entry in entries
    ]
    assert [row.time.timestamp() for row in rows] == [entry.time // 1_000 / 1e6 for entry in entries]
    assert len({row.part for row in rows}) == 4
    assert [{"item": row.item, "n": row.n} for row in rows[:-1]] == [json.loads(entry.data) for entry in entries[:-1]]
    assert (rows[-1].item, rows[-1].n, bytes(rows[-1].payload)) == (None, None, b"no JSON")
    log_times = [row.log_time for row in rows]
    assert log_times == sorted(log_times)


@pytest.mark.parametrize("asked", ["true", "false"])
def test_positions_are_pushed_down_where_spark_asks(spark: SparkSession, cluster: LocalCluster, asked: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", asked)
    try:
        some = log_of(spark, cluster, payload="false", rowsPerPartition=100).where("position BETWEEN 300 AND 399")
        assert sorted(row.position for row in some.collect()) == list(range(300, 400))
        assert some.columns == ["position", "id", "author", "time", "log_time"]
        # Only the tasks tell how much was read: 100 rows are one of them, the log is ten or more.
        tasks = some.select(spark_partition_id()).rdd.getNumPartitions()
        assert (tasks == 1) == (asked == "true")
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_what_can_not_be_read_is_told_in_one_line(spark: SparkSession, cluster: LocalCluster) -> None:
    def told(**options: object) -> str:
        with pytest.raises(PySparkException) as raised:
            log_of(spark, cluster, **options).collect()
        lines = [line for line in str(raised.value).splitlines() if line.startswith("reconvene.")]
        return lines[0].partition(": ")[2]

    assert told(startAt=5).startswith("option startat: not known; expected some of addresses,")
    assert told(addresses="127.0.0.1:1", timeout=5).startswith("no replica of the log answers: tcp://127.0.0.1:1: ")
    assert told(format="json", schema="n INT", mode="failFast").startswith("message a:1:")
    stream = spark.readStream.format("reconvene").options(addresses=addresses(cluster), tentative="true").load()
    query = stream.writeStream.format("noop").start()
    with pytest.raises(PySparkException, match="tentative: not for a stream, whose rows can't be taken back"):
        query.awaitTermination(60)


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    def run(names: str) -> StreamingQuery:
        stream = (
            spark.readStream.format("reconvene")
            .options(addresses=addresses(cluster, names), maxRowsPerTrigger="400", rowsPerPartition="150")
            .load()
        )
        query = (
            stream.writeStream.format("parquet")
            .options(path=str(tmp_path / "table"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(180)
        return query

    sizes = [progress.numInputRows for progress in run("ab").recentProgress]
    assert max(sizes) <= 400
    append(cluster, "b", [b"later %d" % at for at in range(50)])
    # From another replica: positions are the same everywhere.
    run("b")
    expected = log_of(spark, cluster)
    found = spark.read.parquet(str(tmp_path / "table"))
    compared = found.withColumn("of", lit("stream")).unionByName(expected.withColumn("of", lit("log")))
    differing = compared.groupBy(*expected.columns).agg(count("*").alias("many")).where(col("many") != 2)
    assert differing.collect() == []
    assert found.count() == 1_051


def test_a_stream_waits_for_its_sites(spark: SparkSession, tmp_path: Path) -> None:
    def shown() -> list[bytes]:
        # A table of its own each time: one that was planned shows what there was then.
        return [bytes(row.payload) for row in spark.table("waiting").collect()]

    with running(tmp_path / "c", nodes=1) as cluster:
        append(cluster, "a", [b"1", b"2"])
        stream = (
            spark.readStream.format("reconvene")
            .options(addresses=addresses(cluster), startingPosition="1", timeout="2")
            .load()
        )
        query = stream.writeStream.format("memory").queryName("waiting").start()
        try:
            until(lambda: shown() == [b"2"])
            cluster.crash("a")
            time.sleep(3)
            assert query.isActive
            cluster.restart("a")
            append(cluster, "a", [b"3"])
            until(lambda: shown() == [b"2", b"3"])
        finally:
            query.stop()


def test_a_batch_and_a_stream_at_a_follower(spark: SparkSession, tmp_path: Path) -> None:
    """The same rows as at a replica, also further down the tree; a stream that began at a replica goes on there."""
    with LocalCluster.create(tmp_path / "c", nodes=2, trace=False, followers=2) as cluster:
        cluster.start(BUSY_S)
        append(cluster, "a", [b"one %d" % at for at in range(300)])

        def stream(name: str) -> None:
            reader = spark.readStream.format("reconvene").option("addresses", cluster.addresses[name])
            writer = reader.load().writeStream.format("parquet").trigger(availableNow=True)
            place = {"path": str(tmp_path / "table"), "checkpointLocation": str(tmp_path / "checkpoint")}
            assert writer.options(**place).start().awaitTermination(180)

        stream("a")
        append(cluster, "b", [b"two %d" % at for at in range(300)])
        with blocking.connect(cluster.addresses["f2"], wait=BUSY_S) as client:
            entries = client.log.read(at_least=599, timeout=BUSY_S)
        stream("f2")
        expected = [(entry.position, entry.id, entry.data) for entry in entries]
        batch = spark.read.format("reconvene").option("addresses", cluster.addresses["f2"]).option("partitions", 3)
        for table in (batch.load(), spark.read.parquet(str(tmp_path / "table"))):
            rows = table.orderBy("position").collect()
            assert [(row.position, row.id, bytes(row.payload)) for row in rows] == expected
        assert len(expected) == 600
