"""`df.writeStream.format("reconvene")`: each batch of the query once, however often Spark writes and commits it."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from reconvene.errors import Unavailable
from reconvene.pipeline.first_line import first_line
from reconvene.pipeline.sink.committing import commit, staged_of
from reconvene.pipeline.sink.options import parse_options
from reconvene.pipeline.sink.staged import stage

__all__ = ["StreamWriter"]

_QUERY = "sql.streaming.queryId"
"""The same after a restart from the checkpoint."""
_BATCH = "streaming.sql.batchId"


class StreamWriter(DataSourceStreamArrowWriter):
    """Made by the driver for each batch, and copied to the tasks. What they know comes back in messages only."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = parse_options(given, schema, overwrite, stream=True)

    @first_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context is not None else None
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if query is None or batch is None:
            raise Unavailable(f"Spark does not tell the task its query and batch ({_QUERY}, {_BATCH})")
        return stage(self._options, iterator, _name(query), int(batch), query)

    @first_line
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = staged_of(messages)
        if staged:
            commit(self._options, staged, _name(staged[0].query), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was staged is never seen, unless it was committed: then it stays."""


def _name(query: str) -> str:
    return f"spark query {query}"
