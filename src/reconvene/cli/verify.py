"""reconvene verify: checks traces against every property."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from reconvene.cli._engine import choose_engine
from reconvene.cli._output import DONE, VIOLATED, print_json, refuse
from reconvene.cli._spark import Conf, Master, Spark
from reconvene.cli._traces import progress, still
from reconvene.errors import Malformed, Unavailable
from reconvene.report.verify_page import write_verify_report
from reconvene.report.witness_diagrams import diagrams_of_traces
from reconvene.trace.finding import apart_from_domains
from reconvene.verify.engine import verify
from reconvene.verify.load import load_domains, load_histories
from reconvene.verify.report import CheckResult, Report, add_reports

__all__ = ["show_report", "verify_command"]


def verify_command(
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACE", help="Trace directories, Parquet forms, or directories of these.")
    ],
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="local|spark", help="local: in this process; spark: on Spark; default: by the traces' size."
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report to this file.")] = None,
) -> None:
    """Check traces against every property. Exits with 1 and prints witnesses if one is violated."""
    if engine not in (None, "local", "spark"):
        refuse(f"--engine {engine}: expected local or spark", as_json)
    try:
        spark = Spark.parse(master, conf)
        if spark.asked and engine == "local":
            refuse(
                f"{'--conf' if master is None else f'--master {master}'}: expected --engine spark with it", as_json
            )
        engine = engine or choose_engine(traces, spark)
        report = _on_spark(traces, spark, html) if engine == "spark" else _here(traces, html)
    except (Malformed, Unavailable) as error:
        refuse(str(error), as_json)
    if as_json:
        print_json(report)
    else:
        show_report(report)
    raise typer.Exit(DONE if report.ok else VIOLATED)


def _here(traces: list[str], html: Path | None) -> Report:
    with ExitStack() as stack:
        paths = [Path(stack.enter_context(still(trace))) for trace in traces]
        report = verify(history for path in paths for history in load_histories(path))
        if html is not None:
            write_verify_report(html, report, diagrams_of_traces(report, paths))
    return report


def _on_spark(traces: list[str], spark: Spark, html: Path | None) -> Report:
    with ExitStack() as stack, progress() as tell:
        paths = [stack.enter_context(still(trace)) for trace in traces]
        paths, domains = apart_from_domains(paths)
        for path in domains:
            print(f"{path}: a trace of domains; the local engine judges it", file=sys.stderr)
        wide = verify(history for path in domains for history in load_domains(path)) if domains else None
        if wide is not None and not paths:
            if html is not None:
                write_verify_report(html, wide, diagrams_of_traces(wide, domains))
            return wide
        tell("starting Spark")
        session = stack.enter_context(spark.open())
        # Imported here, since most commands run without Spark.
        from reconvene.pipeline.analyze.moments import diagrams_of_tables
        from reconvene.pipeline.traces import read_traces
        from reconvene.pipeline.verify.engine import verify_traces

        tell("reading")
        with read_traces(session, paths, apart=True) as found:
            report = verify_traces(session, found, tell=tell)
            if wide is not None:
                report = add_reports(report, wide)
            if html is not None:
                tell("drawing")
                drawn = [*diagrams_of_tables(report, found), *diagrams_of_traces(report, domains)]
                write_verify_report(html, report, drawn)
    return report


def show_report(report: Report) -> None:
    """A table of the checks, and the witnesses."""
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
