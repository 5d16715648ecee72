"""The log's certificates against the local engine: what they prove right is right, and they prove what is right."""

from collections.abc import Iterator

import pytest
from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.told import Told, golden, tell
from tests.verify.test_corel_against_oracles import broken_log

from reconvene.lab.ideal.corel import random_log
from reconvene.pipeline.verify import corel
from reconvene.pipeline.verify.coded import code_events, code_name
from reconvene.pipeline.verify.found import Tables
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import run_scenario
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import verify
from reconvene.verify.history import History

pytestmark = pytest.mark.slow

LOG_CHECKS = [check for check in CHECKS if check.layer == "corel" and check.id != "corel.follow"]
"""Runs with followers or outposts are not certified, but judged whole."""
IDS = [check.id for check in LOG_CHECKS]

Counts = dict[tuple[str, str], tuple[int, int]]
"""By run and check: cases, and suspects or violations."""


def _right() -> Iterator[Told]:
    for seed in range(150):
        run, rows = random_log(seed, names="abcd"[: 3 + seed % 2], steps=70)
        yield structs.replace(run, run=f"ideal {seed}"), rows
    for seed in (3, 8):
        result = run_scenario(random_scenario(seed, "log"))
        yield structs.replace(result.meta, run=f"simulated {seed}"), result.rows
    yield from (told for told in golden() if told[0].run.startswith("good/"))


def _broken() -> Iterator[Told]:
    for seed in range(400):
        run, rows = broken_log(seed, 1 + seed % 4)
        yield structs.replace(run, run=f"broken {seed}"), rows
    yield from (told for told in golden() if told[0].run.startswith("bad/"))


class Compared:
    """What both engines say of many runs, all certified in one job."""

    def __init__(self, spark: SparkSession) -> None:
        right, broken = list(_right()), list(_broken())
        self.right = {run.run for run, _ in right}
        self.wanted: Counts = {}
        for told in (*right, *broken):
            self.wanted |= _judge(told)
        traces = tell(spark, [*right, *broken])
        coded = code_events(traces)
        # What evs tells of configurations in other tables is not asked for.
        tables = Tables(coded, coded, coded, traces.runs)
        names = {
            row.rid: row.run for row in traces.runs.select(code_name(traces.runs.run).alias("rid"), "run").collect()
        }
        found = [
            (names[row.rid], row.check, row.cases, row.suspects)
            for row in corel.certify(tables, LOG_CHECKS).collect()
        ]
        self.found: Counts = {(run, check_id): (cases, suspects) for run, check_id, cases, suspects in found}
        assert len(self.found) == len(found), "one row of a run and check"
        self.named = _named(corel.concerned(tables, LOG_CHECKS), names)


def _judge(told: Told) -> Counts:
    run, rows = told
    history = History.of(run, rows)
    if not history.log.rows:
        return {}
    checks = verify([history], LOG_CHECKS).checks
    return {(run.run, check.id): (check.cases, check.violations) for check in checks}


def _named(concerned: DataFrame, names: dict[int, str]) -> set[tuple[str, str]]:
    """The runs and checks for which it names something."""
    assert concerned.columns == ["rid", "check", "msg", "node", "place"]
    return {(names[row.rid], row.check) for row in concerned.select("rid", "check").distinct().collect()}


@pytest.fixture(scope="module")
def compared(spark: SparkSession) -> Compared:
    return Compared(spark)


def test_runs_without_a_log_have_no_cases(compared: Compared) -> None:
    assert compared.found.keys() == compared.wanted.keys()


def test_what_is_violated_is_a_suspect(compared: Compared) -> None:
    violated = {key for key, (_, violations) in compared.wanted.items() if violations}
    assert {check_id for _, check_id in violated} == set(IDS)
    assert [key for key in violated if not compared.found[key][1]] == []


def test_what_is_proven_has_the_same_cases(compared: Compared) -> None:
    proven = {key: cases for key, (cases, suspects) in compared.found.items() if not suspects}
    assert {key: compared.wanted[key][0] for key in proven} == proven


def test_what_is_right_is_proven(compared: Compared) -> None:
    suspects = {key for key, (_, count) in compared.found.items() if count}
    assert [key for key in suspects if key[0] in compared.right] == []


def test_few_suspects_are_not_violated(compared: Compared) -> None:
    """Runs in which nothing is wrong at all, though they were broken at random, are hardly ever judged."""
    suspects = {run for (run, _), (_, count) in compared.found.items() if count}
    violated = {run for (run, _), (_, count) in compared.wanted.items() if count}
    assert violated <= suspects
    assert len(suspects - violated) <= len(violated) // 20


def test_suspects_are_named(compared: Compared) -> None:
    assert compared.named == {key for key, (_, suspects) in compared.found.items() if suspects}
