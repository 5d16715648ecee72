"""The log as a Spark sink: tasks stage rows in the log, and one commit of the driver's makes them visible."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["batch_writer", "stream_writer"]


def batch_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "DataSourceWriter":
    """Of `df.write.format("reconvene")`. Raises Malformed."""
    from reconvene.pipeline.sink.batch import BatchWriter

    return BatchWriter(options, schema, overwrite)


def stream_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
    """Of `df.writeStream.format("reconvene")`. Raises Malformed."""
    from reconvene.pipeline.sink.stream import StreamWriter

    return StreamWriter(options, schema, overwrite)
