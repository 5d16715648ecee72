"""How much there is: of each site in each run, and from that of runs, of sites, and of everything."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.analyze.shapes import LONG, STRING, table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["COUNTS", "OF_EVERYTHING", "OF_RUNS", "OF_SITES", "counts_by_site", "of_everything", "of_runs", "of_sites"]

_SUMS = ("events", "sends", "deliveries", "fails", "stops", "accepts", "greens", "snapshots", "incarnations")
_CLOCKS = ("first", "last", "first_delivery", "last_delivery")
COUNTS = table(run=STRING, node=STRING, **dict.fromkeys((*_SUMS, *_CLOCKS), LONG))
OF_RUNS = table(run=STRING, **dict.fromkeys((*_SUMS, *_CLOCKS, "length"), LONG))
OF_SITES = table(node=STRING, **dict.fromkeys(_SUMS, LONG))
OF_EVERYTHING = table(**dict.fromkeys((*_SUMS, "sites", "runs"), LONG))


def counts_by_site(events: "DataFrame") -> "DataFrame":
    """One row for each node of each run: `COUNTS`."""
    delivered = _is("evs", "deliver")
    counted = {
        "sends": _is("evs", "send"),
        "deliveries": delivered,
        "fails": _is("evs", "fail"),
        "stops": _is("evs", "stop"),
        "accepts": _is("corel", "accept"),
        "greens": _is("corel", "green"),
        "snapshots": _is("corel", "snapshot"),
    }
    return (
        events.groupBy("run", "node")
        .agg(
            F.count(F.lit(1)).alias("events"),
            *(F.count_if(which).alias(name) for name, which in counted.items()),
            F.max("inc").cast("long").alias("incarnations"),
            F.min("t").alias("first"),
            F.max("t").alias("last"),
            F.min(F.when(delivered, F.col("t"))).alias("first_delivery"),
            F.max(F.when(delivered, F.col("t"))).alias("last_delivery"),
        )
        .to(COUNTS)
    )


def of_runs(counts: "DataFrame") -> "DataFrame":
    """One row a run: the sums, the clocks at its first and last event and delivery, and its length."""
    return (
        counts.groupBy("run")
        .agg(
            *_sums(),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.min("first_delivery").alias("first_delivery"),
            F.max("last_delivery").alias("last_delivery"),
        )
        .withColumn("length", F.col("last") - F.col("first"))
        .to(OF_RUNS)
    )


def of_sites(counts: "DataFrame") -> "DataFrame":
    """One row a site's name, over all runs."""
    return counts.groupBy("node").agg(*_sums()).to(OF_SITES)


def of_everything(counts: "DataFrame") -> "DataFrame":
    """One row."""
    names = (F.count_distinct("node").alias("sites"), F.count_distinct("run").alias("runs"))
    return counts.agg(*_sums(), *names).to(OF_EVERYTHING)


def _is(layer: str, kind: str) -> "Column":
    return (F.col("layer") == layer) & (F.col("kind") == kind)


def _sums() -> list["Column"]:
    return [F.sum(name).alias(name) for name in _SUMS]
