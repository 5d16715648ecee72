"""reconvene trace make: large traces to measure with."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from reconvene.cli._output import print_json
from reconvene.cli._spark import Conf, Master, Spark
from reconvene.cli._units import parse_count
from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES
from reconvene.pipeline.session import need_spark

__all__ = ["make_command"]

_FORMS = ("parquet", "jsonl")
_STACKS = ("evs", "corel", "filter")
_MOST_EVENTS = 10**12

Advance = Callable[[int, int], None]


def make_command(
    events: Annotated[str, typer.Option(metavar="N", help="About how many events in all: 20000, 1.5M, 100M, 1G.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new directory for the traces.")],
    runs: Annotated[int, typer.Option(min=1, max=10**6, metavar="N", help="How many runs.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, max=MAX_SITES, metavar="N", help="Sites of each run.")] = 5,
    stack: Annotated[
        str,
        typer.Option(
            metavar="|".join(_STACKS), help="evs: group communication; corel: the log; filter: a process group."
        ),
    ] = "evs",
    changes: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="Partitions and merges in each run.")
    ] = 4,
    mutation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make one thing wrong: swap-agreed, lose-agreed, …")
    ] = None,
    at: Annotated[float, typer.Option(min=0, max=1, metavar="PART", help="Where it is: 0 first, 1 last.")] = 0.5,
    form: Annotated[
        str, typer.Option(metavar="|".join(_FORMS), help="parquet: one table; jsonl: a trace directory for each run.")
    ] = "parquet",
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Make traces as large as you like, on Spark: correct ones or, with --mutation, wrong in one place."""
    if form not in _FORMS:
        raise Malformed(f"--form {form}: expected {' or '.join(_FORMS)}")
    if stack not in _STACKS:
        raise Malformed(f"--stack {stack}: expected one of {', '.join(_STACKS)}")
    wanted = parse_count(events, "--events")
    if not 1 <= wanted <= _MOST_EVENTS:
        raise Malformed(f"--events {events}: expected 1 to {_MOST_EVENTS:,}")
    spark = Spark.parse(master, conf)
    _check_target(to)
    made = _make(to, spark, form, wanted, runs, nodes, stack, changes, mutation, at)
    if as_json:
        print_json({"runs": runs, "events": made, "form": form, "to": str(to)})
        return
    print(f"{runs} runs, {made} events made in {to}: reconvene verify {to}")


def _make(
    to: Path,
    spark: Spark,
    form: str,
    events: int,
    runs: int,
    nodes: int,
    stack: str,
    changes: int,
    mutation: str | None,
    at: float,
) -> int:
    need_spark()
    from reconvene.lab.generate.recipe import recipe

    how = recipe(events, runs=runs, nodes=nodes, stack=stack, changes=changes, mutation=mutation, at=at)
    with spark.open("reconvene trace make") as session:
        from reconvene.lab.generate.directories import about_bytes, write_directories
        from reconvene.lab.generate.make import generate, tasks_of, write_traces
        from reconvene.pipeline.watching import watched

        try:
            with _progress() as advance:
                if form == "jsonl":
                    total = about_bytes(how)
                    look = _looking(advance, lambda: sum(file.stat().st_size for file in to.glob("*/*.jsonl")), total)
                    return watched(lambda: write_directories(session, how, to), look)
                look = _looking(advance, lambda: len(list(to.glob("events/_temporary/0/task_*"))), tasks_of(how))
                watched(lambda: write_traces(generate(session, how), to), look)
                return session.read.parquet(f"{to}/events").count()
        except BaseException:
            # What is not whole is of no use, and the next attempt needs a new directory.
            shutil.rmtree(to, ignore_errors=True)
            raise


def _looking(advance: Advance | None, done: Callable[[], int], total: int) -> Callable[[], None] | None:
    return None if advance is None else lambda: advance(done(), total)


def _check_target(to: Path) -> None:
    """Raises Malformed before the work begins."""
    try:
        if to.exists() and (not to.is_dir() or any(to.iterdir())):
            raise Malformed(f"--to {to}: exists already; expected a new directory, or an empty one")
    except OSError as error:
        raise Malformed(f"--to {to}: expected a directory ({error.strerror or error})") from None


@contextmanager
def _progress() -> Iterator[Advance | None]:
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("making", total=None)
        yield lambda done, total: bar.update(task, completed=min(done, total), total=total)
