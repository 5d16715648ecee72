"""Virtual synchrony: no certificate proves anything yet, so every run with the filter's events is judged."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.coded import KINDS
from reconvene.pipeline.verify.found import CONCERNED, FOUND
from reconvene.verify.vs import IDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["certify", "concerned"]

_VIEW, _STOP = KINDS["isis", "view"], KINDS["isis", "stop"]


def certify(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """FOUND: one suspect of each check in every run that has events of the filter."""
    checks = F.explode(F.array(*map(F.lit, IDS)))
    some = coded.where(F.col("kind").between(_VIEW, _STOP)).select("rid").distinct()
    return some.select(
        "rid", checks.alias("check"), F.lit(0).cast("long").alias("cases"), F.lit(1).cast("long").alias("suspects")
    ).select(*FOUND.names)


def concerned(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """CONCERNED: nothing in particular."""
    nothing = {field.name: F.lit(None).cast(field.dataType).alias(field.name) for field in CONCERNED}
    return coded.where(F.lit(False)).select("rid", *(nothing[name] for name in CONCERNED.names if name != "rid"))
