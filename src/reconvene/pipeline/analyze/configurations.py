"""Configuration changes: which sites came together from where, and how long it took.

A change is a regular configuration that was entered from others. It begins when the first of its members leaves its
old regular configuration (enters the transitional one), and has ended when the last one has entered the new one.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.analyze.shapes import LONG, NAMES, SPREAD, STRING, of_kind, spread, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CHANGES", "change_spread", "changes"]

CHANGES = table(
    run=STRING,
    conf=STRING,
    members=NAMES,
    entered=LONG,
    merged=LONG,
    began=LONG,
    took=LONG,
    silence=LONG,
)


def changes(events: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """One row a change: `CHANGES`. `began` is since the run's first event; `runs`: `OF_RUNS`."""
    entered = (F.col("conf_kind") == "regular") & (F.col("kind_before") == "transitional")
    return (
        _way(events)
        .where(entered)
        .groupBy("run", "conf")
        .agg(
            F.min("members").alias("members"),
            F.count(F.lit(1)).alias("entered"),
            F.count_distinct("reg").alias("merged"),
            F.min("left").alias("since"),
            F.max("at").alias("until"),
            F.max(F.col("first") - F.col("last")).alias("silence"),
        )
        .join(F.broadcast(runs.select("run", F.col("first").alias("start"))), "run")
        .withColumn("began", F.col("since") - F.col("start"))
        .withColumn("took", F.col("until") - F.col("since"))
        .to(CHANGES)
    )


def change_spread(found: "DataFrame", exact: bool) -> "DataFrame":
    """One row: how long changes took, all runs together."""
    return found.agg(*spread(F.col("took"), exact)).to(table(**SPREAD))


def _way(events: "DataFrame") -> "DataFrame":
    """Each node's way through configurations, a row for each: when it entered and left it, from which one it came,
    its first delivery there, and the last one before."""
    enters = F.col("kind") == "conf"
    shown = F.coalesce(F.col("conf_kind") != "hidden", F.lit(True))
    told = F.min_by(F.struct("conf_kind", "members", "reg", "t", "place"), F.when(enters, F.col("place")))
    delivered = F.when(~enters, F.col("t"))
    path = Window.partitionBy("run", "node").orderBy("told.place")
    return (
        of_kind(events, "evs", "conf", "deliver")
        .where(shown)
        .groupBy("run", "node", "conf")
        .agg(told.alias("told"), F.min(delivered).alias("first"), F.max(delivered).alias("latest"))
        .where(F.col("told").isNotNull())
        .select(
            *("run", "node", "conf", "told.conf_kind", "told.members", "first"),
            F.col("told.t").alias("at"),
            F.lag("told.conf_kind").over(path).alias("kind_before"),
            F.lag("told.reg").over(path).alias("reg"),
            F.lag("told.t").over(path).alias("left"),
            F.greatest(F.lag("latest").over(path), F.lag("latest", 2).over(path)).alias("last"),
        )
    )
