"""Where Spark finds `format("reconvene")` by itself: it imports every module whose name begins with `pyspark_`.

Nothing is imported here that could be missing: if one such module fails, Spark finds none of them.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The durable, totally ordered log, as a source and as a sink: docs/spark-source.md, docs/spark-sink.md."""

    @classmethod
    def name(cls) -> str:
        return "reconvene"

    def schema(self) -> str:
        from reconvene.pipeline.source.columns import column_ddl
        from reconvene.pipeline.source.options import parse_options

        return column_ddl(parse_options(self.options, stream=None))

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from reconvene.pipeline.source.batch import BatchReader

        return BatchReader(self.options, schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
        from reconvene.pipeline.source.stream import StreamReader

        return StreamReader(self.options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from reconvene.pipeline.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        from reconvene.pipeline.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
