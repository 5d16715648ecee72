"""What is judged of configurations alone is what the local engine judges of the whole run."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.told import broken, golden, tell

from reconvene.pipeline.verify.skeleton import skeletons
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import verify
from reconvene.verify.evs.safe import accountable
from reconvene.verify.history import History

pytestmark = pytest.mark.long("seconds of Spark")

EXACT = {check.id for check in CHECKS if check.skeleton and check.layer == "evs"}
BY_MESSAGES = {"evs.1.1", "evs.6.1", "evs.6.2"}
"""Checks of which some cases are messages."""
KNOTS = BY_MESSAGES | {"evs.2.3", "evs.2.4"}
"""Checks of which some violations are knots that only messages tie."""


def test_configurations_tell_the_same_without_the_messages(spark: SparkSession) -> None:
    told = [*golden(), *broken(range(100))]
    found = {row.run: row for row in skeletons(tell(spark, told), CHECKS).collect()}
    assert len(found) == len(told)
    for run, rows in told:
        history = History.of(run, rows)
        _compare(found[run.run], history)


def _compare(row: Any, history: History) -> None:
    checks = {of["check"]: of for of in row.found}
    report = verify([history])
    for check in report.checks:
        if check.id not in EXACT:
            continue
        mine = checks[check.id]
        if check.id in BY_MESSAGES:
            assert mine["cases"] <= check.cases, (row.run, check.id)
        else:
            assert mine["cases"] == check.cases, (row.run, check.id)
        if check.id in KNOTS:
            assert mine["suspects"] <= check.violations, (row.run, check.id)
        else:
            assert mine["suspects"] == check.violations, (row.run, check.id)
    _compare_configurations(row, history)


def _compare_configurations(row: Any, h: History) -> None:
    found = {conf.conf: conf for conf in row.confs}
    known = {conf.id: index for index, conf in enumerate(h.confs) if conf.kind != "unknown"}
    assert found.keys() == known.keys()
    for name, index in known.items():
        conf, told = h.confs[index], found[name]
        assert (told.kind, told.root) == (conf.kind, h.conf_id(h.root[index]))
        assert told.members == _codes(h, conf.members)
        assert told.accountable == _codes(h, accountable(h, index)), (row.run, name)
        assert told.absent == _codes(h, tuple(m for m in conf.members if not h.enters(m, index)))
    last = {(stay.node, stay.inc): h.conf_id(h.root[stay.conf]) for stays in h.stays for stay in stays}
    assert {(end.node, end.inc): end.root for end in row.ends} == last


def _codes(h: History, members: tuple[int, ...]) -> list[int]:
    return [member if member < h.nodes else -1 for member in members]
