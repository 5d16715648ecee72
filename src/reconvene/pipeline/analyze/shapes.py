"""What the measures share: declared tables, distributions of durations, and buckets of time."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from reconvene.report.measures import BUCKETS, CURVE, Spread

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

__all__ = [
    "ACCURACY",
    "DOUBLE",
    "EXACT_UP_TO",
    "LONG",
    "NAMES",
    "SPREAD",
    "STRING",
    "bucket_width",
    "of_kind",
    "shown_spread",
    "spread",
    "table",
]

STRING, LONG, DOUBLE, NAMES = T.StringType(), T.LongType(), T.DoubleType(), T.ArrayType(T.StringType())

EXACT_UP_TO = 5_000_000
"""Values. Exact percentiles keep every distinct value in memory; above it they are estimated."""
ACCURACY = 10_000
"""An estimated percentile's rank is off by no more than 1 in so many."""

SPREAD: dict[str, T.DataType] = {"count": LONG, "mean": DOUBLE, "longest": DOUBLE, "curve": T.ArrayType(DOUBLE)}
"""The columns that `spread` returns."""


def table(**columns: T.DataType) -> T.StructType:
    """A table's schema."""
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])


def of_kind(events: "DataFrame", layer: str, *kinds: str) -> "DataFrame":
    return events.where((F.col("layer") == layer) & F.col("kind").isin(*kinds))


def spread(duration: "Column", exact: bool) -> list["Column"]:
    """Aggregates of a duration in ns: see `SPREAD`."""
    if exact:
        curve = F.percentile(duration, list(CURVE))
    else:
        curve = F.percentile_approx(duration, list(CURVE), ACCURACY).cast("array<double>")
    return [
        F.count(duration).alias("count"),
        F.avg(duration).alias("mean"),
        F.max(duration).cast("double").alias("longest"),
        curve.alias("curve"),
    ]


def shown_spread(row: "Row | None", curve: bool = False) -> Spread:
    """From a collected row with the columns of `SPREAD`."""
    if row is None or not row["count"]:
        return Spread(count=0)
    at = dict(zip(CURVE, row["curve"], strict=True))
    return Spread(
        count=row["count"],
        mean=row["mean"],
        p50=at[0.5],
        p99=at[0.99],
        p999=at[0.999],
        max=row["longest"],
        curve=list(row["curve"]) if curve else [],
    )


def bucket_width(length: "Column") -> "Column":
    """1, 2 or 5 times a power of ten, in ns, so that this length has at most `BUCKETS` buckets."""
    rough = F.greatest(length.cast("double") / (BUCKETS - 1), F.lit(1.0))
    power = F.pow(F.lit(10.0), F.floor(F.log10(rough)))
    return (
        F.when(power >= rough, power)
        .when(power * 2 >= rough, power * 2)
        .when(power * 5 >= rough, power * 5)
        .otherwise(power * 10)
        .cast("long")
    )
