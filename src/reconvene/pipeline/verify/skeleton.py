"""A run without its messages: the rows about configurations and primary components.

They are few, however many messages a run has. So one task takes all of one run's, and each check that declares a
skeleton judges them: exactly, since what depends on configurations alone is the same whether or not the messages are
there. Made besides: the tables CONFS and ENDS, with which the tables of messages are joined.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from reconvene.pipeline.verify.coded import code_name, is_bone
from reconvene.pipeline.verify.found import CONFS, ENDS, FOUND
from reconvene.pipeline.verify.histories import node_tables, read_rows, read_run
from reconvene.verify.check import Check
from reconvene.verify.engine import judge
from reconvene.verify.evs.bones import configuration_rows, end_rows
from reconvene.verify.history import History
from reconvene.verify.report import Tallies

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconvene.pipeline.traces import Traces

__all__ = ["SKELETON", "confs_of", "ends_of", "found_of", "skeletons"]

_STRING, _INT, _LONG = T.StringType(), T.IntegerType(), T.LongType()
_INTS = T.ArrayType(_INT)

SKELETON = T.StructType([
    T.StructField("run", _STRING, False),
    T.StructField("found", T.ArrayType(T.StructType([
        T.StructField("check", _STRING, False),
        T.StructField("cases", _LONG, False),
        T.StructField("suspects", _LONG, False),
    ])), False),
    T.StructField("confs", T.ArrayType(T.StructType([
        T.StructField("conf", _STRING, False),
        T.StructField("root", _STRING, False),
        T.StructField("kind", _STRING, False),
        T.StructField("members", _INTS, False),
        T.StructField("groups", T.ArrayType(_INTS), False),
        T.StructField("accountable", _INTS, False),
        T.StructField("final", T.BooleanType(), False),
        T.StructField("absent", _INTS, False),
    ])), False),
    T.StructField("ends", T.ArrayType(T.StructType([
        T.StructField("node", _INT, False),
        T.StructField("inc", _INT, False),
        T.StructField("place", _LONG, False),
        T.StructField("root", _STRING, False),
    ])), False),
])  # fmt: skip
"""One row a run: what FOUND, CONFS and ENDS say of it, by names."""

_ARROW_SKELETON = to_arrow_schema(SKELETON)


def skeletons(traces: "Traces", checks: Sequence[Check[Any, Any]], bones: "DataFrame | None" = None) -> "DataFrame":
    """SKELETON of every run, one run a task's step. `bones`: the events for which `is_bone` holds, if they are made
    already."""
    bones = traces.events.where(is_bone()) if bones is None else bones
    # The skeleton of groups is judged with the patterns of their messages.
    judged = [check for check in checks if check.skeleton and check.layer == "evs"]
    return bones.groupBy("run").cogroup(traces.runs.groupBy("run")).applyInArrow(_skeleton_of(judged), SKELETON)


def found_of(skeletons: "DataFrame") -> "DataFrame":
    rows = skeletons.select(_rid(), F.explode("found").alias("of")).select("rid", "of.*")
    return rows.select(*FOUND.names)


def confs_of(skeletons: "DataFrame") -> "DataFrame":
    rows = skeletons.select(_rid(), F.explode("confs").alias("of")).select("rid", "of.*")
    return rows.withColumns({name: code_name(F.col(name)) for name in ("conf", "root")}).select(*CONFS.names)


def ends_of(skeletons: "DataFrame") -> "DataFrame":
    rows = skeletons.select(_rid(), F.explode("ends").alias("of")).select("rid", "of.*")
    return rows.withColumn("root", code_name(F.col("root"))).select(*ENDS.names)


def _rid() -> "Column":
    return code_name(F.col("run")).alias("rid")


# -- in a task ----------------------------------------------------------------------------------------------------


def _skeleton_of(checks: Sequence[Check[Any, Any]]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def of_run(bones: pa.Table, runs: pa.Table) -> pa.Table:
        run = read_run(runs)
        tables = node_tables(run, bones)
        history = History.of(run, {node: read_rows(table) for node, table in tables.items()})
        row = {
            "run": run.run,
            "found": list(_found(history, checks)),
            "confs": list(configuration_rows(history)),
            "ends": list(_ends(history, _places(tables))),
        }
        return pa.Table.from_pylist([row], schema=_ARROW_SKELETON)

    return of_run


def _found(h: History, checks: Sequence[Check[Any, Any]]) -> Iterator[dict[str, object]]:
    tallies = Tallies(check.id for check in checks)
    judge(h, checks, tallies)
    for result in tallies.results():
        yield {"check": result.id, "cases": result.cases, "suspects": result.violations}


def _places(tables: dict[str, pa.Table]) -> list[int]:
    """Of each event of the history, its place in the file."""
    return [
        place
        for node in sorted(tables)
        for layer, place in zip(tables[node]["layer"].to_pylist(), tables[node]["place"].to_pylist(), strict=True)
        if layer == "evs"
    ]


def _ends(h: History, places: list[int]) -> Iterator[dict[str, object]]:
    for row in end_rows(h):
        event = row.pop("event")
        assert isinstance(event, int)
        yield {**row, "place": places[event]}
