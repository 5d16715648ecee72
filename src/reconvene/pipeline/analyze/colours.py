"""How many messages of the log are red, yellow and green, over the time of one run, summed over its sites.

A message is red at a site from its `log` on; what a snapshot covers turns green with it.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.analyze.shapes import LONG, of_kind, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TURNS", "turns"]

TURNS = table(bucket=LONG, red=LONG, yellow=LONG, green=LONG)
_COLOURS = ("red", "yellow", "green")


def turns(events: "DataFrame", start: int, width: int, snapshots: bool) -> "DataFrame":
    """By how much the number of each colour changes in each bucket, of the events of one run: `TURNS`.

    `snapshots`: are there any?"""
    rows = of_kind(events, "corel", "log", "yellow", "red", "green").select(
        "node", "msg", "place", "t", F.when(F.col("kind") == "log", F.lit("red")).otherwise(F.col("kind")).alias("to")
    )
    life = Window.partitionBy("node", "msg").orderBy("place")
    if snapshots:
        rows = rows.unionByName(_covered(events, rows))
    turned = rows.withColumn("was", F.lag("to").over(life))
    return (
        turned.withColumn("bucket", F.expr(f"(t - {start}) div {width}"))
        .groupBy("bucket")
        .agg(
            *(
                (F.count_if(F.col("to") == colour) - F.count_if(F.col("was") == colour)).alias(colour)
                for colour in _COLOURS
            )
        )
        .to(TURNS)
    )


def _covered(events: "DataFrame", rows: "DataFrame") -> "DataFrame":
    """Messages that a site has, that are not green there, and lie below the position of its last snapshot."""
    snapshots = (
        of_kind(events, "corel", "snapshot")
        .groupBy("node")
        .agg(F.max(F.struct("pos", "t", "place")).alias("snapshot"))
    )
    positions = of_kind(events, "corel", "green").groupBy("msg").agg(F.min("pos").alias("pos"))
    return (
        rows.groupBy("node", "msg")
        .agg(F.max(F.col("to") == "green").alias("green"))
        .where(~F.col("green"))
        .join(F.broadcast(snapshots), "node")
        .join(positions, "msg")
        .where(F.col("pos") < F.col("snapshot.pos"))
        .select("node", "msg", "snapshot.place", "snapshot.t", F.lit("green").alias("to"))
    )
