"""The streaming query that judges traces while they grow, and what the driver makes of its batches.

The source (`tail`) hands over whole lines; each trace's are brought together by its name, with what is kept of it in
Spark's state store (`following`). The driver gets one row a trace and batch.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from reconvene.pipeline.first_line import first_line_of_each
from reconvene.pipeline.judge.following import Followed, Told
from reconvene.pipeline.judge.tail import TailSource
from reconvene.pipeline.refusals import plain_errors

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.state import GroupState

__all__ = ["follow_traces", "wait_for"]

_TOLD = StructType([StructField("trace", StringType(), False), StructField("told", BinaryType(), False)])
_STATE = StructType([StructField("followed", BinaryType(), False)])


def follow_traces(
    spark: SparkSession,
    traces: Sequence[Path],
    checkpoint: Path,
    tell: Callable[[Told], None],
    *,
    every: str = "1 second",
    final: bool = False,
) -> StreamingQuery:
    """Begins, or goes on from the checkpoint. `tell` is called once a batch and trace; after a restart the last batch
    may be repeated. final: it reads to where the files end now, as the end of the traces, and ends."""
    spark.dataSource.register(TailSource)
    with plain_errors():
        told = msgspec.json.encode([str(trace.absolute()) for trace in traces]).decode()
        source = spark.readStream.format(TailSource.name()).option("traces", told)
        pieces = source.option("final", str(final).lower()).load()
        found = pieces.groupBy("trace").applyInPandasWithState(_take, _TOLD, _STATE, "update", "NoTimeout")
        writer = found.writeStream.outputMode("update").foreachBatch(_Batch(tell))
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer = writer.trigger(availableNow=True) if final else writer.trigger(processingTime=every)
        return writer.queryName("judge").start()


def wait_for(query: StreamingQuery, seconds: float) -> bool:
    """Is it over by then? Raises what ended it, in one line."""
    with plain_errors():
        return bool(query.awaitTermination(seconds))  # type: ignore[arg-type]  # fractions are taken


@first_line_of_each
def _take(key: tuple[str], pieces: "Iterator[pd.DataFrame]", state: "GroupState") -> "Iterator[pd.DataFrame]":
    import pandas as pd

    (trace,) = key
    followed = Followed.load(bytes(state.get[0])) if state.exists else Followed(trace)
    rows = (
        (node, int(start), bytes(data))
        for piece in pieces
        for node, start, data in zip(piece["node"], piece["start"], piece["data"], strict=True)
    )
    told = followed.take(rows)
    state.update((followed.dump(),))
    yield pd.DataFrame({"trace": [trace], "told": [msgspec.json.encode(told)]})


class _Batch:
    def __init__(self, tell: Callable[[Told], None]) -> None:
        self._tell = tell

    def __call__(self, found: DataFrame, batch: int) -> None:
        rows: list[Any] = found.collect()
        for row in sorted(rows, key=lambda row: str(row.trace)):
            self._tell(msgspec.json.decode(bytes(row.told), type=Told))
