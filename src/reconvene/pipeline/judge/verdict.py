"""The verdict over traces that are judged while they grow: what is violated so far, and the report at the end.

Given: what each batch says of each trace (`Told`). Promised: a report whose cases, violations and witnesses of the
judged checks are those of `reconvene verify`. A layer without suspects is proven right. One with suspects is judged
by the local checks over the files, as far as they have been read: while the run goes on, of runs of up to `LOOK_ROWS`
rows; at the end, of up to `JUDGED_ROWS`. Of larger ones the rows that were seen to be wrong are shown, and the
witnesses say that they are not proven right.

While a run goes on one node's file may be read further than another's. So a violation counts once it was found twice,
in files that were read further meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconvene.errors import Malformed
from reconvene.pipeline.judge.following import Told
from reconvene.trace.events import SCHEMA
from reconvene.trace.reader import decode_rows, read_run
from reconvene.trace.writer import node_file
from reconvene.verify.check import Check
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import judge
from reconvene.verify.history import History
from reconvene.verify.online.run import JUDGED, NOT_JUDGED
from reconvene.verify.report import Report, Tallies, Witness

__all__ = ["JUDGED_ROWS", "LOOK_ROWS", "Found", "OnlineReport", "Verdict", "not_judged"]

LOOK_ROWS = 200_000
JUDGED_ROWS = 1_000_000

_UNSURE = "not proven right; reconvene verify decides"


class OnlineReport(Report, frozen=True, kw_only=True):
    """What `reconvene judge --json` prints: the report of the checks that it judges, and why it does not judge the
    others."""

    not_judged: dict[str, str]


class Found(Struct, frozen=True):
    """A violation that was found while the run goes on."""

    check: str
    witness: Witness


@dataclass(slots=True)
class _Trace:
    told: Told
    suspected: int = 0
    """In how many whole passes in a row there were suspects."""
    looked: set[tuple[str, Witness]] = field(default_factory=set)
    """What the last look found."""
    found: set[tuple[str, Witness]] = field(default_factory=set)
    violations: int = 0


class Verdict:
    def __init__(self, tell: Callable[[Found], None]) -> None:
        """`tell` gets each violation once, as soon as it is certain."""
        self._tell = tell
        self._traces: dict[str, _Trace] = {}

    @property
    def violations(self) -> int:
        """Found so far."""
        return sum(trace.violations for trace in self._traces.values())

    def violations_of(self, trace: str) -> int:
        return self._traces[trace].violations

    def told(self) -> list[Told]:
        return [trace.told for trace in self._traces.values()]

    def take(self, told: Told) -> None:
        trace = self._traces.setdefault(told.trace, _Trace(told))
        trace.told = told
        if not told.suspects:
            trace.suspected = 0
        elif told.whole and not told.final:
            trace.suspected += 1
            if trace.suspected >= 2:
                self._look(trace)

    def _look(self, trace: _Trace) -> None:
        told = trace.told
        found = _seen(told) if told.rows > LOOK_ROWS else _judged_so_far(told)
        for check, witness in sorted((found & trace.looked) - trace.found):
            trace.found.add((check, witness))
            trace.violations = len(trace.found)
            self._tell(Found(check, witness))
        trace.looked = found

    def report(self) -> OnlineReport:
        """At the end: of what the last batches said. Raises Malformed where a trace can't be read."""
        tallies = Tallies(JUDGED)
        lost: dict[str, str] = {}
        for trace in self._traces.values():
            told = trace.told
            before = sum(tallies[check].violations for check in JUDGED)
            for layer, why in told.lost.items():
                lost |= {check.id: f"{told.run}: {why}" for check in _checks(layer)}
            for layer in ("evs", "corel"):
                if layer not in told.lost:
                    _conclude(told, _checks(layer), tallies)
            trace.violations = sum(tallies[check].violations for check in JUDGED) - before
        results = [tallies[check].result() for check in JUDGED if check not in lost]
        return OnlineReport(
            ok=not any(result.violations for result in results),
            schema=SCHEMA,
            engine="online",
            runs=len(self._traces),
            events=sum(trace.told.rows for trace in self._traces.values()),
            checks=results,
            not_judged={**not_judged(), **lost},
        )


def not_judged() -> dict[str, str]:
    """Why each of the other checks is not judged."""
    return {
        check.id: NOT_JUDGED.get(check.id, f"the layer {check.layer} is not judged online")
        for check in CHECKS
        if check.id not in JUDGED
    }


def _checks(layer: str) -> list[Check[Any, Any]]:
    return [check for check in CHECKS if check.id in JUDGED and check.layer == layer]


def _conclude(told: Told, checks: list[Check[Any, Any]], tallies: Tallies) -> None:
    """Adds what is found of one trace's layer at the end."""
    if not any(check.id in told.suspects for check in checks):
        for check in checks:
            tallies[check.id].cases += told.cases.get(check.id, 0)
    elif told.rows <= JUDGED_ROWS:
        judge(History.load(Path(told.trace)), checks, tallies)
    else:
        shown = _seen(told)
        for check in checks:
            tally = tallies[check.id]
            tally.cases += told.cases.get(check.id, 0)
            named = sorted(witness for of, witness in shown if of == check.id)
            for witness in named:
                tally.violate(witness.run, witness.node, witness.n, witness.detail)
            for _ in range(told.suspects.get(check.id, 0) - len(named)):
                tally.violations += 1


def _seen(told: Told) -> set[tuple[str, Witness]]:
    """The rows that were seen to be wrong, for the suspect checks that their facts are about."""
    return {
        (check.id, Witness(told.run, seen.node, seen.n, f"{seen.what}: {seen.fact}: {_UNSURE}"))
        for seen in told.sightings
        for check in CHECKS
        if check.id in told.suspects and seen.fact in check.facts
    }


def _judged_so_far(told: Told) -> set[tuple[str, Witness]]:
    """The witnesses of the suspect layers, in the files as far as they are judged."""
    directory = Path(told.trace)
    run = read_run(directory)
    rows = {}
    for node in run.recorded:
        path = node_file(directory, node)
        try:
            with path.open("rb") as file:
                rows[node] = decode_rows(file.read(told.offsets.get(node, 0)), node)
        except OSError as error:
            raise Malformed(f"{path}: can't be read ({error.strerror})") from None
    history = History.of(run, rows)
    layers = {check.layer for check in CHECKS if check.id in told.suspects}
    checks = [check for layer in sorted(layers) for check in _checks(layer)]
    tallies = Tallies(check.id for check in checks)
    judge(history, checks, tallies)
    return {(result.id, witness) for result in tallies.results() for witness in result.witnesses}
