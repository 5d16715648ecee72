"""One run's tables, as a task gets them, into what the local engine reads."""

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from reconvene.pipeline.schema import ARROW_FIELDS, ARROW_RUNS
from reconvene.trace.events import Row, Run

__all__ = ["node_tables", "read_rows", "read_run"]

_AT_ONCE = 8192
"""Rows that are Python objects at one time, however many a node has."""


def read_run(runs: pa.Table) -> Run:
    """From its one row of the table `runs`."""
    (document,) = runs.select(ARROW_RUNS.names).to_pylist()
    told = {name: value for name, value in document.items() if value is not None}
    return msgspec.convert({**told, "quorum": msgspec.json.decode(document["quorum"])}, Run)


def node_tables(run: Run, events: pa.Table) -> dict[str, pa.Table]:
    """Of each node, its events in the order of its file."""
    return {
        node: events.filter(pc.equal(events["node"], node)).sort_by([("place", "ascending")])
        for node in sorted(run.recorded)
    }


def read_rows(events: pa.Table) -> Iterator[Row]:
    """The events of a table, in its order. A null is a field that the event does not have."""
    names = ARROW_FIELDS.names
    for batch in events.select(names).to_batches(max_chunksize=_AT_ONCE):
        columns = [_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield Row(**dict(zip(names, values, strict=True)))


def _values(column: pa.Array) -> list[object]:
    values: list[object] = column.to_pylist()
    return [UNSET if value is None else value for value in values] if column.null_count else values
