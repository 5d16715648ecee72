"""The log and Spark: rows a second that Spark reads, in batches and as a stream, and writes; compared with the Python
client, which reads the same log.

Three real sites and Spark run on this machine. Spark reads every column, and counts the bytes of the payloads.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import reconvene.blocking as blocking
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, size_of
from reconvene.local import LocalCluster
from reconvene.pipeline.session import open_session

__all__ = ["run"]

SIZE = 100
MESSAGES = 1_000_000
QUICK_MESSAGES = 50_000
_TURNS = 3
_TOGETHER = 5_000


def run(settings: Settings) -> Sheet:
    sheet = Sheet("spark-log")
    messages = QUICK_MESSAGES if settings.quick else MESSAGES
    with (
        TemporaryDirectory(prefix="rcv-") as place,
        LocalCluster.create(Path(place) / "c", 3, trace=False) as cluster,
    ):
        cluster.start()
        addresses = list(cluster.addresses.values())
        settings.progress("filling the log", 0, 5)
        rates = {"appended by the client": _fill(addresses, messages)}
        settings.progress("the client reads", 1, 5)
        rates["read by the client"] = _best(lambda: _read_by_client(addresses, messages), messages)
        with open_session() as spark:
            settings.progress("a batch read", 2, 5)
            _count(_log(spark, addresses))  # Java and the workers are warm now
            rates["batch read"] = _best(lambda: _count(_log(spark, addresses)), messages)
            settings.progress("a stream", 3, 5)
            rates["streaming read"] = _stream(spark, addresses, messages, Path(place))
            settings.progress("the sink", 4, 5)
            rates["batch write"], rates["streaming write"] = _sink(spark, addresses, messages, Path(place))
    _tell(sheet, rates)
    return sheet


def _fill(addresses: list[str], messages: int) -> float:
    payload = b"x" * SIZE
    begun = perf_counter()
    with blocking.connect(addresses) as site:
        last = None
        for _ in range(0, messages, _TOGETHER):
            last = site.log.append_many([payload] * _TOGETHER)
        assert last is not None
        last.ordered(timeout=600)
    return messages / (perf_counter() - begun)


def _read_by_client(addresses: list[str], messages: int) -> None:
    rows = size = 0
    with blocking.connect(addresses) as site:
        for batch in site.log.follow(stop=messages).batches():
            rows += len(batch.messages)
            size += sum(map(len, batch.messages))
    _expect(rows, size, messages)


def _log(spark: SparkSession, addresses: list[str]) -> DataFrame:
    return spark.read.format("reconvene").option("addresses", ",".join(addresses)).load()


def _count(log: DataFrame) -> tuple[int, int]:
    """Reads every column: an aggregate over one column would skip the others."""
    row = log.agg(
        F.count("*"), F.sum(F.length("payload")), F.max("position"), F.max("id"), F.max("author"), F.max("log_time")
    ).collect()[0]
    return row[0], row[1]


def _stream(spark: SparkSession, addresses: list[str], messages: int, place: Path) -> float:
    rows = 0

    def count(batch: DataFrame, number: int) -> None:
        nonlocal rows
        rows += _count(batch)[0]

    stream = spark.readStream.format("reconvene").option("addresses", ",".join(addresses)).load()
    writer = stream.writeStream.foreachBatch(count).option("checkpointLocation", str(place / "reading"))
    begun = perf_counter()
    writer.trigger(availableNow=True).start().awaitTermination()
    took = perf_counter() - begun
    _expect(rows, rows * SIZE, messages)
    return messages / took


def _sink(spark: SparkSession, addresses: list[str], messages: int, place: Path) -> tuple[float, float]:
    """Writes rows that Spark generates into the log, and then the log's own rows."""
    made = spark.range(messages).select(F.lit("x" * SIZE).cast("binary").alias("payload"))
    writer = made.write.format("reconvene").option("addresses", ",".join(addresses)).mode("append")
    begun = perf_counter()
    writer.save()
    batch = messages / (perf_counter() - begun)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(messages)).load()
    stream = rows.select(F.lit("x" * SIZE).cast("binary").alias("payload")).writeStream.format("reconvene")
    stream = stream.option("addresses", ",".join(addresses)).option("checkpointLocation", str(place / "writing"))
    begun = perf_counter()
    query = stream.start()
    while (progress := query.lastProgress) is None or progress.numInputRows < messages:
        query.awaitTermination(1)
    took = perf_counter() - begun
    query.stop()
    return batch, messages / took


def _expect(rows: int, size: int, messages: int) -> None:
    assert (rows, size) == (messages, messages * SIZE), f"{rows} rows of {size} bytes; expected {messages}"


def _best(work: Callable[[], object], messages: int) -> float:
    took = []
    for _ in range(_TURNS):
        begun = perf_counter()
        work()
        took.append(perf_counter() - begun)
    return messages / min(took)


def _tell(sheet: Sheet, rates: dict[str, float]) -> None:
    beside = {name: "appended by the client" if "writ" in name else "read by the client" for name in rates}
    lines = []
    for name, rate in rates.items():
        against = beside[name] if "client" not in name else None
        ratio = None if against is None else rate / rates[against]
        sheet.add(
            f"{name}, {size_of(SIZE)}", "client" if against is None else "spark", rate, "rows/s", against, ratio
        )
        lines.append([name, number(rate), "" if ratio is None else f"{ratio:.2f} of {against}"])
    sheet.tables.append(Table.of(f"rows a second, {size_of(SIZE)} each", ("", "rows/s", ""), lines))
