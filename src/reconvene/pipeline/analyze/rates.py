"""Deliveries over time: how many in each bucket, and how much that varies.

A run's buckets begin at its first delivery and end at its last, so that the silence before and after does not count.
Their width is the run's own; see `bucket_width`.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.analyze.shapes import DOUBLE, LONG, STRING, bucket_width, of_kind, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["IN_BUCKETS", "RATES", "in_buckets", "rates"]

IN_BUCKETS = table(run=STRING, service=STRING, bucket=LONG, width=LONG, buckets=LONG, deliveries=LONG)
RATES = table(run=STRING, width=LONG, rate=DOUBLE, variance=DOUBLE)


def in_buckets(events: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """One row for each run, service and bucket in which something was delivered: `IN_BUCKETS`. `runs`: `OF_RUNS`."""
    length = F.col("last_delivery") - F.col("first_delivery")
    spans = runs.where(F.col("first_delivery").isNotNull()).select(
        "run", "first_delivery", bucket_width(length).alias("width"), length.alias("span")
    )
    return (
        of_kind(events, "evs", "deliver")
        .select("run", "service", "t")
        .join(F.broadcast(spans), "run")
        .withColumn("bucket", F.expr("(t - first_delivery) div width"))
        .withColumn("buckets", F.expr("span div width + 1"))
        .groupBy("run", "service", "bucket", "width", "buckets")
        .agg(F.count(F.lit(1)).alias("deliveries"))
        .to(IN_BUCKETS)
    )


def rates(buckets: "DataFrame") -> "DataFrame":
    """Of each run, deliveries a second and their variance over its buckets, empty ones too: `RATES`."""
    seconds = F.col("width") / 1e9
    mean = F.col("total") / F.col("buckets")
    return (
        buckets.groupBy("run", "bucket", "width", "buckets")
        .agg(F.sum("deliveries").cast("double").alias("d"))
        .groupBy("run", "width", "buckets")
        .agg(F.sum("d").alias("total"), F.sum(F.col("d") * F.col("d")).alias("squares"))
        .select(
            "run",
            "width",
            (mean / seconds).alias("rate"),
            (F.greatest(F.col("squares") / F.col("buckets") - mean * mean, F.lit(0.0)) / (seconds * seconds)).alias(
                "variance"
            ),
        )
        .to(RATES)
    )
