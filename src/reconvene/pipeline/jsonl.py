"""Trace directories into a table: each file in ranges of bytes, each range a part of a task.

Given: trace directories whose run.json was read. The files have to be where the tasks can read them under the same
path. Promised: the events as `EVENTS` says, decoded once and kept on the executors' disks; a line that is no event is
refused by its file and its number, the lowest first.

A file is read as long as it was when the parts were planned, so that the table is of one moment while a site goes on
writing. A line belongs to the range in which it begins.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from msgspec import Struct, structs
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from reconvene.errors import Malformed
from reconvene.pipeline.columns import Places, events_batch
from reconvene.pipeline.lines import LONGEST_LINE, LineTooLong, line_chunks
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.schema import ARROW_EVENTS, EVENTS
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import BadLine, decode_rows, find_start
from reconvene.trace.writer import node_file

__all__ = ["RANGE_BYTES", "FileRange", "plan_ranges", "read_jsonl", "rows_of"]

RANGE_BYTES = 16 << 20
"""Of one part of a file, and of the parts of small files that one task reads."""
_MOST_TASKS = 10_000

_PARTS = pa.schema([
    ("task", pa.int32()),
    ("run", pa.string()),
    ("node", pa.string()),
    ("path", pa.string()),
    ("begin", pa.int64()),
    ("end", pa.int64()),
    ("size", pa.int64()),
])  # fmt: skip

_TABLE = T.StructType([*EVENTS, T.StructField("refused", T.StringType())])
_ARROW_TABLE = ARROW_EVENTS.append(pa.field("refused", pa.string()))


class FileRange(Struct, frozen=True):
    """The lines of a node's file that begin in begin … end - 1."""

    run: str
    node: str
    path: str
    begin: int
    end: int
    size: int
    """Of the file: what was written to it later is not read."""


def plan_ranges(traces: Iterable[tuple[Path, Run]]) -> Iterator[FileRange]:
    for directory, run in traces:
        for node in run.recorded:
            path = node_file(directory, node).absolute()
            size = _size(path)
            for begin in range(0, size, RANGE_BYTES):
                yield FileRange(run.run, node, str(path), begin, min(begin + RANGE_BYTES, size), size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise Malformed(f"{path}: can't be read ({error.strerror})") from None


def read_jsonl(spark: SparkSession, parts: Iterable[FileRange]) -> DataFrame:
    """The table of these parts' events (and a column that is null throughout), until it is unpersisted.

    May raise Malformed.
    """
    rows: list[dict[str, object]] = []
    task = filled = 0
    for part in parts:
        if filled and filled + part.end - part.begin > RANGE_BYTES:
            task, filled = task + 1, 0
        filled += part.end - part.begin
        rows.append({"task": task, **structs.asdict(part)})
    if not rows:
        return spark.createDataFrame([], _TABLE)
    # Which task reads what goes as data, not in the task's code, so that it does not travel to all of them.
    plan = spark.createDataFrame(pa.Table.from_pylist(rows, schema=_PARTS))
    tasks = plan.repartitionById(min(task + 1, _MOST_TASKS), "task")
    table = tasks.mapInArrow(_read_batches, _TABLE).persist(StorageLevel.DISK_ONLY)
    with plain_errors():
        refused = table.where("refused IS NOT NULL").orderBy("run", "node", "place").select("refused").head()
    if refused is not None:
        table.unpersist()
        raise Malformed(refused[0])
    return table


def _read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.drop_columns(["task"]).to_pylist():
            part = FileRange(**row)
            try:
                for rows, places in rows_of(part):
                    good = events_batch(part.run, rows, places)
                    yield good.append_column("refused", pa.nulls(len(rows), pa.string()))
            except Malformed as error:
                # As a row: a task that fails is tried again, to the same end, and fills the log.
                told = {"run": part.run, "node": part.node, "place": part.begin, "refused": str(error)}
                yield pa.RecordBatch.from_pylist([told], schema=_ARROW_TABLE)


def rows_of(part: FileRange) -> Iterator[tuple[list[Row], Places]]:
    """The part's rows with their places, some at a time. Raises Malformed over a line that is no event."""
    try:
        with Path(part.path).open("rb") as file:
            yield from _rows(file, part)
    except LineTooLong as long:
        line = _lines_before(part.path, long.offset) + 1
        raise Malformed(f"{part.path}:{line}: expected an event; this line has over {LONGEST_LINE} bytes") from None
    except OSError as error:
        raise Malformed(
            f"{part.path}: can't be read ({error.strerror}); every executor has to find it under this path"
        ) from None


def _rows(file: BinaryIO, part: FileRange) -> Iterator[tuple[list[Row], Places]]:
    started = part.begin > 0  # the part with the file's first lines looks for the start
    for offset, data in line_chunks(file, part.begin, part.end, part.size):
        rows = _decode(part, offset, data)
        started = started or _starts(part, offset, rows)
        yield rows, _places(offset, data, len(rows))
    if not started:
        # Seldom: a whole range of other layers' events before the first of layer evs.
        for offset, data in line_chunks(file, part.end, part.size, part.size):
            if _starts(part, offset, _decode(part, offset, data)):
                return


def _decode(part: FileRange, offset: int, data: bytes) -> list[Row]:
    try:
        return decode_rows(data, part.node)
    except BadLine as bad:
        raise _refusal(part, offset, bad) from None


def _starts(part: FileRange, offset: int, rows: list[Row]) -> bool:
    try:
        return find_start(rows) is not None
    except BadLine as bad:
        raise _refusal(part, offset, bad) from None


def _refusal(part: FileRange, offset: int, bad: BadLine) -> Malformed:
    return Malformed(f"{part.path}:{_lines_before(part.path, offset) + bad.line + 1}: {bad.problem}")


def _lines_before(path: str, offset: int) -> int:
    """Counted only where something is wrong: a range does not know the number of its first line."""
    with Path(path).open("rb") as file:
        lines = 0
        while offset > 0 and (data := file.read(min(1 << 20, offset))):
            lines += data.count(b"\n")
            offset -= len(data)
    return lines


def _places(offset: int, data: bytes, rows: int) -> Places:
    """Where each line begins."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    places = np.empty(rows, np.int64)
    places[0] = offset
    places[1:] = ends[: rows - 1] + (offset + 1)
    return places
