"""Trace directories as a stream: the whole lines that the files of their nodes have grown by.

An offset is, of each trace, how many bytes of each node's file have been read. A last line without its newline waits;
with the option `final` it is read too, if it is a whole object, as `reconvene verify` reads it. Every batch has a row
for each trace besides, with run.json, and whether all files were read to their ends (a *pass*). After the files have
stopped growing a few passes follow, so that what waits for another file's rows is decided.

A file that has become shorter, or a trace that is no trace any more, ends the query with one line.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from reconvene.errors import Malformed
from reconvene.pipeline.first_line import first_line, first_line_of_each
from reconvene.trace.events import Run
from reconvene.trace.reader import read_run, whole_lines
from reconvene.trace.writer import node_file

__all__ = ["TAIL", "Pass", "TailSource"]

TAIL = StructType([
    StructField("trace", StringType(), False),
    StructField("node", StringType(), True),
    StructField("start", LongType(), False),
    StructField("data", BinaryType(), False),
])  # fmt: skip
"""Whole lines of a node's file, from this byte on; without a node: a `Pass`, as JSON."""

_ARROW = pa.schema([
    pa.field("trace", pa.string(), nullable=False),
    pa.field("node", pa.string()),
    pa.field("start", pa.int64(), nullable=False),
    pa.field("data", pa.binary(), nullable=False),
])  # fmt: skip

_MOST_BYTES = 128 << 20
"""Of all files, in one batch; each file may grow by its share, and by 1 MiB at least."""
_LEAST_SHARE = 1 << 20
_PIECE = 8 << 20
_WINDOW = 1 << 16
_IDLE_PASSES = 3
"""Passes after the files have stopped growing."""


class Pass(Struct, frozen=True):
    """What a batch says of a trace."""

    run: Run
    whole: bool
    """All files were read to where they ended."""
    final: bool


class TailSource(DataSource):
    """Options: `traces`, a JSON list of directories; `final`, true or false."""

    @classmethod
    def name(cls) -> str:
        return "reconvene-traces"

    def schema(self) -> StructType:
        return TAIL

    def streamReader(self, schema: StructType) -> "TailReader":  # noqa: N802
        return TailReader(self.options)


class _Range(InputPartition):
    def __init__(self, trace: str, node: str, start: int, end: int) -> None:
        super().__init__(0)
        self.trace, self.node, self.start, self.end = trace, node, start, end


class _PassOf(InputPartition):
    def __init__(self, trace: str, told: bytes) -> None:
        super().__init__(0)
        self.trace, self.told = trace, told


class TailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._traces: list[str] = msgspec.json.decode(options["traces"], type=list[str])
        self._final = options.get("final") == "true"
        self._ends = False

    # -- offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"files": {trace: {} for trace in self._traces}, "idle": 0, "whole": False, "pass": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends = True

    @first_line
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Raises Malformed where a trace can't be followed."""
        files: dict[str, dict[str, int]] = {}
        whole = True
        runs = {trace: read_run(Path(trace)) for trace in self._traces}
        share = max(_LEAST_SHARE, _MOST_BYTES // max(1, sum(len(run.recorded) for run in runs.values())))
        for trace, run in runs.items():
            read: dict[str, int] = start["files"].get(trace, {})
            files[trace] = {}
            for node in run.recorded:
                end, ended = _end_of(node_file(Path(trace), node), read.get(node, 0), share, self._final)
                files[trace][node] = end
                whole = whole and ended
        grown = files != start["files"]
        idle = 0 if grown else start["idle"] + 1
        # The last pass says that the traces are over, so it comes once after all rows.
        last = 1 if self._final else _IDLE_PASSES
        if not grown and idle > last:
            return start
        return {"files": files, "idle": idle, "whole": whole, "pass": start["pass"] + 1}

    # -- batches

    @first_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found: list[InputPartition] = []
        whole: bool = end["whole"]
        for trace, files in end["files"].items():
            read = start["files"].get(trace, {})
            found += [
                _Range(trace, node, read.get(node, 0), stop)
                for node, stop in files.items()
                if stop > read.get(node, 0)
            ]
            told = Pass(read_run(Path(trace)), whole, self._final and whole)
            found.append(_PassOf(trace, msgspec.json.encode(told)))
        return found

    @first_line_of_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _PassOf):
            yield _batch(partition.trace, None, 0, partition.told)
            return
        assert isinstance(partition, _Range)
        path = node_file(Path(partition.trace), partition.node)
        at = partition.start
        try:
            with path.open("rb") as file:
                file.seek(at)
                left = b""
                while at + len(left) < partition.end:
                    got = file.read(min(_PIECE, partition.end - at - len(left)))
                    if not got:
                        raise Malformed(_shorter(path, partition.end, at + len(left)))
                    data = left + got
                    lines = data if at + len(data) == partition.end else data[: data.rfind(b"\n") + 1]
                    left = data[len(lines) :]
                    if lines:
                        yield _batch(partition.trace, partition.node, at, lines)
                        at += len(lines)
        except OSError as error:
            raise Malformed(f"{path}: can't be read ({error.strerror})") from None

    def commit(self, end: dict[str, Any]) -> None:
        """The files stay as they are."""

    def stop(self) -> None:
        pass


def _batch(trace: str, node: str | None, start: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"trace": [trace], "node": [node], "start": [start], "data": [data]}, _ARROW)


def _shorter(path: Path, expected: int, size: int) -> str:
    return f"{path}: has {size} bytes, and {expected} were read before; expected a trace that only grows"


def _end_of(path: Path, start: int, share: int, final: bool) -> tuple[int, bool]:
    """Up to where the file's whole lines can be read now; and is that its end, or is there more?"""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < start:
                raise Malformed(_shorter(path, start, size))
            stop = min(size, start + share)
            end = _after_newline(file.fileno(), start, stop)
            if stop < size:
                # A line that is longer than the share is read whole, however long it is.
                return (end if end > start else _line_end(file.fileno(), stop, size)), False
            if final and end < size:
                rest = os.pread(file.fileno(), size - end, end)
                end += len(whole_lines(rest))
            return end, True
    except OSError as error:
        raise Malformed(f"{path}: can't be read ({error.strerror})") from None


def _after_newline(file: int, start: int, stop: int) -> int:
    """Behind the last newline in this range; its start, where there is none."""
    at = stop
    while at > start:
        begin = max(start, at - _WINDOW)
        found = os.pread(file, at - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return start


def _line_end(file: int, start: int, size: int) -> int:
    """Behind the first newline from here on; or `start` if the line is not whole yet."""
    at = start
    while at < size:
        found = os.pread(file, _WINDOW, at).find(b"\n")
        if found >= 0:
            return at + found + 1
        at += _WINDOW
    return start
