"""The rows that move a node or hide a configuration, of which `reconvene.verify.evs.ways` makes the nodes' ways."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from reconvene.pipeline.verify.coded import code_name
from reconvene.pipeline.verify.evs.files import STOP
from reconvene.verify.codes import DELIVER, SEND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["WAY", "way_rows"]

WAY = T.StructType([
    T.StructField("node", T.IntegerType(), True),
    T.StructField("place", T.LongType(), True),
    T.StructField("inc", T.IntegerType(), True),
    T.StructField("kind", T.ByteType(), True),
    T.StructField("conf", T.LongType(), True),
    T.StructField("reg", T.LongType(), True),
    T.StructField("alone", T.BooleanType(), True),
    T.StructField("rows", T.LongType(), False),
])  # fmt: skip
"""An event that moves a node, or hides a configuration. reg: of a transitional one. alone: it holds the node alone.
One row of each run, without a node, has the number of `rows` of other layers."""


def way_rows(coded: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """rid, and the columns of WAY."""
    names = runs.select(code_name(F.col("run")).alias("rid"), F.array_sort("nodes").alias("names"))
    moves = F.col("kind") <= STOP
    keys = ["node", "place", "inc", "kind", "conf", "reg", "members"]
    return (
        coded.where(~F.col("kind").isin(SEND, DELIVER))
        .select("rid", *(F.when(moves, F.col(key)).alias(key) for key in keys))
        .groupBy("rid", *keys)
        .agg(F.count(F.lit(1)).alias("rows"))
        .join(names, "rid")
        .withColumn("alone", F.array_distinct("members") == F.array(F.get("names", F.col("node"))))
        .select("rid", *WAY.names)
    )
