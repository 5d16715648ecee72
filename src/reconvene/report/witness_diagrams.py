"""Diagrams for a verdict: around the first witnesses of each violated check, as many as a page can bear."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconvene.errors import Malformed
from reconvene.report.moment import EventSource, Moment, around
from reconvene.report.trace_source import TraceSource, layer_of_check
from reconvene.trace.reader import read_run, read_trace
from reconvene.verify.report import Report, Witness

__all__ = ["MOST_DIAGRAMS", "OF_A_CHECK", "WitnessDiagram", "diagrams_of_traces", "draw_witnesses"]

MOST_DIAGRAMS = 12
OF_A_CHECK = 2
"""Diagrams of one check, where there are witnesses for so many."""


@dataclass(frozen=True, slots=True)
class WitnessDiagram:
    check: str
    witness: Witness
    moment: Moment


def draw_witnesses(report: Report, source_of: Callable[[str], EventSource | None]) -> list[WitnessDiagram]:
    """Of the first witness of each violated check, then of the second. `source_of` a run's name: its events.

    A witness whose run or event can't be found gets no diagram."""
    found: list[WitnessDiagram] = []
    for place in range(OF_A_CHECK):
        for check in report.checks:
            if place >= len(check.witnesses) or len(found) >= MOST_DIAGRAMS:
                continue
            witness = check.witnesses[place]
            source = source_of(witness.run)
            if source is None:
                continue
            try:
                moment = around(source, witness.node, witness.n, witness.detail, layer_of_check(check.id))
            except Malformed:
                continue
            found.append(WitnessDiagram(check.id, witness, moment))
    return found


def diagrams_of_traces(report: Report, directories: Sequence[Path]) -> list[WitnessDiagram]:
    """The same from the trace directories that were judged. Only those of runs with witnesses are read again."""
    needed = {witness.run for check in report.checks for witness in check.witnesses[:OF_A_CHECK]}
    places: Mapping[str, Path] = {}
    if needed:
        places = {read_run(directory).run: directory for directory in directories}
    sources: dict[str, TraceSource] = {}

    def source_of(run: str) -> TraceSource | None:
        if run not in places:
            return None
        if run not in sources:
            # One run in memory at a time: traces may be large, and witnesses come in the order of runs.
            sources.clear()
            sources[run] = TraceSource(read_trace(places[run]))
        return sources[run]

    return draw_witnesses(report, source_of)
