"""The same rows as the log's, from memory: as fast as a Python data source of Spark can be."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from reconvene.corel.batch import Kind
from reconvene.entries import EntryBatch
from reconvene.pipeline.source.columns import COLUMNS
from reconvene.pipeline.source.rows import Dated, Rows

__all__ = ["InMemory"]

_TOGETHER = 512
"""Messages in a batch of the log, as a site makes them under load."""
_BATCHES = 64
_TIME = 1_750_000_000_000_000_000


class InMemory(DataSource):
    """Options: `rows` in all, `tasks`, and the `size` of a payload. A task makes one Arrow batch and repeats it."""

    @classmethod
    def name(cls) -> str:
        return "reconvene-in-memory"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items() if name != "color")

    def reader(self, schema: StructType) -> "InMemoryReader":
        return InMemoryReader(schema, *(int(self.options[name]) for name in ("rows", "tasks", "size")))


class InMemoryReader(DataSourceReader):
    def __init__(self, schema: StructType, rows: int, tasks: int, size: int) -> None:
        self._schema = schema
        self._rows = rows
        self._tasks = tasks
        self._payload = b"x" * size

    def partitions(self) -> Sequence[InputPartition]:
        each, more = divmod(self._rows, self._tasks)
        return [InputPartition(each + (task < more)) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left: int = partition.value
        batches = [
            EntryBatch(first, "abc"[at % 3], 1, first + 1, _TIME, Kind.DATA, [self._payload] * _TOGETHER)
            for at, first in enumerate(range(0, _BATCHES * _TOGETHER, _TOGETHER))
        ]
        (whole,) = Rows(to_arrow_schema(self._schema, timezone="UTC"), None).batches(
            Dated(batch, batch.time) for batch in batches
        )
        while left > 0:
            yield whole.slice(0, min(left, whole.num_rows))
            left -= whole.num_rows
