"""How long deliveries take: from the clock at a message's sending to the clock at each delivery.

The clocks are those of the two sites. Between machines they differ, and a delivery may seem to come first.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.analyze.shapes import DOUBLE, LONG, SPREAD, STRING, of_kind, spread, table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["LATENCIES", "LATENCY_BY", "latencies", "latency_by"]

LATENCIES = table(run=STRING, msg=STRING, service=STRING, sender=STRING, site=STRING, latency=LONG)
LATENCY_BY = table(
    level=STRING,
    service=STRING,
    site=STRING,
    sender=STRING,
    **SPREAD,
    negative=LONG,
    jain_count=DOUBLE,
    jain_mean=DOUBLE,
    groups=LONG,
)


def latencies(events: "DataFrame") -> "DataFrame":
    """One row a delivery whose sending is in the trace: `LATENCIES`."""
    sent = (
        of_kind(events, "evs", "send")
        .groupBy("run", "msg")
        # A message is sent once. Where a trace says otherwise, the first counts.
        .agg(F.min(F.struct("t", F.col("node").alias("sender"), "service")).alias("sent"))
    )
    delivered = of_kind(events, "evs", "deliver").select("run", "msg", F.col("node").alias("site"), "t")
    return (
        delivered.join(sent, ["run", "msg"])
        .select("run", "msg", "sent.service", "sent.sender", "site", (F.col("t") - F.col("sent.t")).alias("latency"))
        .to(LATENCIES)
    )


def latency_by(found: "DataFrame", exact: bool) -> "DataFrame":
    """By service, by service and site, and by sender: `LATENCY_BY`. The index is Jain's, among those of a level."""
    level = F.when(F.col("sender").isNotNull(), "sender").when(F.col("site").isNotNull(), "site").otherwise("service")
    alike = Window.partitionBy("level")

    def jain(name: str) -> "Column":
        squares = F.sum(F.pow(name, F.lit(2.0))).over(alike)
        index = F.try_divide(F.pow(F.sum(name).over(alike), F.lit(2.0)), F.count(F.lit(1)).over(alike) * squares)
        # What no clock can have measured is left out.
        return F.when(F.min(name).over(alike) >= 0, index)

    return (
        found.groupingSets([("service",), ("service", "site"), ("sender",)], "service", "site", "sender")
        .agg(*spread(F.col("latency"), exact), F.count_if(F.col("latency") < 0).alias("negative"))
        .withColumn("level", level)
        .withColumn("jain_count", jain("count"))
        .withColumn("jain_mean", jain("mean"))
        .withColumn("groups", F.count(F.lit(1)).over(alike))
        .to(LATENCY_BY)
    )
