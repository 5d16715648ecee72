"""reconvene trace: converts traces from one form to the other."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from reconvene.cli._output import print_json
from reconvene.cli._spark import Conf, Master, Spark
from reconvene.errors import Malformed, Unavailable
from reconvene.local import steady
from reconvene.trace.domains import refuse_wide
from reconvene.trace.finding import find_traces
from reconvene.trace.parquet import read_parquet_runs
from reconvene.trace.parquet_form import is_parquet
from reconvene.trace.writer import RUN_FILE, write_trace

__all__ = ["pack_command", "unpack_command"]


def pack_command(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE", help="Trace directories, or directories of them.")],
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Directory for the Parquet files; existing runs stay.")
    ],
    master: Master = None,
    conf: Conf = None,
    replace: Annotated[bool, typer.Option("--replace", help="Pack a run even if one of that name exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Convert trace directories to Parquet. Runs that are packed already are skipped."""
    spark = Spark.parse(master, conf)
    with ExitStack() as copies:
        directories = [copies.enter_context(steady(directory)) for path in traces for directory in find_traces(path)]
        for directory in directories:
            refuse_wide(directory, "pack")
            if is_parquet(directory):
                raise Malformed(f"{directory}: is Parquet already; expected trace directories")
        _check_target(to)
        with spark.open("reconvene trace pack") as session, _progress() as progress:
            from reconvene.pipeline.pack import pack_traces

            packed = pack_traces(session, directories, to, replace=replace, progress=progress)
    if as_json:
        document = {"runs": packed.runs, "events": packed.events, "skipped": packed.skipped, "to": str(to)}
        print_json(document)
        return
    there = f"; {packed.skipped} were there already" if packed.skipped else ""
    print(f"{packed.runs} runs, {packed.events} events packed into {to}{there}")


def unpack_command(
    packed: Annotated[Path, typer.Argument(metavar="PACKED", help="A directory with events/ and runs/.")],
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Directory for the trace directories, one for each run.")
    ],
    run: Annotated[str | None, typer.Option("--run", metavar="NAME", help="Only this run.")] = None,
) -> None:
    """Convert Parquet to trace directories."""
    if not is_parquet(packed):
        raise Malformed(f"{packed}: expected a directory with events/ and runs/")
    runs = events = 0
    for meta, rows in read_parquet_runs(packed, only=run):
        directory = to / _directory_name(meta.run)
        if directory.exists() and any(directory.iterdir()):
            raise Malformed(f"{directory}: exists already; expected none, or an empty one")
        try:
            write_trace(directory, meta, rows)
        except OSError as error:
            raise Unavailable(f"{directory}: can't be written to ({error.strerror or error})") from None
        runs += 1
        events += sum(map(len, rows.values()))
    print(f"{runs} runs, {events} events unpacked into {to}")


def _directory_name(run: str) -> str:
    if "/" in run or run in ("", ".", "..") or "\0" in run:
        raise Malformed(f"the run {run!r} can't name a directory; expected a name without /")
    return run


def _check_target(to: Path) -> None:
    if to.exists() and not to.is_dir():
        raise Malformed(f"--to {to}: is a file; expected a directory")
    if (to / RUN_FILE).exists():
        raise Malformed(f"--to {to}: is a trace directory; expected one for Parquet")


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("packing", total=None)

        def advance(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield advance
