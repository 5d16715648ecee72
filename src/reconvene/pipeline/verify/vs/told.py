"""What `conclude` is told of a run, as one table, and what it says of each run."""

from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from reconvene.pipeline.verify.coded import KINDS, code_name
from reconvene.pipeline.verify.found import FOUND
from reconvene.pipeline.verify.vs.conclude import MOST_PATTERNS, Conclusion
from reconvene.pipeline.verify.vs.lives import STOP, VIEW
from reconvene.pipeline.verify.vs.messages import PATTERN

__all__ = ["BONE", "PATTERN_KEYS", "conclude", "name_patterns", "tell"]

_LONG, _INT = T.LongType(), T.IntegerType()

BONE = T.StructType([
    T.StructField("node", _INT, False),
    T.StructField("place", _LONG, False),
    T.StructField("inc", _INT, False),
    T.StructField("kind", T.ByteType(), False),
    T.StructField("label", _LONG, True),
    T.StructField("group", _LONG, True),
    T.StructField("view", _LONG, True),
    T.StructField("members", T.ArrayType(_LONG), True),
    T.StructField("primary", _LONG, True),
    T.StructField("conf", _LONG, True),
])  # fmt: skip
"""A row that tells of a view, of a process that stops, or of an incarnation that begins or is over."""

_RUN = T.StructType([
    T.StructField("nodes", T.ArrayType(T.StringType()), False),
    T.StructField("down", T.ArrayType(T.StringType()), False),
    T.StructField("settled", T.BooleanType(), False),
])  # fmt: skip

_TOLD = {"pattern": PATTERN, "bone": BONE, "of_run": _RUN}
"""What is told of a run: each row has one of these."""

PATTERN_KEYS = ("caster", "group", "view", "home", "service", "by")
"""What the messages of a pattern have in common."""

_NAMED = T.StructType([
    T.StructField("rid", _LONG, False),
    T.StructField("check", T.StringType(), False),
    *(T.StructField(name, PATTERN[name].dataType, True) for name in PATTERN_KEYS),
])  # fmt: skip
"""A pattern that a check is suspicious of."""

_ARROW_FOUND, _ARROW_NAMED = to_arrow_schema(FOUND), to_arrow_schema(_NAMED)


def tell(patterns: DataFrame, coded: DataFrame, runs: DataFrame) -> DataFrame:
    """One table of all that is told of each run that has patterns. Of too many patterns, so many that it shows."""
    order = Window.partitionBy("rid").orderBy(F.col("mark_label").isNull(), F.desc("messages"))
    bounded = patterns.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= MOST_PATTERNS + 1)
    tables = {"pattern": bounded, "bone": _bones(coded), "of_run": _runs(runs)}
    parts = []
    for name, table in tables.items():
        columns = (
            (F.struct(*of.names) if name == other else F.lit(None).cast(of)).alias(other)
            for other, of in _TOLD.items()
        )
        parts.append(table.select("rid", *columns))
    return reduce(DataFrame.union, parts)


def _bones(coded: DataFrame) -> DataFrame:
    kinds = [KINDS["evs", kind] for kind in ("conf", "hidden", "fail", "stop")]
    view = F.col("kind") == VIEW
    return coded.where(F.col("kind").isin(*kinds, VIEW, STOP)).select(
        "rid",
        "node",
        "place",
        "inc",
        "kind",
        F.when(F.col("label").isNotNull(), code_name(F.col("label"))).alias("label"),
        "group",
        "view",
        F.when(view, F.transform("members", code_name)).alias("members"),
        "primary",
        "conf",
    )


def _runs(runs: DataFrame) -> DataFrame:
    return runs.select(code_name(F.col("run")).alias("rid"), "nodes", "down", "settled")


def conclude(told: DataFrame) -> DataFrame:
    """FOUND of each run that has events of the filter."""
    return told.groupBy("rid").applyInArrow(_found, FOUND)


def name_patterns(told: DataFrame) -> DataFrame:
    """Of each run, the patterns of messages that checks are suspicious of."""
    return told.groupBy("rid").applyInArrow(_named, _NAMED)


# -- in a task ----------------------------------------------------------------------------------------------------


def _conclusion(table: pa.Table) -> tuple[int, Conclusion | None]:
    patterns, bones, (run,) = (_rows(table, name) for name in _TOLD)
    rid: int = table["rid"][0].as_py()
    if not patterns:
        return rid, None
    codes = {name: code for code, name in enumerate(sorted(run["nodes"]))}
    return rid, Conclusion(patterns, bones, len(codes), map(codes.__getitem__, run["down"]), run["settled"])


def _rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table[name].drop_null().to_pylist()
    return rows


def _found(table: pa.Table) -> pa.Table:
    rid, conclusion = _conclusion(table)
    rows = []
    if conclusion is not None:
        rows = [
            {"rid": rid, "check": check, "cases": cases, "suspects": conclusion.suspects[check]}
            for check, cases in conclusion.cases.items()
        ]
    return pa.Table.from_pylist(rows, schema=_ARROW_FOUND)


def _named(table: pa.Table) -> pa.Table:
    rid, conclusion = _conclusion(table)
    named = conclusion.patterns if conclusion is not None else []
    rows = [{"rid": rid, "check": check, **{key: row[key] for key in PATTERN_KEYS}} for check, row in named]
    return pa.Table.from_pylist(rows, schema=_ARROW_NAMED)
