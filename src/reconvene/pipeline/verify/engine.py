"""Runs every check over traces on Spark. Small runs are judged at once, one a task; large ones are proven, in
parallel inside a run too, and judged where that proves nothing.

Given: traces as `read_traces` reads them. Promised: the local engine's report, to the letter, of all runs in which
nothing is wrong, and of all others but those that are too large to be judged whole. Nothing is collected that grows
with the number of events or runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.schema import RUNS
from reconvene.pipeline.sizes import LAYERS, sizes_of
from reconvene.pipeline.traces import APART
from reconvene.pipeline.verify import corel, evs, isis, vs
from reconvene.pipeline.verify.coded import code_events, code_name
from reconvene.pipeline.verify.excerpts import excerpts, lowest_of
from reconvene.pipeline.verify.found import CONCERNED, FOUND, Tables
from reconvene.pipeline.verify.judge import JUDGED_ROWS, judge_excerpts, judge_runs, violations_of
from reconvene.pipeline.verify.skeleton import confs_of, ends_of, found_of, skeletons
from reconvene.trace.events import SCHEMA
from reconvene.verify.check import Check
from reconvene.verify.checks import CHECKS
from reconvene.verify.report import WITNESSES, CheckResult, Report, Witness, add_reports

if TYPE_CHECKING:
    from reconvene.pipeline.traces import Traces

__all__ = ["WHOLE_ROWS", "Verification", "certify_traces", "verify_traces"]

_TABLES = {"evs": evs, "corel": corel, "vs": vs, "isis": isis}
"""By the layer whose events they are about; as in LAYERS. The first is about every run."""
WHOLE_ROWS = 100_000
"""A run of up to so many rows is judged whole: about a second, and 50 MB."""
_EVERY_ROW = "evs.1.2"
"""The check that has a case for every row."""

_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ANY_BYTES = 2**31 - 1

Tell = Callable[[str], None]
Checks = Sequence[Check[Any, Any]]


def certify_traces(traces: "Traces", checks: Checks = CHECKS) -> DataFrame:
    """FOUND, one row of a run and check: what is proven right of each, and what is not. Given runs without followers
    and outposts of the log: those are judged whole."""
    shapes = skeletons(traces, checks)
    return _sum_up(shapes, _certify(traces, code_events(traces), shapes, list(_TABLES), checks))


def verify_traces(
    spark: SparkSession,
    traces: "Traces",
    *,
    whole_rows: int = WHOLE_ROWS,
    judged_rows: int = JUDGED_ROWS,
    tell: Tell = lambda text: None,
    checks: Checks = CHECKS,
) -> Report:
    """Checks every run and adds up what was found. May raise Unavailable.

    A run of up to `whole_rows` rows is judged whole at once, one of more than `judged_rows` by an excerpt, and one
    between only where it is not proven right. One with events of process groups, or with followers or outposts of
    the log, is always judged whole. `tell` is called with what is being done.
    """
    with plain_errors(), _interrupted(spark), _batches_by_rows(spark):
        tell("counting")
        small, large = _by_size(traces, whole_rows)
        reports = []
        if small is not None:
            tell("judging")
            reports.append(_report_judged(judge_runs(small.events, small.runs, checks), checks))
        if large is not None:
            reports.append(Verification(large, tell, checks).report(judged_rows))
        return reduce(add_reports, reports) if reports else _report(0, {}, {}, checks)


def _by_size(traces: "Traces", whole_rows: int) -> "tuple[Traces | None, Traces | None]":
    """The runs that one task judges in a second or two, for which a proof would take longer; and the others."""
    runs = traces.runs.join(_sizes(traces), "run", "left")
    # What followers and outposts record is compared with the replicas' rows, and nothing of it is proven.
    others = F.coalesce(F.size("followers"), F.lit(0)) + F.coalesce(F.size("outposts"), F.lit(0))
    is_small = (F.coalesce("rows", F.lit(0)) <= whole_rows) | (others > 0) | F.coalesce("offers", F.lit(False))
    (row,) = runs.agg(F.count("*").alias("runs"), F.count(F.when(is_small, 1)).alias("small")).collect()
    if row["small"] == row["runs"]:
        return (traces if row["runs"] else None), None
    if not row["small"]:
        return None, traces
    return _only(traces, runs.where(is_small)), _only(traces, runs.where(~is_small))


def _sizes(traces: "Traces") -> DataFrame:
    return sizes_of(traces.events) if traces.sizes is None else traces.sizes


def _only(traces: "Traces", runs: DataFrame) -> "Traces":
    """The traces of these runs."""
    ordered = None if traces.ordered is None else _of_runs(traces.ordered, runs)
    events = _of_runs(traces.events, runs)
    sizes = _of_runs(_sizes(traces), runs)
    return replace(traces, runs=runs.select(*RUNS.names), events=events, ordered=ordered, sizes=sizes, kept=())


def _of_runs(rows: DataFrame, runs: DataFrame) -> DataFrame:
    # By a broadcast, which leaves the rows where they are, and in their order.
    return rows.join(F.broadcast(runs.select("run")), "run", "left_semi").select(*rows.columns)


def _report_judged(judged: DataFrame, checks: Checks) -> Report:
    """Of runs of which every check is judged. The verdicts are used twice, and take long to make."""
    kept = judged.persist()
    try:
        totals = _totals(kept)
        (row,) = kept.where(F.col("check") == _EVERY_ROW).agg(F.count("*").alias("runs")).collect()
        violated = any(violations for _, violations in totals.values())
        return _report(row["runs"], totals, _lowest(violations_of(kept)) if violated else {}, checks)
    finally:
        kept.unpersist()


@contextmanager
def _interrupted(spark: SparkSession) -> Iterator[None]:
    """If the caller is interrupted, the cluster stops working on the answer too."""
    tag = f"reconvene-verify-{uuid4()}"
    spark.addTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


@contextmanager
def _batches_by_rows(spark: SparkSession) -> Iterator[None]:
    """Batches for Python are limited by rows alone, as long as this lasts. To limit them by bytes too, Spark measures
    a batch anew at each row, which takes longer than all else; and events have no payload, so they are small."""
    before = spark.conf.get(_BATCH_BYTES, None)
    spark.conf.set(_BATCH_BYTES, str(_ANY_BYTES))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_BATCH_BYTES)
        else:
            spark.conf.set(_BATCH_BYTES, before)


def _certify(
    traces: "Traces", coded: DataFrame, shapes: DataFrame, layers: Iterable[str], checks: Checks
) -> Iterator[DataFrame]:
    """FOUND, of the checks of each of these layers."""
    tables = Tables(coded, confs_of(shapes), ends_of(shapes), traces.runs)
    return (_TABLES[layer].certify(tables, _of_layer(checks, layer)) for layer in layers)


def _of_layer(checks: Checks, layer: str) -> Checks:
    return [check for check in checks if check.layer == layer]


def _sum_up(shapes: DataFrame, found: Iterable[DataFrame]) -> DataFrame:
    """FOUND, one row of a run and check."""
    return (
        _union([found_of(shapes), *found], FOUND)
        .groupBy("rid", "check")
        .agg(F.sum("cases").alias("cases"), F.sum("suspects").alias("suspects"))
    )


def _union(tables: Iterable[DataFrame], schema: StructType) -> DataFrame:
    return reduce(DataFrame.union, (table.select(*schema.names) for table in tables))


class Verification:
    """All checks over traces, step by step.

    Tables that are used more than once are made once, and by a plan of their own: Spark goes through a plan as a
    tree, whose branches would double with every use.
    """

    def __init__(self, traces: "Traces", tell: Tell = lambda text: None, checks: Checks = CHECKS) -> None:
        self.traces = traces
        self._tell = tell
        self._checks = checks
        self.coded = code_events(traces).persist(StorageLevel.DISK_ONLY)
        """Coded events, which are read again and again: kept on the executors' disks, in their order."""

    def close(self) -> None:
        """Frees the executors' disks. The end of the session does so too."""
        self.coded.unpersist()

    @cached_property
    def shapes(self) -> DataFrame:
        """SKELETON of every run."""
        bones = self.coded.where(F.col("bone").isNotNull()).select("bone.*")
        return skeletons(self.traces, self._checks, bones).localCheckpoint()

    @cached_property
    def layers(self) -> list[str]:
        """Those that have to be looked at. Most traces have no log or no groups with the filter."""
        (row,) = _sizes(self.traces).agg(F.bit_or("layers").alias("layers")).collect()
        return [name for bit, name in enumerate(LAYERS) if name == "evs" or (row["layers"] or 0) >> bit & 1]

    @cached_property
    def found(self) -> DataFrame:
        """FOUND, one row of a run and check."""
        found = _certify(self.traces, self.coded, self.shapes, self.layers, self._checks)
        return _sum_up(self.shapes, [table.localCheckpoint() for table in found]).localCheckpoint()

    def report(self, judged_rows: int = JUDGED_ROWS) -> Report:
        try:
            return self._report(judged_rows)
        finally:
            self.close()

    def _report(self, judged_rows: int) -> Report:
        self._tell("reading configurations")
        runs = self.shapes.count()
        self._tell("proving")
        totals = _totals(self.found.withColumn("violations", F.col("suspects")))
        if not any(suspects for _, suspects in totals.values()):
            return _report(runs, totals, {}, self._checks)
        judged = self.judge(judged_rows).localCheckpoint()
        return _report(runs, _totals(_instead(self.found, judged)), _lowest(violations_of(judged)), self._checks)

    def judge(self, judged_rows: int = JUDGED_ROWS) -> DataFrame:
        """JUDGED, of every run that has a suspect: all checks, or, of one with more rows, the suspect ones."""
        of = F.struct("check", "cases", "suspects")
        suspects = (
            self.found.groupBy("rid")
            .agg(
                F.sum(F.when(F.col("check") == _EVERY_ROW, F.col("cases"))).alias("rows"),
                F.collect_list(F.when(F.col("suspects") > 0, of)).alias("found"),
                F.max(F.col("check").startswith("isis.")).alias("has_isis"),
            )
            .where(F.size("found") > 0)
        )
        runs = self.traces.runs.withColumn("rid", code_name(F.col("run"))).join(suspects, "rid").localCheckpoint()
        # No excerpt shows what process groups do: every cast may be a cause of every other.
        is_large = (F.col("rows") > judged_rows) & ~F.col("has_isis")
        (row,) = runs.agg(F.count("*").alias("all"), F.count(F.when(is_large, 1)).alias("large")).collect()
        self._tell(f"judging {row['all']} runs")
        small, large = runs.where(~is_large), runs.where(is_large)
        judged = judge_runs(_of_runs(self.traces.events, small), small.select(*RUNS.names), self._checks)
        if row["large"]:
            rows = excerpts(_of_runs(self.traces.events, large), large, self._concerned(large))
            judged = judged.union(judge_excerpts(rows, large, self._checks))
        return judged

    def _concerned(self, runs: DataFrame) -> DataFrame:
        rids = runs.select("rid")
        tables = (self.coded, confs_of(self.shapes), ends_of(self.shapes))
        coded, confs, ends = (table.join(F.broadcast(rids), "rid", "left_semi") for table in tables)
        of_runs = Tables(coded, confs, ends, runs.select(*RUNS.names))
        named = (_TABLES[layer].concerned(of_runs, _of_layer(self._checks, layer)) for layer in self.layers)
        return _union((lowest_of(table).localCheckpoint() for table in named), CONCERNED)


