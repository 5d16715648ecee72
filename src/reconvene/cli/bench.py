"""reconvene bench: measures."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as RichTable

from reconvene.build import current_build
from reconvene.cli._output import VIOLATED, print_json, refuse
from reconvene.lab.bench import BENCHES, PEERS, PLOTTED, Settings, Sheet, Table, load, missing
from reconvene.lab.bench.plotting import HOW, can_plot
from reconvene.lab.bench.rounds import OwnSitesFailed
from reconvene.lab.bench.sheet import Progress as ReportProgress
from reconvene.lab.ending import unwinds_on_sigterm

__all__ = ["bench_command"]


def bench_command(
    name: Annotated[str | None, typer.Argument(metavar="|".join(BENCHES), help="Which one.")] = None,
    peer: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Other systems to measure too, where the benchmark has any.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A minute or less.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, metavar="N", help="Seed of what runs in virtual time.")
    ] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for plots.")] = Path("out/bench"),
) -> None:
    """Run a benchmark. One that runs in virtual time has the same figures on every machine."""
    if name is None or name not in BENCHES:
        got = "" if name is None else f"{name}: "
        refuse(f"{got}expected a benchmark: {', '.join(BENCHES)}", as_json)
    peers = _peers(name, peer or "", as_json)
    if out.exists() and not out.is_dir():
        refuse(f"{out}: --out: expected a directory", as_json)
    try:
        with unwinds_on_sigterm(), _progress() as tell:
            sheet = load(name)(Settings(quick, seed, out if can_plot() else None, tell, peers))
    except OwnSitesFailed as error:
        refuse(str(error), as_json, VIOLATED)
    if as_json:
        print_json({"bench": sheet.bench, "build": current_build(), "rows": sheet.rows})
    else:
        _show(sheet)
    _show_plots(sheet)


def _peers(name: str, listed: str, as_json: bool) -> tuple[str, ...]:
    known = PEERS[name]
    peers = tuple(dict.fromkeys(filter(None, (part.strip() for part in listed.split(",")))))
    for peer in peers:
        if peer not in known:
            expected = f"expected {', '.join(known)}" if known else f"bench {name} has no peers"
            refuse(f"--peer {peer}: {expected}", as_json)
    for peer in peers:
        if (why := missing(peer)) is not None:
            refuse(f"--peer {peer}: {why}", as_json)
    return peers


@contextmanager
def _progress() -> Iterator[ReportProgress]:
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield tell


def _show(sheet: Sheet) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    for table in sheet.tables:
        console.print(table.title, style="bold", markup=False, soft_wrap=True)
        console.print(_rich(table))
        console.print()
    for note in sheet.notes:
        print(note)
    print(f"build: {current_build()}")
    sys.stdout.flush()


def _rich(table: Table) -> RichTable:
    shown = RichTable(box=None, pad_edge=False)
    for place, column in enumerate(table.columns):
        numeric = place > 0 and all(line[place][:1].isdigit() for line in table.lines)
        shown.add_column(column, justify="right" if numeric else "left")
    for line in table.lines:
        shown.add_row(*line)
    return shown


def _show_plots(sheet: Sheet) -> None:
    """On stderr, so that it does not mix with tables or JSON."""
    if not can_plot():
        if sheet.bench in PLOTTED:
            print(HOW, file=sys.stderr)
    elif sheet.plots:
        names = ", ".join(path.name for path in sheet.plots if path.suffix == ".png")
        print(f"plots in {sheet.plots[0].parent}: {names} (and as SVG)", file=sys.stderr)
