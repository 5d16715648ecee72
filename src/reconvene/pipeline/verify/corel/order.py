"""In which order each node came to have its messages: corel.causal and property 3.7.

What a message directly follows is what its author accepted or had before it accepted it. Along each node's file:

- 3.7 holds of a message wherever it is green if all that it follows has lower positions; a node's greens come by
  position (`corel.green`), and positions are the same everywhere (`corel.agreed`). So a running maximum at the author
  decides.
- causal holds of a message at a node if nothing that the node comes to have later, or never, is what it follows. Of
  these only what has a lower position can be. Where nodes have messages in the order of positions there is nothing
  later that has a lower one, so few messages are left: those that a node has *late*. Of these, the first place at
  which the author came to have one of them decides; a running minimum from the file's end, for each author.
  Where 3.7 fails at the author, that is no proof: so that is a fact of both.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.verify.corel.facts import any_of, fact
from reconvene.pipeline.verify.corel.messages import ACCEPTED, HAD, LOGGED
from reconvene.verify.log_history import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["find_misordered"]

_NO_AUTHOR = -2


def find_misordered(rows: "DataFrame") -> "DataFrame":
    """Given the rows of `messages`, the same ones with the facts `misordered` and `had_later`, without had_by."""
    return _had_in_order(_ordered_after_what_they_follow(rows))


def _ordered_after_what_they_follow(rows: "DataFrame") -> "DataFrame":
    """Also with `late`: was one of a higher position, or as little ordered, logged before?"""
    before = Window.partitionBy("rid", "node").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    pos, what = F.col("pos"), F.col("what")
    misordered = (what == ACCEPTED) & (pos < NEVER) & (F.col("highest") >= pos)
    return (
        rows.withColumns({
            "highest": F.max("pos").over(before),
            "highest_logged": F.max(F.when(what == LOGGED, pos)).over(before),
        })
        .withColumns({
            "late": F.coalesce(what.isin(LOGGED, HAD) & (F.col("highest_logged") >= pos), F.lit(False)),
            "facts": any_of(F.col("facts"), fact(misordered, "misordered")),
        })
        .drop("highest", "highest_logged")
    )  # fmt: skip


def _had_in_order(rows: "DataFrame") -> "DataFrame":
    """Each row stands with its message's author; one that is late, besides, with all other nodes that have it."""
    itself = F.struct(
        F.when(F.col("what") == LOGGED, F.coalesce("author", F.lit(_NO_AUTHOR)))
        .otherwise(F.lit(_NO_AUTHOR)).alias("by"),
        F.lit(None).cast("long").alias("since"),
    )  # fmt: skip
    others = F.transform("had_by", lambda one: F.struct(one["node"].alias("by"), one["since"].alias("since")))
    every = F.when(F.col("late"), F.concat(F.array(itself), others)).otherwise(F.array(itself))
    later = (
        Window.partitionBy("rid", "node", "by")
        .orderBy(F.desc("place"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )  # fmt: skip
    follows = F.col("since").isNull() & (F.min("since").over(later) < F.col("accepted"))
    return (
        rows.withColumn("of", F.explode(every))
        .select(*(name for name in rows.columns if name not in ("had_by", "late")), "of.*")
        .withColumn("follows", follows)
        .where(F.col("since").isNull())
        .withColumn("facts", any_of(F.col("facts"), fact(F.col("follows"), "had_later")))
        .drop("by", "since", "follows")
    )
