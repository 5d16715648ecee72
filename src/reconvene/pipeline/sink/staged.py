"""A task's part of a write: its rows, staged in the log. Nobody sees them until the driver commits."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from reconvene.client.blocking_log import Log
from reconvene.pipeline.sink.options import SinkOptions
from reconvene.pipeline.sink.payloads import payloads_of
from reconvene.pipeline.sink.target import Target

__all__ = ["Staged", "stage"]


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task tells the driver."""

    partition: int
    query: str = ""
    """Of a stream: which query."""
    rows: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)
    """(position, count) of its rows, in their order …"""
    index: list[tuple[int, int]] = field(default_factory=list)
    """… and of what the sink keeps beside them."""
    done: bool = False
    """The log has the transaction already: nothing was staged."""


def stage(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], name: str | None, version: int, query: str = ""
) -> Staged:
    """Returns when all rows are ordered.

    name, version: of the transaction, if it has one: where the log is known to have it, nothing is staged.
    Raises Unavailable and OutcomeUnknown where that is not so in time: the task is tried again, and what it has left
    in the log is never seen.
    """
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Staged(partition, query)
    with Target(options.access, partition) as target:
        if name is not None and _has(target.log, name, version):
            for _ in batches:  # whoever sends them expects them to be read
                pass
            return Staged(partition, query, done=True)
        staging = target.log.staging(options.access.timeout_s)
        rows = first.num_rows
        staging.put(payloads_of(first, options))
        for batch in batches:
            rows += batch.num_rows
            staging.put(payloads_of(batch, options))
        return Staged(partition, query, rows, list(staging.ordered().runs))


def _has(log: Log, name: str, version: int) -> bool:
    last = log.committed(name)
    return last is not None and last >= version