def _instead(found: DataFrame, judged: DataFrame) -> DataFrame:
    """What is judged of a run and check takes the place of what was proven of it."""
    verdicts = judged.select(code_name(F.col("run")).alias("rid"), "check", "cases", "violations")
    proven = found.join(verdicts.select("rid", "check"), ["rid", "check"], "left_anti")
    return proven.select("rid", "check", "cases", F.lit(0).alias("violations")).unionByName(verdicts)


def _totals(found: DataFrame) -> dict[str, tuple[int, int]]:
    """By check: cases and violations of all runs."""
    sums = found.groupBy("check").agg(F.sum("cases").alias("cases"), F.sum("violations").alias("violations"))
    return {row.check: (row.cases, row.violations) for row in sums.collect()}


def _lowest(violations: DataFrame) -> dict[str, list[Witness]]:
    """By check: the ten lowest witnesses of all runs."""
    order = Window.partitionBy("check").orderBy("run", "node", "n", "detail")
    named = violations.withColumn("run", F.substring_index("run", APART, 1))
    lowest = named.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= WITNESSES)
    found: dict[str, list[Witness]] = {}
    for row in lowest.collect():
        found.setdefault(row.check, []).append(Witness(row.run, row.node, row.n, row.detail))
    return {check: sorted(witnesses) for check, witnesses in found.items()}


def _report(
    runs: int, totals: dict[str, tuple[int, int]], witnesses: dict[str, list[Witness]], checks: Checks
) -> Report:
    results = [
        CheckResult(id=check.id, cases=cases, violations=violations, witnesses=witnesses.get(check.id, []))
        for check in checks
        for cases, violations in (totals.get(check.id, (0, 0)),)
    ]
    events, _ = totals.get(_EVERY_ROW, (0, 0))
    ok = not any(result.violations for result in results)
    return Report(ok=ok, schema=SCHEMA, engine="spark", runs=runs, events=events, checks=results)
