"""Process groups in the manner of ISIS: nothing is proven here. A run that has such events is judged whole."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from reconvene.pipeline.verify.found import CONCERNED, FOUND, Tables
from reconvene.verify.check import Check
from reconvene.verify.codes import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["certify", "concerned"]

_KINDS = [code for (layer, _), code in KINDS.items() if layer == "isis"]


def certify(tables: Tables, checks: Sequence[Check[Any, Any]]) -> "DataFrame":
    """FOUND: of each run that has events of process groups, one suspect for each of these checks."""
    runs = tables.coded.where(F.col("kind").isin(*_KINDS)).select("rid").distinct()
    named = F.explode(F.array(*(F.lit(check.id) for check in checks)).cast("array<string>")).alias("check")
    counts = (F.lit(0).cast("long").alias("cases"), F.lit(1).cast("long").alias("suspects"))
    return runs.select("rid", named, *counts).select(*FOUND.names)


def concerned(tables: Tables, checks: Sequence[Check[Any, Any]]) -> "DataFrame":
    """CONCERNED: nothing, since no such run is judged by an excerpt."""
    nothing = tables.coded.where(F.lit(False)).withColumn("check", F.lit(""))
    return nothing.select(*CONCERNED.names)
