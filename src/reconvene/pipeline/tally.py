"""A live aggregation: how many messages, by window of the log's time, and by keys in the payload.

The window is of `log_time`, which never falls back along the order; so nothing is ever late. A minority that rejoins
after hours has its messages counted in the window in which they were ordered. Windows of `time`, the author's own
clock, would lie behind the watermark by then, and Spark would drop them without a word.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from reconvene.errors import Malformed
from reconvene.pipeline.export.query import Export
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.session import SHUFFLE_PARTITIONS

__all__ = ["TALLY_DEFAULTS", "follow_tally", "tally_by_window"]

Row = tuple[str, str, int]
"""The window's start, the key, and how many."""

TALLY_DEFAULTS = {SHUFFLE_PARTITIONS: "4"}
"""For the session of a tally. Windows and keys are few: a state store for each of Spark's two hundred partitions
would cost seconds a batch."""


def tally_by_window(log: DataFrame, window: str, *keys: str) -> DataFrame:
    """`log`: rows of the source, streaming or not. `keys`: columns, or expressions over them. Returns window_start,
    window_end, the keys, and count, as Spark's update mode reports them."""
    by = [F.expr(key).alias(key) for key in keys]
    return (
        log.withWatermark("log_time", "0 seconds")
        .groupBy(F.window("log_time", window), *by)
        .agg(F.count("*").alias("count"))
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            *(F.col(f"`{key}`") for key in keys),
            "count",
        )
    )


def follow_tally(
    spark: SparkSession,
    options: Mapping[str, str],
    window: str,
    keys: tuple[str, ...],
    tell: Callable[[list[Row]], None],
    *,
    checkpoint: Path,
    once: bool = False,
    every: str = "5 seconds",
) -> Export:
    """Begins to tally; `tell` gets the counts that have changed, batch by batch. Each is the window's whole count, so
    that one that is told again after a crash changes nothing."""
    with plain_errors():
        log = spark.readStream.format("reconvene").options(**options).load()
        try:
            counts = tally_by_window(log, window, *keys)
            counts.columns  # noqa: B018  # through Connect nothing is looked at before
        except Exception as error:
            raise Malformed(
                f"--window {window}, --by {', '.join(keys)}: {str(error).splitlines()[0][:200]}"
            ) from None

        def step(changed: DataFrame, batch: int) -> None:
            key = F.concat_ws(", ", *(F.col(f"`{name}`").cast("string") for name in keys))
            rows = changed.select(F.col("window_start").cast("string"), key, "count").orderBy("window_start")
            tell([(row[0], row[1], row[2]) for row in rows.collect()])

        writer = counts.writeStream.outputMode("update").foreachBatch(step)
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
        return Export(writer.queryName("tally").start())
