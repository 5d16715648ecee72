"""The log: how long a message takes from its author's `accept` to its being green, there and at each site.

What a site learned through a snapshot has no green row there, and is not counted at that site.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.analyze.shapes import LONG, SPREAD, STRING, of_kind, spread, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["GREENS", "GREEN_BY", "green_by", "greens"]

GREENS = table(run=STRING, msg=STRING, author=STRING, site=STRING, took=LONG)
GREEN_BY = table(site=STRING, **SPREAD, negative=LONG)


def greens(events: "DataFrame") -> "DataFrame":
    """One row for each message and site at which it became green: `GREENS`."""
    accepted = (
        of_kind(events, "corel", "accept")
        .groupBy("run", "msg")
        .agg(F.min(F.struct("t", F.col("node").alias("author"))).alias("accepted"))
    )
    green = of_kind(events, "corel", "green").select("run", "msg", F.col("node").alias("site"), "t")
    return (
        green.join(accepted, ["run", "msg"])
        .select("run", "msg", "accepted.author", "site", (F.col("t") - F.col("accepted.t")).alias("took"))
        .to(GREENS)
    )


def green_by(found: "DataFrame", exact: bool) -> "DataFrame":
    """By site, and, in the row whose `site` is null, at the authors: `GREEN_BY`."""
    both = F.array(F.struct(F.col("site").alias("site")), F.struct(F.lit(None).cast("string").alias("site")))
    home = F.array(F.struct(F.col("site").alias("site")))
    return (
        found.select("took", F.explode(F.when(F.col("site") == F.col("author"), both).otherwise(home)).alias("at"))
        .groupBy(F.col("at.site").alias("site"))
        .agg(*spread(F.col("took"), exact), F.count_if(F.col("took") < 0).alias("negative"))
        .to(GREEN_BY)
    )
