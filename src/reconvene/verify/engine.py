"""Runs every check over any number of histories."""

from collections.abc import Iterable, Sequence
from typing import Any

from reconvene.trace.events import SCHEMA
from reconvene.verify.check import Check
from reconvene.verify.checks import CHECKS, IDS
from reconvene.verify.counts import counts_of
from reconvene.verify.history import History
from reconvene.verify.report import Report, Tallies

__all__ = ["CHECKS", "IDS", "judge", "verify"]


def verify(histories: Iterable[History], checks: Sequence[Check[Any, Any]] = CHECKS) -> Report:
    """Checks each run by itself and adds up what was found. `histories` may be made one by one."""
    tallies = Tallies(check.id for check in checks)
    runs = events = 0
    for history in histories:
        runs += not history.is_level
        events += history.rows
        judge(history, checks, tallies)
    results = tallies.results()
    return Report(
        ok=not any(result.violations for result in results),
        schema=SCHEMA,
        engine="local",
        runs=runs,
        events=events,
        checks=results,
    )


def judge(history: History, checks: Iterable[Check[Any, Any]], tallies: Tallies) -> None:
    """One run. A check of a layer without rows looks at nothing."""
    for check in checks:
        if history.has(check.layer) or (check.every_row and history.wide is not None):
            tally = tallies[check.id]
            tally.cases += check.cases(counts_of(history, check.layer))
            check.check(history, tally)
