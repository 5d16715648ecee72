"""The total order as such: which message has a position (corel.agreed), how far positions go without a gap, which is
how far a snapshot may go (corel.3.1), and which snapshots take something back (corel.green)."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.verify.along import Along, Last
from reconvene.pipeline.verify.corel.files import next_position
from reconvene.verify.codes import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["find_gaps", "find_shared", "find_taking_back", "place_messages"]

_GREEN, _SNAPSHOT = KINDS["corel", "green"], KINDS["corel", "snapshot"]


def place_messages(coded: "DataFrame") -> "DataFrame":
    """One row of a position that a green event has: rid, pos, and the lowest and highest code of its messages."""
    greens = coded.where(F.col("kind") == _GREEN)
    return greens.groupBy("rid", "pos").agg(F.min("msg").alias("msg"), F.max("msg").alias("other"))


def find_shared(placed: "DataFrame") -> "DataFrame":
    """The positions that several messages have."""
    return placed.where(F.col("msg") != F.col("other"))


def find_gaps(placed: "DataFrame", coded: "DataFrame") -> "DataFrame":
    """Of each snapshot below which a position is nobody's: rid, node, place."""
    snapshots = coded.where(F.col("kind") == _SNAPSHOT).select("rid", "node", "place", "pos")
    lines = snapshots.groupBy("rid").agg(F.array_sort(F.collect_set("pos")).alias("lines"))
    # Positions from one line up to the next; a line is reached if those below it are as many as it says.
    below = F.size(F.filter("lines", lambda line: line <= F.col("pos")))
    counted = (
        placed.join(F.broadcast(lines), "rid")
        .groupBy("rid", F.get("lines", below).alias("pos"))
        .agg(F.count("*").alias("positions"))
        .where(F.col("pos").isNotNull())
    )
    upwards = Window.partitionBy("rid").orderBy("pos").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        snapshots.join(F.broadcast(counted), ["rid", "pos"], "left")
        .withColumn("first", F.row_number().over(Window.partitionBy("rid", "pos").orderBy("node", "place")) == 1)
        .withColumn("reached", F.sum(F.when(F.col("first"), F.col("positions"))).over(upwards))
        .where(F.coalesce("reached", F.lit(0)) < F.col("pos"))
        .select("rid", "node", "place")
    )


def find_taking_back(coded: "DataFrame") -> "DataFrame":
    """The snapshots that are below their node's next position: rid, node, place."""
    kind, pos = F.col("kind"), F.col("pos")
    rows = coded.where(kind.isin(_GREEN, _SNAPSHOT)).select(
        "rid", "node", "place", "split", "kind", "pos", next_position().alias("here")
    )
    along = Along(keys=("rid", "node"), carried={"following": Last("here", before=True)})
    return (
        along.follow(rows, ("rid", "node", "place", "kind", "pos"))
        .where((kind == _SNAPSHOT) & (pos < F.col("following")))
        .select("rid", "node", "place")
    )
