"""Messages that a node had red more than once: each time they must have been yellow."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.verify.codes import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["find_never_yellow"]

_YELLOW, _RED, _GREEN = (KINDS["corel", kind] for kind in ("yellow", "red", "green"))


def find_never_yellow(coded: "DataFrame") -> "DataFrame":
    """The red events, of a message that is red at the node twice or more often, before which its last change of
    colour was not to yellow: rid, node, place, msg."""
    kind = F.col("kind")
    again = (
        coded.where(kind == _RED)
        .groupBy("rid", "node", "msg")
        .agg(F.count("*").alias("reds"))
        .where(F.col("reds") > 1)
    )
    changes = Window.partitionBy("rid", "node", "msg").orderBy("place")
    return (
        coded.where(kind.isin(_YELLOW, _RED, _GREEN))
        .select("rid", "node", "msg", "place", "kind")
        .join(F.broadcast(again.drop("reds")), ["rid", "node", "msg"], "left_semi")
        .withColumn("before", F.lag("kind").over(changes))
        .where((kind == _RED) & ~F.col("before").eqNullSafe(_YELLOW))
        .select("rid", "node", "place", "msg")
    )
