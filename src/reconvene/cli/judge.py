"""reconvene judge: checks traces while their runs go on."""

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from reconvene.cli._output import DONE, VIOLATED, print_json, refuse
from reconvene.cli.verify import show_report
from reconvene.errors import Malformed, Unavailable
from reconvene.local import LocalCluster
from reconvene.local.layout import Layout
from reconvene.trace.domains import is_wide
from reconvene.trace.judged import Judged, write_judged
from reconvene.trace.parquet_form import is_parquet
from reconvene.trace.reader import read_run

if TYPE_CHECKING:
    from reconvene.pipeline.judge.following import Told
    from reconvene.pipeline.judge.verdict import Found, OnlineReport, Verdict

__all__ = ["judge_command"]

_LOOK_S = 0.5


def judge_command(
    traces: Annotated[
        list[Path] | None, typer.Argument(metavar="TRACE", help="Trace directories, also of a running cluster.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="A local cluster's directory: its trace.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until interrupted, or until the cluster is down.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Checkpoint from which the next judge continues; default: none, it begins at the traces' start.",
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master's URL; default: all cores of this machine.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")] = False,
) -> None:
    """Check traces while they grow: safety, with bounded memory. Prints each violation when it is found; exits with 1
    if there is one."""
    try:
        paths = _paths(traces or [], directory)
        report = _judge(paths, follow, checkpoint, master, as_json)
    except (Malformed, Unavailable) as error:
        refuse(str(error), as_json)
    if as_json:
        print_json(report)
    else:
        show_report(report)
        _show_not_judged(report)
    raise typer.Exit(DONE if report.ok else VIOLATED)


def _paths(traces: list[Path], directory: Path | None) -> list[Path]:
    """The trace directories. Raises Malformed."""
    if bool(traces) == (directory is not None):
        raise Malformed("expected either --dir DIR or TRACE…")
    if directory is not None:
        cluster = LocalCluster(directory)
        if not cluster.choices.trace:
            raise Malformed(f"{directory}: this cluster keeps no trace; expected one that was started with --trace")
        traces = [cluster.trace_dir]
    for path in traces:
        if is_wide(path) or is_parquet(path):
            what = "a trace of domains" if is_wide(path) else "in Parquet"
            raise Malformed(f"{path}: is {what}; expected a trace directory: `reconvene verify` judges it")
        read_run(path)
    if len({path.resolve() for path in traces}) < len(traces):
        raise Malformed("expected each trace once")
    return traces


def _judge(
    paths: list[Path], follow: bool, checkpoint: Path | None, master: str | None, as_json: bool
) -> "OnlineReport":
    # Imported here, since most commands run without Spark. `open_session` says how to install it.
    from reconvene.pipeline.session import open_session

    out = sys.stderr if as_json else sys.stdout
    with ExitStack() as stack:
        place = checkpoint or Path(stack.enter_context(TemporaryDirectory(prefix="reconvene-")))
        spark = stack.enter_context(
            open_session(master, conf={"spark.sql.shuffle.partitions": str(min(8, len(paths)))})
        )
        from reconvene.pipeline.judge.query import follow_traces, wait_for
        from reconvene.pipeline.judge.verdict import Verdict

        def found(violation: "Found") -> None:
            at = violation.witness
            line = f"{violation.check}: run {at.run}, node {at.node}, n {at.n}: {at.detail}"
            print(line, file=out, flush=True)

        verdict = Verdict(found)
        show = _Progress(verdict, follow)

        def tell(told: "Told") -> None:
            verdict.take(told)
            show.batch(told)

        if follow:
            query = follow_traces(spark, paths, place, tell)
            try:
                while not wait_for(query, _LOOK_S) and _go_on(paths):
                    show.line()
            except KeyboardInterrupt:
                pass
            finally:
                query.stop()
        query = follow_traces(spark, paths, place, tell, final=True)
        while not wait_for(query, _LOOK_S):
            show.line()
        report = verdict.report()
    show.end()
    return report


def _go_on(paths: list[Path]) -> bool:
    """False once all clusters that the traces are of are down. A trace of something else goes on for ever."""
    for path in paths:
        layout = Layout(path.absolute().parent)
        if layout.trace != path.absolute() or not layout.exists() or LocalCluster(layout.directory).running():
            return True
    return False


class _Progress:
    """The line on the terminal; and, if the traces are followed, judge.json in each."""

    def __init__(self, verdict: "Verdict", follow: bool) -> None:
        self._verdict = verdict
        self._follow = follow
        self._console = Console(stderr=True)
        self._warned = False

    def batch(self, told: "Told") -> None:
        self._write(told, over=False)

    def end(self) -> None:
        for told in self._verdict.told():
            self._write(told, over=True)

    def _write(self, told: "Told", *, over: bool) -> None:
        judged = Judged(
            at=time.time_ns() // 1_000_000,
            rows=told.rows,
            verified={node: t // 1_000_000 for node, (_, t) in told.verified.items()},
            violations=self._verdict.violations_of(told.trace),
            not_judged=[f"{layer}: {why}" for layer, why in sorted(told.lost.items())],
            over=over,
        )
        try:
            if self._follow:
                write_judged(Path(told.trace), judged)
        except OSError as error:
            if not self._warned:
                print(f"{told.trace}: judge.json can't be written ({error.strerror})", file=sys.stderr)
            self._warned = True
        for line in judged.not_judged if over else ():
            print(f"{told.trace}: not judged: {line}", file=sys.stderr)

    def line(self) -> None:
        if not self._console.is_terminal:
            return
        for told in self._verdict.told():
            upto = ", ".join(f"{node} {_clock(t)}" for node, (_, t) in sorted(told.verified.items()))
            line = f"{told.rows:,} events, {self._verdict.violations} violations, verified up to: {upto}"
            self._console.print(line, end="\r", markup=False, soft_wrap=True)


def _clock(t: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(t / 1e9))


def _show_not_judged(report: "OnlineReport") -> None:
    by_reason: dict[str, list[str]] = {}
    for check, why in report.not_judged.items():
        by_reason.setdefault(why, []).append(check)
    for why, checks in by_reason.items():
        print(f"not judged: {', '.join(checks)}: {why}")
