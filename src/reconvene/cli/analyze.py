"""reconvene analyze: latency, rates, fairness and configuration changes, as tables, plots and a diagram."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from reconvene.cli._measures import print_measures
from reconvene.cli._output import print_json
from reconvene.cli._spark import Conf, Master, Spark
from reconvene.cli._traces import progress, still
from reconvene.errors import Malformed
from reconvene.report.analysis_page import analysis_page
from reconvene.report.measures import Analysis
from reconvene.report.moment import EventSource, Moment, around, within
from reconvene.report.page import write_page
from reconvene.report.spacetime import diagram_file
from reconvene.report.trace_source import TraceSource
from reconvene.trace.domains import refuse_wide
from reconvene.trace.reader import read_trace
from reconvene.trace.writer import RUN_FILE
from reconvene.units import LONGEST_NS, parse_duration, show_duration
from reconvene.verify.report import Report

if TYPE_CHECKING:
    from reconvene.pipeline.traces import Traces

__all__ = ["analyze_command", "default_window"]


def analyze_command(
    traces: list[str] = typer.Argument(
        ..., metavar="TRACE", help="Trace directories, Parquet forms, or directories of these."
    ),
    html: Path | None = typer.Option(None, metavar="FILE", help="Write a self-contained report with plots."),
    spacetime: Path | None = typer.Option(None, metavar="FILE", help="Write only the space-time diagram, as SVG."),
    run: str | None = typer.Option(
        None, metavar="NAME", help="The run to show over time; default: the first by name."
    ),
    window: str | None = typer.Option(
        None, metavar="FROM..TO", help="The diagram's time span, since the run's first event: 2s..2.5s"
    ),
    around_: str | None = typer.Option(
        None, "--around", metavar="NODE:N", help="Let the diagram show what happened around event N of NODE."
    ),
    verdict: Path | None = typer.Option(
        None, metavar="FILE", help="The output of verify --json for these traces, shown at the top of the report."
    ),
    master: Master = None,
    conf: Conf = None,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Measure latency, rates and fairness from traces, as tables and plots."""
    focus = _Focus.parse(window, around_)
    for path in filter(None, (html, spacetime)):
        _check_target(path)
    if focus.asked and html is None and spacetime is None:
        raise Malformed(
            "--window, --around: expected --html or --spacetime with it, since only these show the diagram"
        )
    for trace in traces:
        if "://" not in trace and not Path(trace).exists():
            raise Malformed(f"{trace}: no such file or directory; expected a trace")
        if "://" not in trace:
            refuse_wide(Path(trace), "analyze")
    told = None if verdict is None else _read_verdict(verdict)
    spark = Spark.parse(master, conf)
    with ExitStack() as open_:
        places = [open_.enter_context(still(trace)) for trace in traces]
        if spacetime is not None and html is None and not as_json and not spark.asked and _is_directory(places):
            # For a diagram of one trace, Spark would take longer to start than the drawing takes.
            _draw_alone(spacetime, focus.moment(_local_source(Path(places[0]), run), None))
            return
        analysis, said, moment = _on_spark(
            places, traces, spark, run, focus, html is not None or spacetime is not None
        )
    if html is not None:
        write_page(html, analysis_page(analysis, [(said, moment)] if moment else [], told))
    if spacetime is not None and moment is not None:
        write_page(spacetime, diagram_file(moment))
    if as_json:
        print_json(analysis)
        return
    print_measures(analysis)
    for path in filter(None, (html, spacetime)):
        print(f"written: {path}")


def _draw_alone(path: Path, moment: Moment) -> None:
    write_page(path, diagram_file(moment))
    print(f"{path}: {len(moment.events)} events, {moment.left_out} not shown")


@dataclass(frozen=True, slots=True)
class _Focus:
    """The part of a run that the diagram shows."""

    window: tuple[int, int] | None = None
    event: tuple[str, int] | None = None

    @classmethod
    def parse(cls, window: str | None, event: str | None) -> "_Focus":
        if window is not None and event is not None:
            raise Malformed("--window and --around: expected one of them")
        if window is not None:
            low, dots, high = window.partition("..")
            try:
                span = (parse_duration(low), parse_duration(high))
            except ValueError as error:
                raise Malformed(f"--window {window}: expected FROM..TO, each {error}") from None
            if not dots or span[0] >= span[1]:
                raise Malformed(f"--window {window}: expected FROM..TO, the first before the second")
            return cls(window=span)
        if event is not None:
            node, colon, number = event.rpartition(":")
            if not colon or not node or not number.isdecimal() or len(number) > 18:
                raise Malformed(f"--around {event}: expected NODE:N, a node and the number of one of its events")
            return cls(event=(node, int(number)))
        return cls()

    @property
    def asked(self) -> bool:
        return self.window is not None or self.event is not None

    def moment(self, source: EventSource, analysis: Analysis | None) -> Moment:
        if self.event is not None:
            return around(source, *self.event)
        if self.window is not None:
            return within(source, *self.window)
        return within(source, *default_window(analysis))

    def said(self, run: str, analysis: Analysis) -> str:
        if self.event is not None:
            return f"{run}, around event {self.event[1]} of {self.event[0]}"
        low, high = self.window or default_window(analysis)
        return f"{run}, from {show_duration(low)} to {show_duration(high)}"


def default_window(analysis: Analysis | None) -> tuple[int, int]:
    """The default time span: around the change with the longest silence, or the whole run."""
    story = analysis.story if analysis else None
    if story is None or not story.changes:
        return 0, story.length + 1 if story else LONGEST_NS
    change = max(story.changes, key=lambda change: (change.silence or 0, change.took))
    margin = 2 * max(change.took, story.length // 200, 1)
    return max(change.began - margin, 0), change.began + change.took + margin


def _on_spark(
    places: list[str], names: list[str], spark: Spark, run: str | None, focus: _Focus, drawn: bool
) -> tuple[Analysis, str, Moment | None]:
    with progress() as tell:
        tell("starting Spark")
        with spark.open("reconvene analyze") as session:
            # Imported here, since most commands run without Spark.
            from reconvene.pipeline.analyze.measure import measure
            from reconvene.pipeline.traces import read_traces

            tell("reading")
            with read_traces(session, places) as found:
                tell("measuring")
                analysis = measure(found, names, run)
                if not drawn or analysis.story is None:
                    return analysis, "", None
                tell("drawing")
                return analysis, focus.said(analysis.story.run, analysis), _draw(found, focus, analysis)


def _draw(traces: "Traces", focus: _Focus, analysis: Analysis) -> Moment:
    from reconvene.pipeline.analyze.moments import TableSource

    assert analysis.story is not None, "the diagram shows the run of the story"
    return focus.moment(TableSource(traces, analysis.story.run), analysis)


def _is_directory(places: list[str]) -> bool:
    return len(places) == 1 and (Path(places[0]) / RUN_FILE).is_file()


def _local_source(directory: Path, run: str | None) -> TraceSource:
    source = TraceSource(read_trace(directory))
    if run not in (None, source.run):
        raise Malformed(f"--run {run}: the traces have no such run")
    return source


def _check_target(path: Path) -> None:
    """Raises Malformed before the work begins, not after it."""
    if path.is_dir():
        raise Malformed(f"{path}: is a directory; expected a file to write to")
    if not path.absolute().parent.is_dir():
        raise Malformed(f"{path}: expected a file in a directory that exists")


def _read_verdict(path: Path) -> Report:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except OSError as error:
        raise Malformed(f"{path}: can't be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"{path}: expected the output of verify --json ({error})") from None
