"""Made traces as trace directories: JSON lines, one file a node. Each file is written by one task, line after line,
so that what a task holds does not grow with it."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from reconvene.lab.generate.recipe import Recipe
from reconvene.pipeline.parquet_writer import writing
from reconvene.pipeline.refusals import plain_errors
from reconvene.trace.events import Row
from reconvene.trace.writer import RUN_FILE, encode_row, encode_run, node_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["about_bytes", "write_directories"]

_TURNS_AT_ONCE = 10_000
_LOOKED_AT = 1_000
"""Events from which the length of all is told."""
_WRITTEN = "rows long"


def write_directories(spark: "SparkSession", how: Recipe, root: Path) -> int:
    """Writes a directory ROOT/RUN for each run, on a file system that driver and executors share; how many events.
    run.json comes last: a directory whose writing was cut short is no trace."""
    plan = how.plan
    directories = [root / plan.run_name(run) for run in range(plan.runs)]
    with writing(root):
        for directory in directories:
            directory.mkdir(parents=True)
    place = str(root.absolute())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"rows": [_write_node(how, Path(place), number)]})

    files = plan.runs * plan.nodes
    with plain_errors():
        written = spark.range(0, files, 1, min(files, 10_000)).mapInArrow(write, _WRITTEN).collect()
    with writing(root):
        for run, directory in enumerate(directories):
            (directory / RUN_FILE).write_bytes(encode_run(how.run(run)))
    return sum(row["rows"] for row in written)


def about_bytes(how: Recipe) -> int:
    """About how long all files are."""
    some = list(islice(_rows(how, 0), _LOOKED_AT))
    return sum(len(encode_row(row)) for row in some) * how.events // max(1, len(some))


def _write_node(how: Recipe, root: Path, number: int) -> int:
    run, node = divmod(number, how.plan.nodes)
    rows = 0
    path = node_file(root / how.plan.run_name(run), how.plan.name(node))
    with writing(path), path.open("wb") as file:
        for row in _rows(how, number):
            file.write(encode_row(row))
            rows += 1
    return rows


def _rows(how: Recipe, number: int) -> Iterator[Row]:
    """The events of the node with this number among those of all runs, in their order."""
    end = (number + 1) * how.plan.turns
    for begin in range(number * how.plan.turns, end, _TURNS_AT_ONCE):
        for batch in how.make(np.arange(begin, min(begin + _TURNS_AT_ONCE, end))):
            for event in batch.drop_columns(["run", "place"]).to_pylist():
                yield Row(**{name: value for name, value in event.items() if value is not None})
