"""Both engines say the same: of golden traces, of planted bugs, of ideal runs that were broken at random."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
from msgspec import structs
from pyspark.sql import Row, SparkSession
from tests.mutants import corel_harness, harness
from tests.mutants.all import MUTANTS
from tests.mutants.corel import MUTANTS as LOG_MUTANTS
from tests.mutants.harness import Mutant
from tests.mutants.known import known_run
from tests.once import Once
from tests.pipeline.told import Told, broken, golden, made, tell

from reconvene.lab.generate import MUTATIONS
from reconvene.pipeline.verify import along
from reconvene.pipeline.verify.engine import Verification, verify_traces
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import WITNESSES

UNPROVEN = "not proven right"
GRAPHS = {"evs.1.1", "evs.2.3", "evs.2.4", "evs.6.1", "evs.6.2", "vs.L1", "vs.L2"}
"""Proven by clocks, among other things: those of traces that are made by hand prove nothing."""
CAUSES = {"evs.5", "to.causal", "vs.C1"}
"""Proven only where what precedes what is."""
NOT_NAMED = {("bad/vs.L4--delivers-after-its-site-failed", "vs.L4"), ("made evs wrong-configuration", "evs.5")}
"""What no certificate tells by a message or a row: something more basic is wrong there."""


class Bug(NamedTuple):
    """A planted bug, in the run that is known to show it."""

    mutant: Mutant
    aside: set[str]
    """What caught it there, checks of the trace apart."""
    told: Told


@pytest.fixture(scope="module")
def planted(once: Once) -> list[Bug]:
    found = []
    for mutants, record in ((MUTANTS, harness.record), (LOG_MUTANTS, corel_harness.record)):
        for mutant in mutants:
            aside, run, rows = known_run(once, mutant, record)
            found.append(Bug(mutant, aside, (structs.replace(run, run=f"planted/{mutant.name}"), rows)))
    return found


@pytest.fixture(scope="module")
def told(planted: list[Bug]) -> list[Told]:
    """Traces that are not golden."""
    return [*(bug.told for bug in planted), *made(), *broken(range(14))]


@pytest.fixture(scope="module")
def verification(spark: SparkSession, told: list[Told]) -> Iterator[Verification]:
    """In pieces of three rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(along, "PIECE_ROWS", 3)
        yield Verification(tell(spark, told))


@pytest.mark.parametrize(
    "piece_rows", [2, *(pytest.param(size, marks=pytest.mark.long("a minute of Spark")) for size in (1, 3, 1 << 20))]
)
def test_the_reports_on_golden_traces_are_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, piece_rows: int
) -> None:
    """Wherever the borders of pieces fall between events that belong together."""
    monkeypatch.setattr(along, "PIECE_ROWS", piece_rows)
    isis = list(golden(isis=True))
    told = [*golden(isis=False), isis[0], isis[-1]]
    assert_same(Verification(tell(spark, told)), told)


@pytest.mark.long("sorts by Spark's samples")
def test_events_in_no_known_order_are_sorted_first(spark: SparkSession) -> None:
    told = [*made(["evs", "corel"])]
    traces = tell(spark, told)
    shuffled = traces.events.repartition(3, "msg", "n")
    assert_same(Verification(replace(traces, events=shuffled, ordered=None)), told)


@pytest.mark.long("Spark hands each of them over to the local engine")
def test_the_reports_on_golden_traces_of_isis_are_the_same(spark: SparkSession) -> None:
    told = list(golden(isis=True))
    assert_same(Verification(tell(spark, told)), told)


@pytest.mark.long("a minute of Spark")
def test_the_reports_on_other_traces_are_the_same(verification: Verification, told: list[Told]) -> None:
    assert_same(verification, told)


def assert_same(verification: Verification, told: list[Told]) -> None:
    """Both engines return the same report, except for the engine's name."""
    expected = verify(History.of(run, rows) for run, rows in told)
    report = verification.report()
    assert report.engine == "spark"
    assert structs.replace(report, engine="local") == expected


