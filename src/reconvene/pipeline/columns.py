"""Rows of a trace as Arrow columns."""

from collections.abc import Sequence
from typing import cast

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from reconvene.pipeline.schema import ARROW_EVENTS, ARROW_FIELDS, ARROW_RUNS
from reconvene.trace.events import Row, Run

__all__ = ["Places", "events_batch", "fields_batch", "runs_table"]

Places = np.ndarray[tuple[int], np.dtype[np.int64]]


def fields_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """The events' own fields, without `run` and `place`: what a Parquet file of one run holds."""
    return pa.RecordBatch.from_arrays(_fields(rows), schema=ARROW_FIELDS)


def events_batch(run: str, rows: Sequence[Row], places: Places) -> pa.RecordBatch:
    """Rows of one run, with their places."""
    arrays = [pa.repeat(pa.scalar(run), len(rows)), pa.array(places), *_fields(rows)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_EVENTS)


def _fields(rows: Sequence[Row]) -> list[pa.Array]:
    return [pa.array(_values(rows, field.name), field.type) for field in ARROW_FIELDS]


def _values(rows: Sequence[Row], name: str) -> list[object]:
    return [None if (value := getattr(row, name)) is UNSET else value for row in rows]


def runs_table(runs: Sequence[Run]) -> pa.Table:
    """Rows of the table `runs`."""
    documents = [{**cast("dict[str, object]", msgspec.to_builtins(run)), "quorum": _text(run.quorum)} for run in runs]
    return pa.Table.from_pylist(documents, schema=ARROW_RUNS)


def _text(document: object) -> str:
    return msgspec.json.encode(document).decode()
