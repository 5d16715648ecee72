"""Makes traces of a given size."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.errors import Malformed
from reconvene.pipeline.generate.evs import evs_stride, make_evs
from reconvene.pipeline.generate.plan import Plan
from reconvene.pipeline.schema import EVENTS, RUNS
from reconvene.pipeline.traces import Traces
from reconvene.trace.events import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["STACKS", "generate", "write_traces"]

STACKS = ("evs",)


def generate(
    spark: "SparkSession", events: int, *, runs: int = 1, nodes: int = 5, stack: str = "evs", changes: int = 0,
    pack: int = 4,
) -> Traces:  # fmt: skip
    """Traces of about so many events in all, which keep every promise.

    changes: how often the configuration changes in each run; by turns the network parts and merges.
    pack: how many messages each node originates in a row.
    """
    if stack not in STACKS:
        raise Malformed(f"stack is {stack!r}; expected one of {', '.join(STACKS)}")
    if min(events, runs, nodes, pack) < 1 or changes < 0:
        raise Malformed("expected one or more events, runs, nodes and messages in a pack, and 0 or more changes")
    plan = _plan(events, runs, nodes, changes, pack)
    made = make_evs(spark, plan, events)
    return Traces(runs=_runs(spark, plan, stack), events=_finish(made, plan))


def _plan(events: int, runs: int, nodes: int, changes: int, pack: int) -> Plan:
    spells = changes + 1
    most = nodes // 2 + 1
    whole = nodes * pack * (1 + nodes)
    parted = pack * (nodes + most**2 + (nodes - most) ** 2)
    rows = whole * ((spells + 1) // 2) + parted * (spells // 2)
    return Plan(runs, nodes, spells, max(2, round(events / runs / rows)), pack, evs_stride(nodes, pack))


def _finish(made: "DataFrame", plan: Plan) -> "DataFrame":
    """The table `events`, of rows that say what happened, when and where (run, node, t, turn, k)."""
    place = F.expr(f"turn * {plan.stride}L + k")
    known = {"place": place, "n": place, "inc": F.lit(1), **{name: F.col(name) for name in made.columns}}
    return made.select(
        *(known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in EVENTS.fields)
    )


def _runs(spark: "SparkSession", plan: Plan, stack: str) -> "DataFrame":
    names = [plan.name(node) for node in range(plan.nodes)]
    known = {
        "schema": F.lit(SCHEMA),
        "run": F.expr("concat('made-', lpad(cast(id as string), 6, '0'))"),
        "nodes": F.array(*map(F.lit, names)),
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
