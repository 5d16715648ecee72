"""All that is gathered of each run as one table, and what the checks prove of it, run by run."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from reconvene.pipeline.verify.coded import code_name
from reconvene.pipeline.verify.found import FOUND, Tables
from reconvene.pipeline.verify.vs.lives import STOP, VIEW
from reconvene.pipeline.verify.vs.messages import PATTERN
from reconvene.verify.check import Proof, prove_all
from reconvene.verify.codes import KINDS
from reconvene.verify.engine import judge
from reconvene.verify.report import Tallies
from reconvene.verify.vs.patterns import MOST_PATTERNS, Skeleton, ViewCheck, ViewPatterns

__all__ = ["BONE", "PATTERN_KEYS", "gather", "name_patterns", "prove"]

_LONG, _INT = T.LongType(), T.IntegerType()

BONE = T.StructType([
    T.StructField("node", _INT, False),
    T.StructField("place", _LONG, False),
    T.StructField("inc", _INT, False),
    T.StructField("kind", T.ByteType(), False),
    T.StructField("process", _LONG, True),
    T.StructField("group", _LONG, True),
    T.StructField("view", _LONG, True),
    T.StructField("members", T.ArrayType(_LONG), True),
    T.StructField("primary", _LONG, True),
    T.StructField("conf", _LONG, True),
])  # fmt: skip
"""A row about a view, about a process that stops, or about an incarnation that begins or is over."""

_RUN = T.StructType([
    T.StructField("nodes", T.ArrayType(T.StringType()), False),
    T.StructField("down", T.ArrayType(T.StringType()), False),
    T.StructField("settled", T.BooleanType(), False),
])  # fmt: skip

_GATHERED = {"pattern": PATTERN, "bone": BONE, "of_run": _RUN}
"""What is gathered of a run: each row has one of these."""

PATTERN_KEYS = ("caster", "group", "view", "home", "service", "by")
"""What the messages of a pattern have in common."""

_NAMED = T.StructType([
    T.StructField("rid", _LONG, False),
    T.StructField("check", T.StringType(), False),
    *(T.StructField(name, PATTERN[name].dataType, True) for name in PATTERN_KEYS),
])  # fmt: skip
"""A pattern that a check is suspicious of."""

_ARROW_FOUND, _ARROW_NAMED = to_arrow_schema(FOUND), to_arrow_schema(_NAMED)


def gather(patterns: DataFrame, of: Tables) -> DataFrame:
    """One table of all that is known of each run that has patterns. Of too many patterns, so many that it shows."""
    order = Window.partitionBy("rid").orderBy(F.col("mark_process").isNull(), F.desc("messages"))
    bounded = patterns.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= MOST_PATTERNS + 1)
    tables = {"pattern": bounded, "bone": _bones(of.coded), "of_run": _runs(of.runs)}
    parts = []
    for name, table in tables.items():
        columns = (
            (F.struct(*schema.names) if name == other else F.lit(None).cast(schema)).alias(other)
            for other, schema in _GATHERED.items()
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
        F.when(F.col("process").isNotNull(), code_name(F.col("process"))).alias("process"),
        "group",
        "view",
        F.when(view, F.transform("members", code_name)).alias("members"),
        "primary",
        "conf",
    )


def _runs(runs: DataFrame) -> DataFrame:
    return runs.select(code_name(F.col("run")).alias("rid"), "nodes", "down", "settled")


def prove(gathered: DataFrame, checks: Sequence[ViewCheck]) -> DataFrame:
    """FOUND of each run that has events of the filter."""
    return gathered.groupBy("rid").applyInArrow(_each_run(checks, _found), FOUND)


def name_patterns(gathered: DataFrame, checks: Sequence[ViewCheck]) -> DataFrame:
    """Of each run, the patterns of messages that checks are suspicious of."""
    return gathered.groupBy("rid").applyInArrow(_each_run(checks, _named), _NAMED)


# -- in a task ----------------------------------------------------------------------------------------------------

_Show = Callable[[int, Mapping[str, Proof]], pa.Table]


def _each_run(checks: Sequence[ViewCheck], show: _Show) -> Callable[[pa.Table], pa.Table]:
    """What `show` makes of the proofs of a run."""

    def of_run(table: pa.Table) -> pa.Table:
        return show(table["rid"][0].as_py(), _proofs(table, checks))

    return of_run


def _proofs(table: pa.Table, checks: Sequence[ViewCheck]) -> dict[str, Proof]:
    patterns, bones, (run,) = (_rows(table, name) for name in _GATHERED)
    if not patterns:
        return {}
    codes = {name: code for code, name in enumerate(sorted(run["nodes"]))}
    skeleton = Skeleton(bones, len(codes), map(codes.__getitem__, run["down"]), run["settled"])
    tallies = Tallies(check.id for check in checks)
    judge(skeleton.history, [check for check in checks if check.skeleton], tallies)
    known = ViewPatterns(patterns, skeleton, tallies)
    proofs = prove_all(checks, known.counts, known)
    for check, proof in proofs.items():
        proof.cases += tallies[check].cases
        proof.suspects += tallies[check].violations
    return proofs


def _rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table[name].drop_null().to_pylist()
    return rows


def _found(rid: int, proofs: Mapping[str, Proof]) -> pa.Table:
    rows = [
        {"rid": rid, "check": check, "cases": proof.cases, "suspects": proof.suspects}
        for check, proof in proofs.items()
    ]
    return pa.Table.from_pylist(rows, schema=_ARROW_FOUND)


def _named(rid: int, proofs: Mapping[str, Proof]) -> pa.Table:
    rows = [
        {"rid": rid, "check": check, **{key: row[key] for key in PATTERN_KEYS}}
        for check, proof in proofs.items()
        for row in proof.patterns
    ]
    return pa.Table.from_pylist(rows, schema=_ARROW_NAMED)
