"""Judges exactly what is not proven right: by the local engine's own code, one run in one task.

A run is judged whole, so that both engines say the same to the letter. One that is too large for that is judged by an
*excerpt*: all rows that are not about messages, and of the others those that are named as suspects. Then only the
checks that are suspect are looked at, and the proof's count stands: the witnesses come from the excerpt.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from reconvene.pipeline.verify.found import VIOLATIONS
from reconvene.pipeline.verify.histories import node_tables, read_rows, read_run
from reconvene.trace.events import Run
from reconvene.verify.check import Check
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import WITNESSES, CheckResult, Witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["JUDGED", "JUDGED_ROWS", "judge_excerpts", "judge_runs", "violations_of"]

Checks = Sequence[Check[Any, Any]]

JUDGED_ROWS = 1_000_000
"""A run of more rows is judged by an excerpt. The local engine needs 500 to 1,000 bytes a row."""

JUDGED = T.StructType([
    T.StructField("run", T.StringType(), False),
    T.StructField("check", T.StringType(), False),
    T.StructField("cases", T.LongType(), False),
    T.StructField("violations", T.LongType(), False),
    T.StructField("witnesses", T.ArrayType(T.StructType([
        T.StructField("node", T.StringType(), False),
        T.StructField("n", T.LongType(), False),
        T.StructField("detail", T.StringType(), False),
    ])), False),
])  # fmt: skip
"""A run's verdict of one check, with its ten lowest witnesses."""

_ARROW_JUDGED = to_arrow_schema(JUDGED)


def judge_runs(events: "DataFrame", runs: "DataFrame", checks: Checks) -> "DataFrame":
    """JUDGED, every check of each of these runs. Given: all their events."""
    return events.groupBy("run").cogroup(runs.groupBy("run")).applyInArrow(_judge_run(checks), JUDGED)


def judge_excerpts(events: "DataFrame", runs: "DataFrame", checks: Checks) -> "DataFrame":
    """JUDGED, the suspect checks of each of these runs.

    Given: of each event of an excerpt, `checks`, those that name it, if any; of each run, `rows`, how many it has,
    and `found`, what is proven of its suspect checks: structs of check, cases and suspects.
    """
    return events.groupBy("run").cogroup(runs.groupBy("run")).applyInArrow(_judge_excerpt(checks), JUDGED)


def violations_of(judged: "DataFrame") -> "DataFrame":
    """VIOLATIONS, one row a witness."""
    rows = judged.select("run", "check", F.explode("witnesses").alias("of")).select("run", "check", "of.*")
    return rows.select(*VIOLATIONS.names)


# -- in a task ----------------------------------------------------------------------------------------------------


_Judge = Callable[[pa.Table, pa.Table], pa.Table]


def _judge_run(checks: Checks) -> _Judge:
    def of_run(events: pa.Table, runs: pa.Table) -> pa.Table:
        run = read_run(runs)
        return _table(run, _verdicts(run, node_tables(run, events), checks))

    return of_run


def _judge_excerpt(checks: Checks) -> _Judge:
    by_id = {check.id: check for check in checks}

    def of_run(events: pa.Table, runs: pa.Table) -> pa.Table:
        run = read_run(runs)
        rows: int = runs["rows"][0].as_py()
        tables = node_tables(run, events)
        verdicts = {verdict.id: verdict for verdict in _verdicts(run, tables, checks)}
        found = []
        for proof in runs["found"][0].as_py():
            check = by_id[proof["check"]]
            found.append(_of_an_excerpt(proof, check, verdicts[check.id], _named(run, check, tables, rows)))
        return _table(run, found)

    return of_run


def _verdicts(run: Run, tables: dict[str, pa.Table], checks: Checks) -> list[CheckResult]:
    return verify([History.of(run, {node: read_rows(table) for node, table in tables.items()})], checks).checks


def _of_an_excerpt(
    proof: dict[str, Any], check: Check[Any, Any], verdict: CheckResult, named: list[Witness]
) -> CheckResult:
    """As the proof counted, or the excerpt if that is more; with the excerpt's witnesses, or else the named."""
    shows = verdict.violations > 0 and not check.whole
    return CheckResult(
        id=verdict.id,
        cases=proof["cases"],
        violations=max(proof["suspects"], verdict.violations if shows else 0),
        witnesses=verdict.witnesses if shows else named,
    )


def _named(run: Run, check: Check[Any, Any], tables: dict[str, pa.Table], rows: int) -> list[Witness]:
    """The lowest events that are named for a check and that can violate it, where the excerpt does not show what is
    wrong."""
    why = f"not proven right, and too large to be judged whole here, with {rows} rows: --engine local decides"
    found: list[Witness] = []
    for node, table in tables.items():
        columns = (table[name].to_pylist() for name in ("n", "layer", "kind", "msg", "checks"))
        for n, layer, kind, msg, checks in zip(*columns, strict=True):
            if check.id in checks and layer == check.layer and (not check.kinds or kind in check.kinds):
                what = f"{kind} {msg}" if msg is not None else kind
                found.append(Witness(run.run, node, n, f"{node}#{n} {layer} {what}: {why}"))
    found.sort()
    return found[:WITNESSES] or [Witness(run.run, min(run.nodes), 0, why)]


def _table(run: Run, verdicts: list[CheckResult]) -> pa.Table:
    rows = [
        {
            "run": run.run,
            "check": verdict.id,
            "cases": verdict.cases,
            "violations": verdict.violations,
            "witnesses": [
                {"node": witness.node, "n": witness.n, "detail": witness.detail} for witness in verdict.witnesses
            ],
        }
        for verdict in verdicts
    ]
    return pa.Table.from_pylist(rows, schema=_ARROW_JUDGED)
