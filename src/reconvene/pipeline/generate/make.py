"""Makes traces of a given size."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from reconvene.errors import Malformed
from reconvene.pipeline.generate.evs import evs_events, evs_plan
from reconvene.pipeline.generate.filtered import filtered_events, filtered_plan
from reconvene.pipeline.generate.log import log_events, log_plan
from reconvene.pipeline.generate.plan import Plan, Turns
from reconvene.pipeline.schema import EVENTS, RUNS
from reconvene.pipeline.traces import Traces
from reconvene.trace.events import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["STACKS", "generate", "write_traces"]

_ROWS_IN_A_TASK = 400_000
_ROWS_AT_ONCE = 100_000

_Planner = Callable[[int, int, int, int, int], Plan]
_Maker = Callable[[Plan, Turns], pa.RecordBatch]

STACKS: dict[str, tuple[_Planner, _Maker]] = {
    "evs": (evs_plan, evs_events),
    "corel": (log_plan, log_events),
    "filter": (filtered_plan, filtered_events),
}


def generate(
    spark: "SparkSession",
    events: int,
    *,
    runs: int = 1,
    nodes: int = 5,
    stack: str = "evs",
    changes: int = 0,
    pack: int = 4,
) -> Traces:
    """Traces of about so many events in all, which keep every promise.

    changes: how often the configuration changes in each run; by turns the network parts and merges.
    pack: how many messages each node originates in a row.
    """
    if stack not in STACKS:
        raise Malformed(f"stack is {stack!r}; expected one of {', '.join(STACKS)}")
    if min(events, runs, nodes, pack) < 1 or changes < 0:
        raise Malformed("expected one or more events, runs, nodes and messages in a pack, and 0 or more changes")
    planner, maker = STACKS[stack]
    plan = planner(events, runs, nodes, changes, pack)
    turns = plan.runs * plan.nodes * plan.turns
    ids = spark.range(0, turns, 1, max(1, min(turns, events // _ROWS_IN_A_TASK)))
    return Traces(runs=_runs(spark, plan, stack), events=ids.mapInArrow(_making(plan, maker), EVENTS))


def _making(plan: Plan, maker: _Maker) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    at_once = max(1, _ROWS_AT_ONCE // plan.stride)

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column(0).to_numpy()
            for begin in range(0, len(ids), at_once):
                yield maker(plan, Turns(plan, ids[begin : begin + at_once]))

    return make


def _runs(spark: "SparkSession", plan: Plan, stack: str) -> "DataFrame":
    known = {
        "schema": F.lit(SCHEMA),
        "run": F.expr("concat('made-', lpad(cast(id as string), 6, '0'))"),
        "nodes": F.array(*map(F.lit, plan.names())),
        "stack": F.lit("corel" if stack == "corel" else "evs"),
        "order": F.lit("atop"),
        "seed": F.col("id"),
        "settled": F.lit(True),
        "components": F.array(*(F.array(*map(F.lit, part)) for part in plan.components())),
        "down": F.array(),
        "quorum": F.lit(json.dumps({"kind": "majority"})),
    }
    return spark.range(0, plan.runs, 1, 1).select(
        *(known[field.name].cast(field.dataType).alias(field.name) for field in RUNS.fields)
    )


def write_traces(traces: Traces, directory: str | Path) -> None:
    """In the Parquet form. Given events that tasks hold in order, as `generate` makes them."""
    events = traces.events.sortWithinPartitions("run", "node", "place").drop("place")
    events.write.mode("errorifexists").partitionBy("run").option("compression", "zstd").parquet(f"{directory}/events")
    traces.runs.coalesce(1).write.mode("errorifexists").parquet(f"{directory}/runs")
