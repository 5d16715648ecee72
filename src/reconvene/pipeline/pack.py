"""Trace directories into the Parquet form.

Given: trace directories, and a directory that driver and executors share. Promised: the same events in the same
order; a run is there as a whole or not at all; what is packed already, of the same trace, is not packed again. A
trace that can't be judged is refused as it is when it is read.

A file is written by one task, so that its rows are in order: a small run's events are in one file, a large one's in a
file for each node.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from reconvene.errors import Malformed, ReconveneError
from reconvene.pipeline.columns import fields_batch
from reconvene.pipeline.jsonl import FileRange, rows_of
from reconvene.pipeline.parquet_writer import finish_run, scratch_directory, write_events, writing
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.watching import watched
from reconvene.trace.events import Run
from reconvene.trace.parquet import run_of
from reconvene.trace.parquet_form import RUN_TYPES, documents, run_file
from reconvene.trace.reader import read_run
from reconvene.trace.writer import RUN_FILE, node_file

__all__ = ["Packed", "pack_traces"]

LARGE_BYTES = 32 << 20
"""A run of more than this has a file for each node."""
TASK_BYTES = 8 << 20
"""Of small runs that one task packs."""

_SOURCE = "reconvene.source"
"""In a file's footer: of which nodes' files it was made, and how long they were."""

_FILES = pa.schema([("task", pa.int32()), ("target", pa.string()), ("parts", pa.string())])
_WRITTEN = "target string, rows long, refused string"
_ARROW_WRITTEN = pa.schema([("target", pa.string()), ("rows", pa.int64()), ("refused", pa.string())])


@dataclass(frozen=True, slots=True)
class Packed:
    """What came of it."""

    runs: int
    """Packed now, with so many events …"""
    events: int
    skipped: int
    """… and there already."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be, and what its rows come from."""

    target: Path
    parts: list[FileRange]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def source(self) -> str:
        return _source(self.parts)


def _source(parts: Iterable[FileRange]) -> str:
    return msgspec.json.encode({part.node: part.size for part in parts}).decode()


@dataclass(frozen=True, slots=True)
class _Job:
    """A run to be packed."""

    run: Run
    place: Path
    files: list[_File]

    @property
    def source(self) -> str:
        return _source(part for file in self.files for part in file.parts)

    def is_done(self, root: Path) -> bool:
        """Is this trace packed there? Raises Malformed where another one of this name is."""
        file = run_file(root, self.run.run)
        if not file.exists():
            return False
        there = [run_of(str(file), document) for document in documents(file, RUN_TYPES)]
        if there == [self.run] and _told(file) == self.source:
            return True
        raise Malformed(
            f"{self.place}: {root} has another run {self.run.run!r} already; expected it to be of this trace"
            " (--replace packs it again)"
        )


def _told(file: Path) -> str | None:
    told: bytes | None = (pq.read_schema(file).metadata or {}).get(_SOURCE.encode())
    return None if told is None else told.decode()


def pack_traces(
    spark: SparkSession,
    directories: Sequence[Path],
    root: Path,
    *,
    replace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Packed:
    """Packs these traces under `root`. `progress` hears how many bytes are done, of how many. May raise Malformed."""
    jobs = _plan(directories, root)
    todo = [job for job in jobs if replace or not job.is_done(root)]
    files = sorted((file for job in todo for file in job.files), key=lambda file: -file.size)

    def look() -> None:
        if progress is not None:
            progress(sum(file.size for file in files if file.target.exists()), sum(file.size for file in files))

    rows = watched(lambda: _write(spark, files), look if progress is not None else None)
    with writing(root):
        for job in todo:
            finish_run(root, job.run, {_SOURCE: job.source})
    return Packed(runs=len(todo), events=rows, skipped=len(jobs) - len(todo))


def _plan(directories: Sequence[Path], root: Path) -> list[_Job]:
    jobs: dict[str, _Job] = {}
    for directory in directories:
        run = read_run(directory)
        place = directory / RUN_FILE
        if run.run in jobs:
            other = jobs[run.run].place
            raise Malformed(f"{place}: its run is {run.run!r}, and so is that of {other}; expected one of a name")
        jobs[run.run] = _Job(run, place, list(_files(directory, run, scratch_directory(root.absolute(), run.run))))
    return list(jobs.values())


def _files(directory: Path, run: Run, scratch: Path) -> Iterator[_File]:
    parts = []
    for node in run.recorded:
        path = node_file(directory, node).absolute()
        size = path.stat().st_size
        parts.append(FileRange(run.run, node, str(path), 0, size, size))
    if sum(part.size for part in parts) <= LARGE_BYTES:
        yield _File(scratch / "part.parquet", parts)
        return
    for number, part in enumerate(parts):
        yield _File(scratch / f"part-{number:05}.parquet", [part])


def _write(spark: SparkSession, files: Sequence[_File]) -> int:
    """Writes the files, in tasks. How many rows they have."""
    rows = []
    task = filled = 0
    for file in files:
        if filled and filled + file.size > TASK_BYTES:
            task, filled = task + 1, 0
        filled += file.size
        parts = msgspec.json.encode(file.parts).decode()
        rows.append({"task": task, "target": str(file.target), "parts": parts})
    if not rows:
        return 0
    plan = spark.createDataFrame(pa.Table.from_pylist(rows, schema=_FILES))
    with plain_errors():
        written = plan.repartitionById(task + 1, "task").mapInArrow(_write_files, _WRITTEN).collect()
    refused = sorted((row["refused"], row["target"]) for row in written if row["refused"] is not None)
    for _, target in refused:
        shutil.rmtree(Path(target).parent, ignore_errors=True)
    if refused:
        raise Malformed(refused[0][0])
    return sum(row["rows"] for row in written)


def _write_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            file = _File(Path(row["target"]), msgspec.json.decode(row["parts"], type=list[FileRange]))
            told: dict[str, object] = {"target": row["target"]}
            try:
                told["rows"] = _write_file(file)
            except ReconveneError as error:
                told["refused"] = str(error)
            yield pa.RecordBatch.from_pylist([told], schema=_ARROW_WRITTEN)


def _write_file(file: _File) -> int:
    if file.target.exists() and _told(file.target) == file.source:
        return int(pq.read_metadata(file.target).num_rows)  # by an attempt that was cut off
    batches = (fields_batch(rows) for part in file.parts for rows, _ in rows_of(part))
    with writing(file.target.parent):
        return write_events(file.target, batches, {_SOURCE: file.source})
