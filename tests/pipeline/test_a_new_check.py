"""A check that is declared in one place runs in both engines, and appears in the report.

The check is defined inside a function, so that Spark's workers get it by value: they can't import this module.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from tests.pipeline.told import Told, golden, tell

from reconvene.pipeline.verify.engine import certify_traces, verify_traces
from reconvene.verify.check import Check
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import verify
from reconvene.verify.history import History

pytestmark = pytest.mark.long("seconds of Spark")


def made_up(provable: bool) -> Check[Any, Any]:
    """Nobody sends a causal message."""
    causal = 1

    def check(history: History, tally: Any) -> None:
        for event in history.sends:
            if history.service[event] == causal:
                node = history.names[history.node[event]]
                tally.violate(history.run.run, node, history.n[event], history.describe(event))

    def prove(run: Any, proof: Any) -> None:
        if run.is_unclear:
            proof.doubt()
        for pattern in run.patterns:
            if pattern.service == causal:
                proof.suspect(pattern.sends, pattern.row)

    return Check(
        id="evs.made-up",
        layer="evs",
        source="this test",
        case="a sending",
        violated="it is of a causal message",
        cases=lambda n: n.sends,
        check=check,
        prove=prove if provable else None,
    )


@pytest.fixture(scope="module")
def told() -> list[Told]:
    return [one for one in golden() if one[0].run in ("good/pair", "good/services")]


@pytest.mark.parametrize("provable", [True, False])
def test_it_runs_in_both_engines(spark: SparkSession, told: list[Told], provable: bool) -> None:
    checks: Sequence[Check[Any, Any]] = [*CHECKS, made_up(provable)]
    expected = verify((History.of(run, rows) for run, rows in told), checks)
    assert [check.id for check in expected.checks] == [check.id for check in checks]
    added = expected.check("evs.made-up")
    assert added.cases > added.violations > 0
    assert added.witnesses
    for whole_rows in (0, 1_000):
        report = verify_traces(spark, tell(spark, told), whole_rows=whole_rows, checks=checks)
        assert structs.replace(report, engine="local") == expected


def test_what_it_proves_need_not_be_judged(spark: SparkSession, told: list[Told]) -> None:
    """A check without a proof has a suspect in every run."""
    traces = tell(spark, told)
    for provable, suspects in ((True, 1), (False, len(told))):
        found = certify_traces(traces, [*CHECKS, made_up(provable)])
        rows = found.where("check = 'evs.made-up' and suspects > 0").collect()
        assert len(rows) == suspects
