"""Makes traces on Spark, and writes them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from reconvene.lab.generate.recipe import Recipe
from reconvene.pipeline.schema import EVENTS, RUNS
from reconvene.pipeline.traces import Traces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["generate", "tasks_of", "write_traces"]

_ROWS_IN_A_TASK = 400_000


def generate(spark: "SparkSession", how: Recipe) -> Traces:
    """The traces of a recipe, made when they are read."""
    ids = spark.range(0, how.turns, 1, tasks_of(how))
    events = ids.mapInArrow(_making(how), EVENTS)
    ordered = events.withColumn("split", F.spark_partition_id().cast("long"))
    return Traces(runs=_runs(spark, how), events=events, ordered=ordered)


def tasks_of(how: Recipe) -> int:
    """By how many tasks the events are made."""
    return max(1, min(how.turns, how.events // _ROWS_IN_A_TASK))


def _making(how: Recipe) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from how.make(batch.column(0).to_numpy())

    return make


def _runs(spark: "SparkSession", how: Recipe) -> "DataFrame":
    """The runs: equal but for their names and seeds."""
    one = how.run(0)
    known: dict[str, Column] = {
        "schema": F.lit(one.schema),
        "run": F.concat(F.lit(f"{how.plan.prefix}-"), F.lpad(F.col("id").cast("string"), 6, "0")),
        "nodes": F.array(*map(F.lit, one.nodes)),
        "stack": F.lit(one.stack),
        "order": F.lit(one.order),
        "seed": F.col("id"),
        "settled": F.lit(one.settled),
        "components": F.array(*(F.array(*map(F.lit, part)) for part in one.components)),
        "down": F.array(),
        "quorum": F.lit(json.dumps(one.quorum)),
        "followers": F.array(),
        "outposts": F.array(),
    }
    return spark.range(0, how.plan.runs, 1, 1).select(
        *(known[field.name].cast(field.dataType).alias(field.name) for field in RUNS.fields)
    )


def write_traces(traces: Traces, directory: str | Path) -> None:
    """Writes the Parquet form. Given events that are in order within each task, as `generate` makes them."""
    events = traces.events.sortWithinPartitions("run", "node", "place").drop("place")
    events.write.mode("errorifexists").partitionBy("run").option("compression", "zstd").parquet(f"{directory}/events")
    traces.runs.coalesce(1).write.mode("errorifexists").parquet(f"{directory}/runs")