@pytest.fixture(scope="module")
def judged(verification: Verification) -> dict[tuple[str, str], int]:
    """By run and check, the violations of what is not proven right."""
    return {(row.run, row.check): row.violations for row in verification.judge().collect()}


@pytest.mark.long("a minute of Spark")
def test_every_planted_bug_is_caught(planted: list[Bug], judged: dict[tuple[str, str], int]) -> None:
    """By a check that answers for it, unless what answers for it is none, and caught it there."""
    for mutant, aside, (run, _) in planted:
        caught = any(judged.get((run.run, check)) for check in mutant.expected)
        assert caught or mutant.expected & aside, mutant.name


@pytest.mark.long("a minute of Spark")
def test_every_mutation_of_a_made_trace_is_rejected(judged: dict[tuple[str, str], int]) -> None:
    for stack, mutations in MUTATIONS.items():
        assert not any(run == f"made {stack} right" for run, _ in judged)
        for name, mutation in mutations.items():
            assert all(judged[f"made {stack} {name}", check] for check in mutation.checks), (stack, name)


@pytest.fixture(scope="module")
def all_told(told: list[Told]) -> list[Told]:
    return [*golden(), *told]


@pytest.fixture(scope="module")
def of_excerpts(spark: SparkSession, all_told: list[Told]) -> dict[tuple[str, str], Row]:
    """By run and check, the verdict where every run is too large to be judged whole."""
    return {(row.run, row.check): row for row in Verification(tell(spark, all_told)).judge(0).collect()}


@pytest.mark.slow
def test_of_runs_too_large_to_be_judged_whole_the_same_checks_fail(
    of_excerpts: dict[tuple[str, str], Row], all_told: list[Told]
) -> None:
    """What is violated is rejected; what is claimed is so, or is said not to be proven. Where all is right, only the
    graphs and what rests on them can be unproven."""
    for run, rows in all_told:
        report = verify([History.of(run, rows)])
        for check in report.checks:
            verdict = of_excerpts.get((run.run, check.id))
            assert bool(verdict and verdict.violations) >= bool(check.violations), (run.run, check.id)
            if verdict is None or not verdict.violations:
                continue  # of process groups every check is judged
            assert not report.ok or check.id in GRAPHS | CAUSES, (run.run, check.id)
            claims = {(w.node, w.n) for w in verdict.witnesses if UNPROVEN not in w.detail}
            if check.id in GRAPHS or (check.id in CAUSES and not GRAPHS.isdisjoint(report.violated())):
                # One cycle is as good as another.
                assert check.violations or not claims, (run.run, check.id, verdict.witnesses)
            elif check.violations <= WITNESSES:
                assert claims <= {(w.node, w.n) for w in check.witnesses}, (run.run, check.id, verdict.witnesses)


@pytest.mark.slow
def test_of_runs_too_large_to_be_judged_whole_the_witnesses_are_shown(
    of_excerpts: dict[tuple[str, str], Row], all_told: list[Told]
) -> None:
    """In all but those that were broken at random, in several ways at once: an event that shows what is wrong is
    named, or, of a graph, some cycle is."""
    for run, rows in all_told:
        if not run.run.startswith(("bad/", "planted/", "made ")):
            continue
        for check in verify([History.of(run, rows)]).checks:
            if 0 < check.violations <= WITNESSES and (run.run, check.id) not in NOT_NAMED:
                named = of_excerpts[run.run, check.id].witnesses
                shown = {(w.node, w.n) for w in named} & {(w.node, w.n) for w in check.witnesses}
                cycle = check.id in GRAPHS and any(UNPROVEN not in w.detail for w in named)
                assert shown or cycle, (run.run, check.id)


def test_nothing_at_all_holds(spark: SparkSession) -> None:
    run = structs.replace(next(golden())[0], run="nothing")
    report = verify_traces(spark, tell(spark, [(run, {})]))
    assert structs.replace(report, engine="local") == verify([History.of(run, {})])
