"""The streaming query: each batch is staged by the executors, then taken into the table in one step."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from reconvene.errors import Malformed, Unavailable
from reconvene.pipeline.export.table import SMALL_BYTES, LogTable
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.source.offsets import decode_offset

__all__ = ["Export", "Progress", "export_log", "hold"]

_CHECKPOINT = "_checkpoint"
_TABLE = "log"
_LOCK = ".lock"


class Progress(Struct, frozen=True):
    """How far an export is."""

    batch: int
    position: int
    """In the log: what is below it is in the table."""
    rows: int
    """Since this query began."""
    rows_per_s: float


class Export:
    """A running export. Leave it by `stop`; or wait until it has come to where the log ended when it began."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._begun = monotonic()
        self._seen = -1
        self._rows = 0

    def wait(self, seconds: float) -> bool:
        """Is it over by then? Raises what ended it, in one line."""
        with plain_errors():
            return bool(self._query.awaitTermination(seconds))  # type: ignore[arg-type]  # fractions are taken

    def stop(self) -> None:
        self._query.stop()

    def progress(self) -> Progress | None:
        """None: no batch is done yet."""
        for told in self._query.recentProgress:
            if told.batchId > self._seen:
                self._seen = told.batchId
                self._rows += told.numInputRows
        last = self._query.lastProgress
        if last is None:
            return None
        spent = max(monotonic() - self._begun, 1e-9)
        return Progress(last.batchId, _position(last.sources[0].endOffset), self._rows, self._rows / spent)


def _position(offset: str) -> int:
    """Of the source's offset, as Spark reports it: JSON. 0 before it has found a replica."""
    reached = decode_offset(msgspec.json.decode(offset, type=dict[str, Any])) if offset else None
    return 0 if reached is None else reached.mark.position


def export_log(
    spark: SparkSession,
    options: Mapping[str, str],
    to: Path,
    *,
    once: bool = False,
    every: str = "5 seconds",
    small_bytes: int = SMALL_BYTES,
) -> Export:
    """Begins to keep `to`/log in step with the log that the source's `options` name. The caller holds `to` (`hold`).

    once: it ends where the log ends now; else every so often there is a batch of what is new.
    """
    table = LogTable(to / _TABLE, small_bytes)
    with plain_errors():
        table.prepare()
        _check(to, table)
        rows = spark.readStream.format("reconvene").options(**options).load()
        writer = rows.writeStream.foreachBatch(_Step(table)).option("checkpointLocation", str(to / _CHECKPOINT))
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
        return Export(writer.queryName(f"export to {to}").start())


class _Step:
    """One batch. A class and no closure: it travels to the server's Python through Connect."""

    def __init__(self, table: LogTable) -> None:
        self._table = table

    def __call__(self, rows: DataFrame, batch: int) -> None:
        staged = self._table.staging(batch)
        rows.write.mode("overwrite").option("compression", "zstd").parquet(str(staged))
        self._table.add(batch)


def _check(to: Path, table: LogTable) -> None:
    """A table without the checkpoint that led to it would be filled a second time."""
    if table.last() is not None and not (to / _CHECKPOINT).exists():
        raise Malformed(f"{to}: has a table but no {_CHECKPOINT}; expected both or neither: use another directory")


@contextmanager
def hold(to: Path) -> Iterator[None]:
    """While it lasts no other export writes there. Raises Unavailable where one does."""
    try:
        to.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(to / _LOCK, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise Malformed(f"{to}: can't be written to ({error.strerror})") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable(f"{to}: another export writes there") from None
        yield
    finally:
        os.close(descriptor)
