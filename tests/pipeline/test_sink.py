"""The sink on Spark, before a real cluster: what Spark retries, replays and kills is in the log once."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.pipeline.log_places import addresses, running
from tests.pipeline.test_sink_writers import BUSY_S, end, texts

from reconvene.local import LocalCluster

pytestmark = pytest.mark.long("half a minute of Spark")

SPARK_S = 300.0
"""What takes a few seconds may take so long on a machine that others keep busy."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with tempfile.TemporaryDirectory(prefix="rs") as directory, running(Path(directory, "c")) as cluster:
        yield cluster


def write(frame: DataFrame, cluster: LocalCluster, **told: str) -> None:
    frame.write.format("reconvene").mode("append").options(addresses=addresses(cluster), **told).save()


def read(spark: SparkSession, cluster: LocalCluster, start: int) -> list[str]:
    """By the source, which has them in no order among partitions."""
    rows = (
        spark.read.format("reconvene").options(addresses=addresses(cluster), startingPosition=str(start)).load()
    ).select("payload")
    return sorted(bytes(row.payload).decode() for row in rows.collect())


def failing_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that dies at its first attempt, when some of its rows are written."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        yield batch
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            raise RuntimeError("the task dies")


def test_batches_once_by_transaction_though_tasks_fail(spark: SparkSession, cluster: LocalCluster) -> None:
    start = end(cluster)
    frame = spark.range(0, 2_000, 1, 4).select(F.col("id").cast("string").alias("payload"))
    dying = frame.mapInArrow(failing_first, "payload string")
    write(dying, cluster, txnAppId="test", txnVersion="3")
    expected = [str(number) for number in range(2_000)]
    assert texts(cluster, start) == expected, "in the order of partitions"
    write(frame.repartition(3), cluster, txnAppId="test", txnVersion="3")
    write(frame, cluster, txnAppId="test", txnVersion="2")
    assert texts(cluster, start) == expected
    middle = end(cluster)
    rows = spark.createDataFrame([(1, "a", None), (2, "b", 0.5)], "number long, word string, share double")
    write(rows, cluster, format="json")
    write(rows.union(rows), cluster, txnAppId="ids", idColumn="number", payloadColumn="word")
    assert sorted(texts(cluster, middle)) == [
        "a", "b", '{"number":1,"word":"a","share":null}', '{"number":2,"word":"b","share":0.5}',
    ]  # fmt: skip
    assert read(spark, cluster, start) == sorted(texts(cluster, start))
    with pytest.raises(PySparkException, match=r'nothing in it is overwritten: expected mode\("append"\)'):
        frame.write.format("reconvene").mode("overwrite").options(addresses=addresses(cluster)).save()
    with pytest.raises(PySparkException, match="rows of the columns number, word, share: expected payloadColumn"):
        write(rows, cluster)


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for at in range(batch.num_rows):
            time.sleep(0.02)
            yield batch.slice(at, 1)


def test_a_replica_is_killed_during_the_write(spark: SparkSession, cluster: LocalCluster) -> None:
    start = end(cluster)
    killed = threading.Event()

    def kill() -> None:
        while end(cluster) < start + 20:
            time.sleep(0.05)
        cluster.crash("a")
        killed.set()

    # Spark would collect all rows of a task, few as they are, before it hands any of them over.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    try:
        frame = spark.range(0, 200, 1, 2).select(F.col("id").cast("string").alias("payload"))
        write(frame.mapInArrow(slowly, "payload string"), cluster)
        assert killed.wait(BUSY_S)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        if killed.is_set():
            cluster.restart("a")
            cluster.wait_for(timeout_s=BUSY_S)
    assert texts(cluster, start) == [str(number) for number in range(200)]


class Stream:
    """Files that come one after the other, each a batch of a query that writes them to the log."""

    def __init__(self, directory: Path, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.files = directory / "in"
        self.files.mkdir()
        self.checkpoint = directory / "checkpoint"

    def put(self, name: str, *lines: str) -> None:
        written = self.files.parent / name
        written.write_text("".join(f"{line}\n" for line in lines))
        written.rename(self.files / name)

    def run(self, spark: SparkSession, partitions: int) -> None:
        """All that is there, as many partitions a batch."""
        frame = spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.files)).repartition(partitions)
        query = (
            frame.writeStream.format("reconvene")
            .options(addresses=addresses(self.cluster), checkpointLocation=str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(int(SPARK_S))
        finally:
            query.stop()

    def committed(self) -> list[str]:
        """Batches that Spark knows to be committed."""
        return sorted(path.name for path in (self.checkpoint / "commits").iterdir() if path.name.isdecimal())


def test_a_stream_whose_driver_is_killed_between_the_sinks_commit_and_sparks(
    spark: SparkSession, cluster: LocalCluster
) -> None:
    start = end(cluster)
    directory = Path(tempfile.mkdtemp(prefix="rs"))
    try:
        stream = Stream(directory, cluster)
        lines = [f"line {at}" for at in range(50)]
        stream.put("1.txt", *lines[:20])
        killed(stream, directory / "committed")
        assert sorted(texts(cluster, start)) == sorted(lines[:20])
        assert not stream.checkpoint.joinpath("commits", "0").exists()
        # Replayed, with another number of partitions; then the next.
        stream.put("2.txt", *lines[20:])
        stream.run(spark, 3)
        assert stream.committed() == ["0", "1"]
        assert sorted(texts(cluster, start)) == sorted(lines)
        assert read(spark, cluster, start) == sorted(lines)
    finally:
        shutil.rmtree(directory)


def killed(stream: Stream, mark: Path) -> None:
    """Runs the query in a process of its own, which stands still when the sink has committed; kills all of it."""
    program = Path(__file__).with_name("sink_driver.py")
    given = [addresses(stream.cluster), str(stream.files), str(stream.checkpoint), str(mark)]
    paths = os.pathsep.join([str(program.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, str(program), *given], env={**os.environ, "PYTHONPATH": paths}, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + SPARK_S
        while not mark.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                kill_session(process.pid)
                said = process.stderr.read().decode() if process.stderr is not None else ""
                raise AssertionError(f"the driver has not committed: {said[-3_000:]}")
            time.sleep(0.05)
    finally:
        kill_session(process.pid)
        process.communicate()


def kill_session(leader: int) -> None:
    """The driver, its virtual machine, and Python's workers, which have process groups of their own."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = path.read_text().split(" (", 1)
            if int(rest.rpartition(") ")[2].split()[3]) == leader:
                os.kill(int(pid), signal.SIGKILL)
        except (OSError, ValueError):
            continue  # it has ended meanwhile
