"""Messages that waited: accepted while their author was in no primary component.

An author is in one from its `establish` until it leaves that configuration, or fails. So what was accepted while a
new primary component was still being established counts too; it waits for that one only.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.analyze.shapes import LONG, SPREAD, STRING, of_kind, spread, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ACCEPTED", "MINORITIES", "accepted", "minorities"]

ACCEPTED = table(run=STRING, msg=STRING, author=STRING, t=LONG, primary=LONG)
MINORITIES = table(author=STRING, accepted=LONG, waited=LONG, still=LONG, **SPREAD)


def accepted(events: "DataFrame") -> "DataFrame":
    """One row a message that was accepted, with the primary component that its author was in, or null: `ACCEPTED`."""
    # Only few of a node's events are looked at: its way through components, and what it accepted.
    way = Window.partitionBy("run", "node").orderBy("place").rowsBetween(Window.unboundedPreceding, 0)
    moves = (F.col("layer") == "evs") & F.col("kind").isin("conf", "fail", "stop")
    hidden = F.coalesce(F.col("conf_kind") == "hidden", F.lit(False))
    establishes = (F.col("layer") == "corel") & (F.col("kind") == "establish")
    accepts = (F.col("layer") == "corel") & (F.col("kind") == "accept")
    state = F.when(establishes, F.col("primary")).when(moves, F.lit(-1).cast("long"))
    return (
        events.where((moves & ~hidden) | establishes | accepts)
        .withColumn("state", F.last(state, ignorenulls=True).over(way))
        .where(accepts)
        .select(
            "run",
            "msg",
            F.col("node").alias("author"),
            "t",
            F.when(F.col("state") >= 0, F.col("state")).alias("primary"),
        )
        .to(ACCEPTED)
    )


def minorities(found: "DataFrame", events: "DataFrame", exact: bool) -> "DataFrame":
    """By author, and, in the row whose `author` is null, of all: `MINORITIES`. `found`: `ACCEPTED`."""
    green = (
        of_kind(events, "corel", "green")
        .groupBy("run", "msg", F.col("node").alias("author"))
        .agg(F.min("t").alias("green"))
    )
    waited = F.col("primary").isNull()
    return (
        found.join(green, ["run", "msg", "author"], "left")
        .rollup("author")
        .agg(
            F.count(F.lit(1)).alias("accepted"),
            F.count_if(waited).alias("waited"),
            F.count_if(waited & F.col("green").isNull()).alias("still"),
            *spread(F.when(waited, F.col("green") - F.col("t")), exact),
        )
        .to(MINORITIES)
    )
