"""Judges exactly what no certificate proves right: by the local engine's own code, one run in one task.

A run is judged whole, so that both engines say the same to the letter. One that is too large for that is judged by an
*excerpt*: all rows that are not about messages, and of the others those that the certificates name. Then only the
checks that are suspect are looked at, and a certificate's count stands: the excerpt gives the witnesses.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from reconvene.pipeline.verify.found import VIOLATIONS
from reconvene.pipeline.verify.histories import node_tables, read_rows, read_run
from reconvene.trace.events import Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import WITNESSES, CheckResult, Witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["JUDGED", "JUDGED_ROWS", "judge_excerpts", "judge_runs", "violations_of"]

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

_OF_THE_WHOLE = frozenset({"corel.3.1", "corel.3.6", "corel.green"})
"""Checks that count all rows before one: in an excerpt they would find what is not there."""

_LAYERS = {"corel": "corel", "vs": "isis"}
"""Whose events a check's violations are, by the first word of its id; of all others, those of `evs`."""
_KINDS = {
    "corel.3.1": {"log", "green", "snapshot"},
    "corel.3.2": {"accept", "log", "green"},
    "corel.3.6": {"green"},
    "corel.3.7": {"green"},
    "corel.agreed": {"green"},
    "corel.causal": {"log"},
    "corel.green": {"green", "yellow", "red", "snapshot"},
    "corel.phases": {"attempt", "commit", "establish", "green"},
    "corel.ts": {"log"},
    "evs.1.3": {"deliver"},
    "evs.1.4": {"send", "deliver"},
    "evs.5": {"deliver"},
    "to.causal": {"send"},
    "to.order": {"deliver"},
    "to.same": {"deliver"},
    "to.unique": {"deliver"},
    "vs.C1": {"deliver"},
}
"""And of which kinds they can be, where only some can."""


def judge_runs(events: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """JUDGED, every check of each of these runs. Given: all their events."""
    return events.groupBy("run").cogroup(runs.groupBy("run")).applyInArrow(_judge_run, JUDGED)


def judge_excerpts(events: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """JUDGED, the suspect checks of each of these runs.

    Given: of each event of an excerpt, `checks`, those that name it, if any; of each run, `rows`, how many it has,
    and `found`, what certificates say of its suspect checks: structs of check, cases and suspects.
    """
    return events.groupBy("run").cogroup(runs.groupBy("run")).applyInArrow(_judge_excerpt, JUDGED)


def violations_of(judged: "DataFrame") -> "DataFrame":
    """VIOLATIONS, one row a witness."""
    rows = judged.select("run", "check", F.explode("witnesses").alias("of")).select("run", "check", "of.*")
    return rows.select(*VIOLATIONS.names)


# -- in a task ----------------------------------------------------------------------------------------------------


def _judge_run(events: pa.Table, runs: pa.Table) -> pa.Table:
    run = read_run(runs)
    return _table(run, _verdicts(run, node_tables(run, events)))


def _judge_excerpt(events: pa.Table, runs: pa.Table) -> pa.Table:
    run = read_run(runs)
    rows: int = runs["rows"][0].as_py()
    tables = node_tables(run, events)
    verdicts = {verdict.id: verdict for verdict in _verdicts(run, tables)}
    found = [
        _of_an_excerpt(of, verdicts[of["check"]], _named(run, of["check"], tables, rows))
        for of in runs["found"][0].as_py()
    ]
    return _table(run, found)


def _verdicts(run: Run, tables: dict[str, pa.Table]) -> list[CheckResult]:
    return verify([History.of(run, {node: read_rows(table) for node, table in tables.items()})]).checks


def _of_an_excerpt(found: dict[str, Any], verdict: CheckResult, named: list[Witness]) -> CheckResult:
    """As the certificate counted, or the excerpt if that is more; with the excerpt's witnesses, or else the named."""
    shows = verdict.violations > 0 and verdict.id not in _OF_THE_WHOLE
    return CheckResult(
        id=verdict.id,
        cases=found["cases"],
        violations=max(found["suspects"], verdict.violations if shows else 0),
        witnesses=verdict.witnesses if shows else named,
    )


def _named(run: Run, check: str, tables: dict[str, pa.Table], rows: int) -> list[Witness]:
    """The lowest events that certificates name for a check and that can violate it, where the excerpt does not show
    what is wrong."""
    of_layer, kinds = _LAYERS.get(check.partition(".")[0], "evs"), _KINDS.get(check)
    why = f"not proven right, and too large to be judged whole here, with {rows} rows: --engine local decides"
    found: list[Witness] = []
    for node, table in tables.items():
        columns = (table[name].to_pylist() for name in ("n", "layer", "kind", "msg", "checks"))
        for n, layer, kind, msg, checks in zip(*columns, strict=True):
            if check in checks and layer == of_layer and (kinds is None or kind in kinds):
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
