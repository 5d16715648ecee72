"""`df.write.format("reconvene").mode("append")`: once per transaction that has a name, or per row that has an id."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from reconvene.pipeline.first_line import first_line
from reconvene.pipeline.sink.committing import commit, commit_rows, staged_of
from reconvene.pipeline.sink.options import parse_options
from reconvene.pipeline.sink.staged import stage

__all__ = ["BatchWriter"]


class BatchWriter(DataSourceArrowWriter):
    """Made by the driver, and copied to the tasks."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = options = parse_options(given, schema, overwrite, stream=False)
        self._name = None if options.version is None else f"spark application {options.application}"
        self._version = options.version or 0
        self._rows_of = None if options.id_column is None else f"spark rows {options.application}"

    @first_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage(self._options, iterator, self._name, self._version)

    @first_line
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._rows_of is None:
            commit(self._options, staged_of(messages), self._name, self._version)
        else:
            commit_rows(self._options, staged_of(messages), self._rows_of)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What was staged is never seen."""
