"""Runs every check over any number of histories."""

from collections.abc import Callable, Iterable

from reconvene.trace.events import SCHEMA
from reconvene.verify import corel, live, to, transis, vs
from reconvene.verify.evs import basic, causal, changes, delivery, primary, safe, total
from reconvene.verify.history import History
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Report, Tallies

__all__ = ["CHECKS", "verify"]

_FAMILIES: tuple[tuple[tuple[str, ...], Callable[[History, Precedes, Tallies], None]], ...] = tuple(
    (family.IDS, family.check)
    for family in (basic, changes, delivery, causal, total, safe, primary, transis, to, corel, live, vs)
)

CHECKS = tuple(check_id for ids, _ in _FAMILIES for check_id in ids)
"""The ids of all checks, in the report's order."""


def verify(histories: Iterable[History]) -> Report:
    """Checks each run by itself and adds up what was found. `histories` may be made one by one."""
    tallies = Tallies(CHECKS)
    runs = events = 0
    for history in histories:
        runs += 1
        events += history.rows
        precedes = Precedes(history)
        for _, check in _FAMILIES:
            check(history, precedes, tallies)
    results = tallies.results()
    return Report(
        ok=not any(result.violations for result in results),
        schema=SCHEMA,
        engine="local",
        runs=runs,
        events=events,
        checks=results,
    )
