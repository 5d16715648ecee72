"""Configuration changes: who came together from where, and how long it took.

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
    entered = _entered(events)
    delivered = (
        of_kind(events, "evs", "deliver")
        .groupBy("run", "node", "conf")
        .agg(F.min("t").alias("first"), F.max("t").alias("last"))
    )
    after = delivered.select("run", "node", "conf", "first")
    before = delivered.select("run", "node", F.col("conf").alias("reg"), F.col("last").alias("last_regular"))
    between = delivered.select("run", "node", F.col("conf").alias("by"), F.col("last").alias("last_between"))
    last = F.greatest("last_regular", "last_between")
    return (
        entered.join(after, ["run", "node", "conf"], "left")
        .join(before, ["run", "node", "reg"], "left")
        .join(between, ["run", "node", "by"], "left")
        .groupBy("run", "conf")
        .agg(
            F.min("members").alias("members"),
            F.count_distinct("node").alias("entered"),
            F.count_distinct("reg").alias("merged"),
            F.min("left").alias("since"),
            F.max("t").alias("until"),
            F.max(F.col("first") - last).alias("silence"),
        )
        .join(runs.select("run", F.col("first").alias("start")), "run")
        .withColumn("began", F.col("since") - F.col("start"))
        .withColumn("took", F.col("until") - F.col("since"))
        .to(CHANGES)
    )


def change_spread(found: "DataFrame", exact: bool) -> "DataFrame":
    """One row: how long changes took, all runs together."""
    return found.agg(*spread(F.col("took"), exact)).to(table(**SPREAD))


def _entered(events: "DataFrame") -> "DataFrame":
    """Each node's enterings of regular configurations from transitional ones, and when it left the old one."""
    way = Window.partitionBy("run", "node").orderBy("place")
    return (
        of_kind(events, "evs", "conf")
        .where(F.col("conf_kind") != "hidden")
        .select(
            *("run", "node", "conf", "conf_kind", "members", "t"),
            F.lag("conf_kind").over(way).alias("kind_before"),
            F.lag("conf").over(way).alias("by"),
            F.lag("reg").over(way).alias("reg"),
            F.lag("t").over(way).alias("left"),
        )
        .where((F.col("conf_kind") == "regular") & (F.col("kind_before") == "transitional"))
    )
