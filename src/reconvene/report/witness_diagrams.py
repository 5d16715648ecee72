"""Diagrams for a verdict: around the first witnesses of each violated check, as many as a page can bear."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconvene.errors import Malformed
from reconvene.report.moment import EventSource, Moment, around
from reconvene.report.trace_source import TraceSource, layer_of_check
from reconvene.trace.domains import is_wide, level_name, read_domains
from reconvene.trace.finding import find_traces
from reconvene.trace.parquet import list_runs, read_parquet_runs
from reconvene.trace.parquet_form import is_parquet
from reconvene.trace.reader import Trace, read_run, read_trace
from reconvene.verify.report import Report, Witness

__all__ = [
    "MOST_DIAGRAMS",
    "OF_A_CHECK",
    "WitnessDiagram",
    "diagrams_of_traces",
    "draw_witnesses",
    "runs_with_diagrams",
]

MOST_DIAGRAMS = 12
OF_A_CHECK = 2
"""Diagrams of one check, where there are witnesses for so many."""


@dataclass(frozen=True, slots=True)
class WitnessDiagram:
    check: str
    witness: Witness
    moment: Moment


def runs_with_diagrams(report: Report) -> list[str]:
    """The runs whose events are needed."""
    return sorted({witness.run for _, witness in _chosen(report)})


def draw_witnesses(report: Report, sources: Iterable[EventSource]) -> list[WitnessDiagram]:
    """`sources`: the events of runs, each looked at once. A witness whose event is not found gets no diagram."""
    chosen = _chosen(report)
    found: dict[tuple[str, Witness], WitnessDiagram] = {}
    for source in sources:
        for check, witness in chosen:
            if witness.run == source.run:
                try:
                    moment = around(source, witness.node, witness.n, witness.detail, layer_of_check(check))
                except Malformed:
                    continue
                found[check, witness] = WitnessDiagram(check, witness, moment)
    return [found[key] for key in chosen if key in found]


def diagrams_of_traces(report: Report, paths: Sequence[Path]) -> list[WitnessDiagram]:
    """The same from the traces that were judged, in whichever form. Only runs that are needed are kept in memory,
    one at a time."""
    needed = set(runs_with_diagrams(report))
    return draw_witnesses(report, _sources(paths, needed)) if needed else []


def _chosen(report: Report) -> list[tuple[str, Witness]]:
    """The first witness of each violated check, then the second."""
    chosen = [
        (check.id, check.witnesses[place])
        for place in range(OF_A_CHECK)
        for check in report.checks
        if place < len(check.witnesses)
    ]
    return chosen[:MOST_DIAGRAMS]


def _sources(paths: Sequence[Path], needed: set[str]) -> Iterator[TraceSource]:
    for place in (place for path in paths for place in find_traces(path)):
        if is_parquet(place):
            for name in sorted(needed & {each.run.run for each in list_runs(place)}):
                for run, rows in read_parquet_runs(place, name):
                    yield TraceSource(Trace(run, rows))
        elif is_wide(place):
            yield from _levels(place, needed)
        elif read_run(place).run in needed:
            yield TraceSource(read_trace(place))


def _levels(place: Path, needed: set[str]) -> Iterator[TraceSource]:
    """Of a trace of domains, its levels. There are no diagrams of what passes between them."""
    domains = read_domains(place)
    for domain in domains.domains:
        name = level_name(domains.run, domain.name)
        if name in needed:
            trace = read_trace(place / domain.name)
            trace.run.run = name
            yield TraceSource(trace)
