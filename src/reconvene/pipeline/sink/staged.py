"""A task's part of a write: its rows, staged in the log. Nobody sees them until the driver commits."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from reconvene.client.blocking import Log
from reconvene.pipeline.sink.digests import IDS_TOGETHER, digests_of
from reconvene.pipeline.sink.options import SinkOptions
from reconvene.pipeline.sink.payloads import payloads_of
from reconvene.pipeline.sink.target import Target

__all__ = ["Staged", "stage"]


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task reports to the driver."""

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
            for _ in batches:  # the sender expects them to be read
                pass
            return Staged(partition, query, done=True)
        rows, places, index = _stage(target.log, options, chain([first], batches))
    return Staged(partition, query, rows, places, index)


def _has(log: Log, name: str, version: int) -> bool:
    last = log.last_commit(name)
    return last is not None and last[0] >= version


def _stage(
    log: Log, options: SinkOptions, batches: Iterable[pa.RecordBatch]
) -> tuple[int, list[tuple[int, int]], list[tuple[int, int]]]:
    """(how many rows, where they are, where their index is)"""
    staging, index = log.staging(options.access.timeout_s), log.staging(options.access.timeout_s)
    digests: list[bytes] = []
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        staging.put(payloads_of(batch, options))
        if options.id_column is not None:
            digests += digests_of(batch, options.id_column)
            whole = len(digests) - len(digests) % IDS_TOGETHER
            index.put(_joined(digests[:whole]))
            del digests[:whole]
    index.put(_joined(digests))
    return rows, list(staging.ordered().runs), list(index.ordered().runs)


def _joined(digests: list[bytes]) -> list[bytes]:
    return [b"".join(digests[at : at + IDS_TOGETHER]) for at in range(0, len(digests), IDS_TOGETHER)]
