"""Where Spark finds `format("reconvene")` by itself: it imports every module whose name begins with `pyspark_`.

Nothing is imported here that could be missing: if one such module fails, Spark finds none of them.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

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


P = ParamSpec("P")
T = TypeVar("T")


def _told(method: Callable[P, T]) -> Callable[P, T]:
    """Errors with the line that matters at the top, also where this Python lacks the package or what it needs."""

    @wraps(method)
    def called(*given: P.args, **named: P.kwargs) -> T:
        try:
            from reconvene.pipeline.first_line import first_line

            return first_line(method)(*given, **named)
        except ModuleNotFoundError as error:
            raise _missing(error) from None

    return called


def _missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    line = (
        f"{error.msg}: {sys.executable} lacks it; the driver's Python and every executor's need reconvene[spark], "
        "installed or in an archive, since --py-files carries no compiled modules"
    )
    return ModuleNotFoundError(line, name=error.name)


class DefaultSource(DataSource):
    """The durable, totally ordered log, as a source and as a sink: docs/spark-source.md, docs/spark-sink.md."""

    @classmethod
    def name(cls) -> str:
        return "reconvene"

    @_told
    def schema(self) -> str:
        from reconvene.pipeline.source.columns import column_ddl
        from reconvene.pipeline.source.options import parse_options

        return column_ddl(parse_options(self.options, stream=None))

    @_told
    def reader(self, schema: "StructType") -> "DataSourceReader":
        from reconvene.pipeline.source.batch import BatchReader

        return BatchReader(self.options, schema)

    @_told
    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
        from reconvene.pipeline.source.stream import StreamReader

        return StreamReader(self.options, schema)

    @_told
    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from reconvene.pipeline.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @_told
    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        from reconvene.pipeline.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
