"""Writes the Parquet form of traces: whole files only, a run at a time.

A run is written under a name that readers pass over, and gets its own when all of it is there: a writer that is
killed in between leaves nothing torn, and what is left over is used or replaced by the next attempt.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from reconvene.errors import Malformed, Unavailable
from reconvene.pipeline.columns import runs_table
from reconvene.pipeline.schema import ARROW_FIELDS
from reconvene.trace.events import Run
from reconvene.trace.parquet_form import run_directory, run_file

__all__ = ["finish_run", "scratch_directory", "write_events", "writing"]

_COMPRESSION = "zstd"
ROW_GROUP = 128 * 1024
"""Rows that a reader's task takes at least: Spark splits files between them."""
_NOT_NAMES = ("", "__HIVE_DEFAULT_PARTITION__")


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """One line where the file system refuses."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"{directory}: can't be written to ({error.strerror or error})") from None


def scratch_directory(root: Path, run: str) -> Path:
    """Where a run's events are until all of them are there."""
    if run in _NOT_NAMES:
        raise Malformed(f"a run is named {run!r}; the Parquet form expects a name that can name a directory")
    directory = run_directory(root, run)
    return directory.with_name(f".{directory.name}")


def write_events(file: Path, batches: Iterable[pa.RecordBatch], told: Mapping[str, str]) -> int:
    """Writes batches of `ARROW_FIELDS` to a file, whole or not at all; `told` goes into its footer. How many rows."""
    schema = ARROW_FIELDS.with_metadata(dict(told))
    rows = 0
    with _whole(file) as scratch, pq.ParquetWriter(scratch, schema, compression=_COMPRESSION) as writer:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            rows += len(batch)
            if sum(map(len, held)) >= ROW_GROUP:
                writer.write_table(_table(held, schema), row_group_size=ROW_GROUP)
                held.clear()
        if held:
            writer.write_table(_table(held, schema), row_group_size=ROW_GROUP)
    return rows


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).replace_schema_metadata(schema.metadata)


def finish_run(root: Path, run: Run, told: Mapping[str, str]) -> None:
    """Renames the run to its own name: from here on readers see it."""
    directory = run_directory(root, run.run)
    file = run_file(root, run.run)
    file.unlink(missing_ok=True)
    if directory.exists():
        shutil.rmtree(directory)
    scratch_directory(root, run.run).rename(directory)
    file.parent.mkdir(parents=True, exist_ok=True)
    table = runs_table([run])
    with _whole(file) as scratch:
        pq.write_table(table.replace_schema_metadata(dict(told)), scratch, compression=_COMPRESSION)


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """A name to write to, which becomes the file when that succeeds."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f".{uuid4().hex}.tmp")
    try:
        yield scratch
        os.replace(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)
