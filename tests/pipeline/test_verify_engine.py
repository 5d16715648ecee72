"""Both engines say the same: of golden traces, of planted bugs, of ideal runs that were broken at random."""

from collections.abc import Iterator

import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from tests.mutants import corel_harness, harness
from tests.mutants.all import MUTANTS
from tests.mutants.corel import MUTANTS as LOG_MUTANTS
from tests.pipeline.told import Told, broken, golden, made, tell

from reconvene.pipeline.generate import MUTATIONS
from reconvene.pipeline.verify.engine import Verification, verify_traces
from reconvene.verify.engine import verify
from reconvene.verify.history import History

pytestmark = pytest.mark.xdist_group("spark")

GRAPHS = {"evs.1.1", "evs.2.3", "evs.2.4", "evs.6.1", "evs.6.2", "vs.L1", "vs.L2"}
"""Proven by clocks, among other things: those of traces that are made by hand prove nothing."""


def planted() -> Iterator[Told]:
    """Of every planted bug, the trace of the run that is known to show it."""
    for mutants, record in ((MUTANTS, harness.record), (LOG_MUTANTS, corel_harness.record)):
        for mutant in mutants:
            with mutant.planted():
                _, run, rows = record(mutant.family(mutant.seed))
            yield structs.replace(run, run=f"planted/{mutant.name}"), rows


@pytest.fixture(scope="module")
def told() -> list[Told]:
    return [*golden(), *planted(), *made(), *broken(range(14))]


@pytest.fixture(scope="module")
def verification(spark: SparkSession, told: list[Told]) -> Verification:
    return Verification(tell(spark, told))


def test_the_reports_are_the_same(verification: Verification, told: list[Told]) -> None:
    expected = verify(History.of(run, rows) for run, rows in told)
    report = verification.report()
    assert report.engine == "spark"
    assert structs.replace(report, engine="local") == expected


def test_every_mutation_of_a_made_trace_is_rejected(verification: Verification) -> None:
    judged = {(row.run, row.check): row.violations for row in verification.judge().collect()}
    for stack, mutations in MUTATIONS.items():
        assert not any(run == f"made {stack} right" for run, _ in judged)
        for name, mutation in mutations.items():
            assert all(judged[f"made {stack} {name}", check] for check in mutation.checks), (stack, name)


@pytest.mark.slow
def test_of_runs_too_large_to_be_judged_whole_the_same_checks_fail(
    verification: Verification, told: list[Told]
) -> None:
    judged = {(row.run, row.check): row for row in verification.judge(0).collect()}
    for run, rows in told:
        for check in verify([History.of(run, rows)]).checks:
            verdict = judged.get((run.run, check.id))
            if check.violations:
                assert verdict is not None, (run.run, check.id)
                assert verdict.violations > 0
                shown = {(witness.node, witness.n) for witness in verdict.witnesses}
                assert check.violations > 10 or shown & {(w.node, w.n) for w in check.witnesses}, (run.run, check.id)
            elif verdict is not None:
                assert check.id in GRAPHS, (run.run, check.id)


def test_nothing_at_all_holds(spark: SparkSession) -> None:
    run = structs.replace(next(golden())[0], run="nothing")
    report = verify_traces(spark, tell(spark, [(run, {})]))
    assert structs.replace(report, engine="local") == verify([History.of(run, {})])
