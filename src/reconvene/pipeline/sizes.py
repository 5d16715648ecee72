"""How large each run is, and what it has events of: what the engine has to know before it makes a plan."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["LAYERS", "add_sizes", "size_columns", "sizes_of"]

LAYERS = ("evs", "corel", "vs", "isis")
"""In `layers`, an integer, a bit for each, in this order."""


def size_columns() -> "Mapping[str, Column]":
    """The columns of SIZES but `run`, as aggregates over events: rows; layers, those that have events; offers,
    whether an outpost of the log has offered something."""
    layer = F.col("layer")
    bits = F.bit_or(
        F.coalesce(*(F.when(layer == name, F.lit(1 << bit)) for bit, name in enumerate(LAYERS)), F.lit(0))
    )
    return {
        "rows": F.count("*"),
        "layers": bits,
        "offers": F.max((layer == "corel") & (F.col("kind") == "offer")),
    }


def sizes_of(events: "DataFrame") -> "DataFrame":
    return events.groupBy("run").agg(*(column.alias(name) for name, column in size_columns().items()))


def add_sizes(pieces: "DataFrame") -> "DataFrame":
    """SIZES of runs whose events were counted in pieces."""
    return pieces.groupBy("run").agg(
        F.sum("rows").alias("rows"), F.bit_or("layers").alias("layers"), F.max("offers").alias("offers")
    )
