"""The log and Spark: rows a second that Spark reads, in batches and as a stream, and writes; compared with the Python
client, and with what Spark makes of the same rows from memory.

Three real sites and Spark run on this machine. Reads go to Spark's `noop`, which takes every column of every row and
does nothing with it; what was read is counted once, by itself.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import reconvene.blocking as blocking
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, size_of, verdict
from reconvene.lab.bench.spark_log_limit import InMemory
from reconvene.local import LocalCluster
from reconvene.pipeline.session import open_session

__all__ = ["BARS", "Bar", "run"]

SIZE = 100
MESSAGES = 4_000_000
QUICK_MESSAGES = 40_000
_WRITTEN_OF = 4
"""A write, and a batch of a stream, has so many times fewer rows."""
_TURNS = 3
_TASKS = 4
_TRIGGERS = 4
"""Batches of a stream: the first is cold, the others are warm."""
_TOGETHER = 5_000
_STEPS = 7
_LOOK_S = 0.02
"""Between two looks at how far a stream is."""

_READ, _APPENDED, _LIMIT = "read by the client", "appended by the client", "the same rows from memory"


@dataclass(frozen=True, slots=True)
class Bar:
    work: str
    against: str
    times: float


BARS = (
    Bar("batch read", _READ, 0.6),
    Bar("streaming read, warm", _READ, 0.5),
    Bar("batch write, warm", _APPENDED, 2.2),
)


def run(settings: Settings) -> Sheet:
    messages = QUICK_MESSAGES if settings.quick else MESSAGES
    with (
        TemporaryDirectory(prefix="rcv-") as place,
        LocalCluster.create(Path(place) / "c", 3, trace=False) as cluster,
    ):
        cluster.start()
        addresses = list(cluster.addresses.values())
        settings.progress("filling the log", 0, _STEPS)
        rates = {_APPENDED: _fill(addresses, messages)}
        with open_session() as spark, Foreign(_family) as foreign:
            bench = _Bench(spark, addresses, messages, Path(place))
            for step, (name, measure) in enumerate(bench.works(), 1):
                settings.progress(name, step, _STEPS)
                rates |= measure()
    sheet = Sheet("spark-log")
    _tell(sheet, rates, messages)
    sheet.add("others' processor time", "machine", foreign.cores, "cores")
    sheet.notes.append(f"other programs used {foreign.cores:.2f} cores meanwhile")
    return sheet


class _Bench:
    """Each work returns rows a second by name."""

    def __init__(self, spark: SparkSession, addresses: list[str], messages: int, place: Path) -> None:
        self._spark = spark
        self._addresses = addresses
        self._messages = messages
        self._place = place
        self._options = {"addresses": ",".join(addresses)}
        spark.dataSource.register(InMemory)

    def works(self) -> Iterator[tuple[str, Callable[[], dict[str, float]]]]:
        yield "the client reads", self._client
        yield "rows from memory", self._limit
        yield "a batch read", self._batch_read
        yield "a stream", self._stream_read
        yield "the sink", self._batch_write
        yield "a stream into the sink", self._stream_write

    def _client(self) -> dict[str, float]:
        return {_READ: _best(lambda: _read_by_client(self._addresses, self._messages), self._messages)}

    def _limit(self) -> dict[str, float]:
        memory = self._spark.read.format(InMemory.name()).options(rows=self._messages, tasks=_TASKS, size=SIZE)
        _discard(memory.load())  # Java and the workers are warm now
        return {_LIMIT: _best(lambda: _discard(memory.load()), self._messages)}

    def _batch_read(self) -> dict[str, float]:
        log = self._spark.read.format("reconvene").options(**self._options)
        _expect(*_counted(log.load()), self._messages)
        _discard(log.load())
        nothing = log.option("startingPosition", "latest").load()
        empty = _best(lambda: _discard(nothing), 1)
        log = log.option("startingPosition", "earliest")
        return {
            "batch read": _best(lambda: _discard(log.load()), self._messages),
            "batch reads of nothing": empty,
        }

    def _stream_read(self) -> dict[str, float]:
        each = self._messages // _WRITTEN_OF
        log = self._spark.readStream.format("reconvene").options(**self._options, maxRowsPerTrigger=each).load()
        writer = log.writeStream.format("noop").option("checkpointLocation", str(self._place / "reading"))
        return _cold_and_warm("streaming read", writer.start(), each)

    def _batch_write(self) -> dict[str, float]:
        rows = self._messages // _WRITTEN_OF
        made = self._spark.range(rows).select(F.lit("x" * SIZE).cast("binary").alias("payload"))
        writer = made.write.format("reconvene").options(**self._options).mode("append")
        begun = perf_counter()
        writer.save()
        cold = rows / (perf_counter() - begun)
        return {"batch write, cold": cold, "batch write, warm": _best(writer.save, rows)}

    def _stream_write(self) -> dict[str, float]:
        each = self._messages // _WRITTEN_OF
        rows = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(each)).load()
        made = rows.select(F.lit("x" * SIZE).cast("binary").alias("payload"))
        writer = made.writeStream.format("reconvene").options(**self._options)
        writer = writer.option("checkpointLocation", str(self._place / "writing"))
        return _cold_and_warm("streaming write", writer.start(), each)


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


def _discard(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _counted(log: DataFrame) -> tuple[int, int]:
    row = log.agg(F.count("*"), F.sum(F.length("payload"))).collect()[0]
    return row[0], row[1]


def _cold_and_warm(name: str, query: StreamingQuery, each: int) -> dict[str, float]:
    """Of a query that has begun: its first batch with all that comes before it, and the following ones."""
    begun = perf_counter()
    cold = None
    try:
        while not query.exception() and len(done := _batches(query, each)) < _TRIGGERS:
            if done and cold is None:
                cold = each / (perf_counter() - begun)
            sleep(_LOOK_S)
    finally:
        query.stop()
    error = query.exception()
    if error is not None:
        raise error
    assert cold is not None, "the batches take longer than a look at them"
    warm = done[1:_TRIGGERS]
    took = warm[-1][1] - warm[0][0]
    return {f"{name}, cold": cold, f"{name}, warm": each * len(warm) / took}


def _batches(query: StreamingQuery, each: int) -> list[tuple[float, float]]:
    """(begun, ended) of those that are done, in s."""
    found = []
    for progress in query.recentProgress:
        if progress.numInputRows:
            assert progress.numInputRows == each, f"a batch of {progress.numInputRows} rows; expected {each}"
            begun = datetime.fromisoformat(progress.timestamp).timestamp()
            found.append((begun, begun + progress.batchDuration / 1000))
    return found


def _expect(rows: int, size: int, messages: int) -> None:
    assert (rows, size) == (messages, messages * SIZE), f"{rows} rows of {size} bytes; expected {messages}"


def _best(work: Callable[[], object], messages: int) -> float:
    took = []
    for _ in range(_TURNS):
        begun = perf_counter()
        work()
        took.append(perf_counter() - begun)
    return messages / min(took)


def _family() -> list[int]:
    """This process and all below it: the sites, Java, and Spark's Python."""
    below: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(place.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        below.setdefault(parent, []).append(int(place.parent.name))
    found = [os.getpid()]
    for pid in found:
        found += below.get(pid, [])
    return found


def _tell(sheet: Sheet, rates: dict[str, float], messages: int) -> None:
    empty = rates.pop("batch reads of nothing")
    lines = []
    for name, rate in rates.items():
        client = "client" in name
        against = None if client else _APPENDED if "write" in name else _READ
        ratio = None if against is None else rate / rates[against]
        of_limit = f"{rate / rates[_LIMIT]:.2f}" if "read," in f"{name}," and not client else ""
        sheet.add(f"{name}, {size_of(SIZE)}", "client" if client else "spark", rate, "rows/s", against, ratio)
        lines.append([name, number(rate), "" if ratio is None else f"{ratio:.2f} of {against}", of_limit])
    title = f"rows a second, {messages:,} of {size_of(SIZE)}"
    sheet.tables.append(Table.of(title, ("", "rows/s", "", "of the rows from memory"), lines))
    sheet.add("a batch read of nothing", "spark", 1 / empty, "s")
    sheet.notes.append(f"a batch read of nothing takes {1 / empty:.2f} s: Spark's planning, and one task")
    bars = []
    for bar in BARS:
        times = rates[bar.work] / rates[bar.against]
        what = f"{bar.work}: at least {bar.times:g} times {bar.against}"
        sheet.add(what, "spark", times, "times", bar.against, times / bar.times)
        bars.append([what, f"{times:.2f}", verdict(times >= bar.times)])
    sheet.tables.append(Table.of("bars", ("bar", "times", ""), bars))
