"""Of runs that are too large to be judged whole: the rows that the judge has to see.

All rows that are not about messages, which are few; and of the others those that the certificates name, the lowest
first, so many for each check that an excerpt stays small whatever is wrong.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.verify.coded import code_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["NAMED", "excerpts", "lowest_of"]

NAMED = 500
"""Messages and events that count, of those that are named for one check in one run."""


def excerpts(events: "DataFrame", runs: "DataFrame", concerned: "DataFrame") -> "DataFrame":
    """The rows of these runs' excerpts, with `checks`, those that name each. `concerned` is CONCERNED of them, the
    lowest."""
    named = _by_name(concerned, runs)
    coded = events.withColumn("code", F.when(F.col("msg").isNotNull(), code_name(F.col("msg"))))
    rows = (
        named.where(F.col("node").isNotNull() & F.col("place").isNotNull())
        .groupBy("run", "node", "place")
        .agg(F.collect_set("check").alias("of_row"))
    )
    # Of a row that is about a message, the others about the same: without them the judge would miss what is there.
    along = coded.join(F.broadcast(rows), ["run", "node", "place"], "left_semi").select("run", "code")
    messages = (
        named.select("run", F.col("msg").alias("code"), F.struct("check", "node").alias("by"))
        .unionByName(along, allowMissingColumns=True)
        .where(F.col("code").isNotNull())
        .groupBy("run", "code")
        .agg(F.collect_set("by").alias("of_message"))
    )
    nothing = F.array().cast("array<string>")
    here = F.filter("of_message", lambda by: by["node"].isNull() | (by["node"] == F.col("node")))
    of_message = F.coalesce(F.transform(here, lambda by: by["check"]), nothing)
    checks = F.array_union(of_message, F.coalesce("of_row", nothing))
    return (
        coded.join(F.broadcast(messages), ["run", "code"], "left")
        .join(F.broadcast(rows), ["run", "node", "place"], "left")
        .where(F.col("msg").isNull() | F.col("of_message").isNotNull() | F.col("of_row").isNotNull())
        .select(*events.columns, checks.alias("checks"))
    )


def lowest_of(concerned: "DataFrame") -> "DataFrame":
    """CONCERNED: of each run and check, the lowest of these."""
    order = Window.partitionBy("rid", "check").orderBy("place", "node", "msg")
    return concerned.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= NAMED).drop("rank")


def _by_name(concerned: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """With `run` and `node` as names."""
    nodes = runs.select("rid", F.posexplode(F.array_sort("nodes")).alias("node", "name"))
    names = runs.select("rid", "run")
    return (
        concerned.join(F.broadcast(names), "rid")
        .join(F.broadcast(nodes), ["rid", "node"], "left")
        .select("run", "check", "msg", F.col("name").alias("node"), "place")
    )
