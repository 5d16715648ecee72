"""reconvene verify: checks traces against every property."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from reconvene.cli._output import DONE, VIOLATED, print_json, refuse
from reconvene.errors import Malformed
from reconvene.local import steady
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import CheckResult, Report

__all__ = ["verify_command"]


def verify_command(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE", help="Trace directories.")],
    engine: Annotated[str, typer.Option(help="local: in this process; spark: not in this version.")] = "local",
    master: Annotated[str | None, typer.Option(help="Spark master's URL, for --engine spark.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a report to this file.")] = None,
) -> None:
    """Check traces against every property; exit 1 where one is violated, with witnesses."""
    if engine not in ("local", "spark"):
        refuse(f"--engine {engine}: expected local or spark", as_json)
    if engine == "spark" or master is not None:
        refuse("--engine spark and --master need the Spark engine, which this version does not have", as_json)
    if html is not None:
        refuse("--html: reports in HTML are not available in this version", as_json)
    try:
        report = verify(_histories(traces))
    except Malformed as error:
        refuse(str(error), as_json)
    if as_json:
        print_json(report)
    else:
        _show(report)
    raise typer.Exit(DONE if report.ok else VIOLATED)


def _histories(traces: list[Path]) -> Iterator[History]:
    for trace in traces:
        with steady(trace) as still:
            try:
                history = History.load(still)
            except Malformed as error:
                # Of a running cluster a copy is read, which is gone when anyone looks for it.
                raise Malformed(str(error).replace(str(still), str(trace))) from None
        yield history


def _show(report: Report) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal:
        console.print(_table(report))
    else:
        for check in report.checks:
            print(f"{check.id:<24} {check.cases:>10} {_verdict(check)}")
    for check in report.checks:
        for witness in check.witnesses:
            console.print(
                f"{check.id}: run {witness.run}, node {witness.node}, n {witness.n}: {witness.detail}", markup=False
            )
    bad = sum(check.violations > 0 for check in report.checks)
    idle = sum(check.cases == 0 for check in report.checks)
    verdict = "every check that had cases holds" if report.ok else f"{bad} checks are violated"
    looked = f"; {idle} looked at nothing" if idle else ""
    runs = "1 run" if report.runs == 1 else f"{report.runs} runs"
    console.print(f"{runs}, {report.events} events: {verdict}{looked}", markup=False)


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("check")
    table.add_column("cases", justify="right")
    table.add_column("")
    for check in report.checks:
        style = "red" if check.violations else "" if check.cases else "dim"
        table.add_row(check.id, str(check.cases), _verdict(check), style=style)
    return table


def _verdict(check: CheckResult) -> str:
    if check.violations:
        return f"{check.violations} violated"
    return "holds" if check.cases else "looked at nothing"
