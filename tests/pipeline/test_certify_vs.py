"""What the certificates of virtual synchrony prove right, the local engine finds right; what it finds wrong, none
proves. On golden traces, ideal runs broken at random, simulated process groups and made traces, in one job."""

from collections.abc import Iterator

import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.pipeline.told import Told, golden, made, tell
from tests.sim.groups_world import run_world
from tests.verify.test_vs_against_oracles import broken_run

from reconvene.lab.generate import MUTATIONS
from reconvene.lab.ideal.vs import random_filtered_run
from reconvene.pipeline.verify import vs
from reconvene.pipeline.verify.coded import code_events, code_name
from reconvene.pipeline.verify.found import Tables
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import CheckResult

pytestmark = pytest.mark.slow

VIEW_CHECKS = [check for check in CHECKS if check.layer == "vs"]
IDS = [check.id for check in VIEW_CHECKS]
BROKEN, IDEAL, WORLDS = 160, 20, (0, 2, 3)
CLOCKS = ("vs.L1", "vs.L2", "vs.C1")
"""Proven by clocks, among other things: those of ideal runs and of traces made by hand prove nothing."""

Found = dict[str, dict[str, tuple[int, int]]]


def _named(told: Told, name: str) -> Told:
    return structs.replace(told[0], run=name), told[1]


def _runs() -> Iterator[Told]:
    for told in golden():
        if any(row.layer == "vs" for rows in told[1].values() for row in rows):
            yield told
    for seed in range(BROKEN):
        yield _named(broken_run(seed, seed % 7), f"broken {seed}")
    for seed in range(IDEAL):
        yield _named(random_filtered_run(seed + 1_000_000, names="abcd", steps=60), f"ideal {seed}")
    for seed in WORLDS:
        world, result = run_world(seed, recorded=True)
        yield _named((result.meta, world.rows), f"world {seed}")
    yield from made(("filter",))


@pytest.fixture(scope="module")
def told() -> list[Told]:
    return list(_runs())


@pytest.fixture(scope="module")
def local(told: list[Told]) -> dict[str, dict[str, CheckResult]]:
    return {
        run.run: {check.id: check for check in verify([History.of(run, rows)]).checks if check.id in IDS}
        for run, rows in told
    }


@pytest.fixture(scope="module")
def found(spark: SparkSession, told: list[Told]) -> Found:
    traces = tell(spark, told)
    names = traces.runs.select(code_name(F.col("run")).alias("rid"), "run")
    rows = (
        vs.certify(Tables(code_events(traces), names, names, traces.runs), VIEW_CHECKS).join(names, "rid").collect()
    )
    found: Found = {}
    for row in rows:
        assert row.check not in found.setdefault(row.run, {})
        found[row.run][row.check] = (row.cases, row.suspects)
    return found


def test_what_is_proven_right_is_right(found: Found, local: dict[str, dict[str, CheckResult]]) -> None:
    for run, checks in local.items():
        for check, result in checks.items():
            cases, suspects = found[run][check]
            assert suspects or (cases, 0) == (result.cases, result.violations), (run, check, cases, result)


def test_runs_in_which_nothing_is_wrong_are_proven_right(
    found: Found, local: dict[str, dict[str, CheckResult]]
) -> None:
    suspected = {
        (run, check)
        for run, checks in local.items()
        if not any(result.violations for result in checks.values())
        for check, (_, suspects) in found[run].items()
        if suspects
    }
    by_clocks = {(run, check) for run, check in suspected if check in CLOCKS}
    assert suspected == by_clocks
    # Who casts in several groups may be right for reasons that no certificate sees.
    assert {check for run, check in by_clocks if run.startswith("world")} <= {"vs.L2"}
    assert not any(run.startswith("made") for run, _ in suspected)


def test_each_mutation_is_suspect(found: Found) -> None:
    for name, mutation in MUTATIONS["filter"].items():
        for check in mutation.checks:
            assert found[f"made filter {name}"][check][1] > 0, (name, check)


def test_what_is_concerned_shows_what_is_wrong(
    spark: SparkSession, told: list[Told], local: dict[str, dict[str, CheckResult]]
) -> None:
    """Of the checks that fail in a made run, the messages that are named. Where a message is outside its view,
    nothing can be told of who has it, nor named for that."""
    wrong = [(run, rows) for run, rows in told if run.run.startswith("made") and run.run != "made filter right"]
    traces = tell(spark, wrong)
    names = traces.runs.select(code_name(F.col("run")).alias("rid"), "run")
    tables = Tables(code_events(traces), names, names, traces.runs)
    rows = vs.concerned(tables, VIEW_CHECKS).join(names, "rid").collect()
    named: dict[tuple[str, str], int] = {}
    for row in rows:
        assert row.msg is not None
        named[row.run, row.check] = named.get((row.run, row.check), 0) + 1
    for run, _ in wrong:
        for check, result in local[run.run].items():
            unclear = check == "vs.C3" and local[run.run]["vs.L4"].violations
            if result.violations and check != "vs.L3" and not unclear:
                assert named.get((run.run, check), 0) > 0, (run.run, check)
