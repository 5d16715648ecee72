"""reconvene campaign: many seeded random fault scenarios as Spark tasks, all verified."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from reconvene.cli._output import DONE, VIOLATED, print_json, refuse
from reconvene.cli._spark import Conf, Master, Spark
from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES
from reconvene.lab.campaign.directory import CampaignDirectory, Seed, Settings
from reconvene.lab.campaign.seeds import Outcome, run_seed
from reconvene.lab.campaign.summary import Failing, Totals, add_up, failing
from reconvene.sim.profiles import PROFILES
from reconvene.sim.runner import Result
from reconvene.trace.finding import apart_from_domains
from reconvene.verify.engine import verify
from reconvene.verify.load import load_domains
from reconvene.verify.report import Report, add_reports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["campaign_command"]

_COLUMNS = ("runs", "faults", "events", "configurations", "messages", "violations", "failed", "core_seconds")


def campaign_command(
    runs: Annotated[int | None, typer.Option(min=1, max=10**7, metavar="N", help="How many scenarios.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**62, metavar="N", help="The first seed.")] = 0,
    nodes: Annotated[
        int | None,
        typer.Option(min=2, max=MAX_SITES, metavar="N", help="Number of sites; default: drawn from each seed."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="|".join(PROFILES), help="Profile of the faults; default: all, in turn.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for traces and outcomes; a campaign that is there is continued."),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="local|spark",
            help="local: each run is verified by the task that ran it; spark: also verify all of DIR on Spark.",
        ),
    ] = "local",
    repeat: Annotated[
        str | None, typer.Option(metavar="PROFILE:SEED", help="Run this one again, in this process, without Spark.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(metavar="DIR", help="With --repeat: write the trace there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run seeded random fault scenarios as Spark tasks, their traces as Parquet under DIR, all verified."""
    if profile is not None and profile not in PROFILES:
        refuse(f"--profile {profile}: expected one of {', '.join(PROFILES)}", as_json)
    if engine not in ("local", "spark"):
        refuse(f"--engine {engine}: expected local or spark", as_json)
    if repeat is not None:
        raise typer.Exit(_repeat(*_one_seed(repeat), nodes, trace, as_json))
    if runs is None or out is None:
        refuse("expected --runs N and --out DIR, or --repeat PROFILE:SEED", as_json)
    if trace is not None:
        refuse("--trace: expected with --repeat only; a campaign's traces go to --out", as_json)
    spark = Spark.parse(master, conf)
    directory = CampaignDirectory(out, Outcome)
    directory.open(Settings(nodes=nodes))
    seeds = _seeds(runs, seed, profile)
    report = _run(directory, seeds, nodes, spark, engine)
    outcomes = list(directory.outcomes(seeds))
    totals, bad = add_up(outcomes), failing(outcomes, nodes)
    ok = not bad and (report is None or report.ok)
    if as_json:
        document = {"ok": ok, "runs": len(outcomes), "profiles": totals, "failing": bad, "out": str(out)}
        print_json(document if report is None else {**document, "verify": report})
    else:
        _show(totals, bad, report, out)
    raise typer.Exit(DONE if ok else VIOLATED)


def _seeds(runs: int, first: int, profile: str | None) -> list[Seed]:
    """The first of more runs are those of fewer, so a campaign can grow."""
    profiles = list(PROFILES) if profile is None else [profile]
    return [(profiles[place % len(profiles)], first + place // len(profiles)) for place in range(runs)]


def _run(
    directory: CampaignDirectory[Outcome], seeds: list[Seed], nodes: int | None, spark: Spark, engine: str
) -> Report | None:
    """Runs the seeds that are not done. Starts Spark only if there are some."""
    left = directory.missing(seeds)
    if len(left) < len(seeds):
        print(f"{len(seeds) - len(left)} of {len(seeds)} seeds are done already", file=sys.stderr)
    if not left and engine == "local":
        return None
    with spark.open("reconvene campaign") as session:
        from reconvene.lab.campaign.progress import progress_bar
        from reconvene.lab.campaign.spark import run_campaign

        with progress_bar("campaign", len(left)) as progress:
            run_campaign(session, directory, left, nodes=nodes, progress=progress)
        if engine == "local":
            return None
        return _verify_again(session, directory.root)


def _verify_again(spark: "SparkSession", root: Path) -> Report:
    """By Spark; traces of domains by the local engine, as `reconvene verify --engine spark` does."""
    from reconvene.pipeline.traces import read_traces
    from reconvene.pipeline.verify.engine import verify_traces

    paths, domains = apart_from_domains([str(root)])
    wide = verify(history for path in domains for history in load_domains(path))
    if not paths:
        return wide
    with read_traces(spark, paths) as traces:
        return add_reports(verify_traces(spark, traces), wide)


def _show(totals: list[Totals], bad: list[Failing], report: Report | None, out: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    rows = [(each.profile, *(_number(getattr(each, name)) for name in _COLUMNS)) for each in totals]
    if console.is_terminal:
        table = Table(box=None, pad_edge=False)
        table.add_column("profile")
        for name in _COLUMNS:
            table.add_column(name.replace("_", "-"), justify="right")
        for row, each in zip(rows, totals, strict=True):
            table.add_row(*row, style="red" if each.failed else "")
        console.print(table)
    else:
        print("profile   " + "".join(f"{name.replace('_', '-'):>16}" for name in _COLUMNS))
        for row in rows:
            print(f"{row[0]:<10}" + "".join(f"{cell:>16}" for cell in row[1:]))
    for one in bad:
        print(f"{one.profile} {one.seed}: {', '.join(one.checks)}: {one.detail}")
        print(f"  {one.command}")
    runs = sum(each.runs for each in totals)
    verdict = "every check holds" if not bad else f"{len(bad)} of them fail"
    print(f"{runs} runs: {verdict}; traces in {out}")
    if report is not None:
        again = "holds" if report.ok else f"is violated: {', '.join(report.violated())}"
        print(f"all of {out}, by Spark: {report.runs} runs, {report.events} events: {again}")


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _one_seed(text: str) -> Seed:
    profile, _, number = text.rpartition(":")
    if profile not in PROFILES or not number.isdecimal() or not number.isascii() or int(number) >= 2**63:
        raise Malformed(f"--repeat {text}: expected PROFILE:SEED, with a profile of {', '.join(PROFILES)}")
    return profile, int(number)


def _repeat(profile: str, seed: int, nodes: int | None, trace: Path | None, as_json: bool) -> int:
    if trace is not None:
        _check_target(trace)
    kept: list[Result] = []
    outcome = run_seed(profile, seed, nodes, kept.append)
    if trace is not None and kept:
        _write(trace, kept[0])
    totals, bad = add_up([outcome]), failing([outcome], nodes)
    if as_json:
        print_json({"ok": outcome.ok, "runs": 1, "profiles": totals, "failing": bad, "outcome": outcome})
        return DONE if outcome.ok else VIOLATED
    print(
        f"{profile} {seed}: {outcome.nodes} sites, order {outcome.order}: {outcome.faults} faults,"
        f" {outcome.configurations} configurations, {outcome.messages} messages, {outcome.events} events"
    )
    for check, witnesses in outcome.violations.items():
        for witness in witnesses:
            print(f"{check}: {witness}")
    if outcome.error is not None:
        print(outcome.error.rstrip())
    print("every check that had cases holds" if outcome.ok else "it fails")
    if trace is not None and kept:
        print(f"its trace is in {trace}: reconvene verify {trace}")
    return DONE if outcome.ok else VIOLATED


def _check_target(directory: Path) -> None:
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise Malformed(f"--trace {directory}: expected a new directory, or an empty one")
    except OSError as error:
        raise Malformed(f"--trace {directory}: expected a directory ({error.strerror or error})") from None


def _write(directory: Path, result: Result) -> None:
    try:
        result.write(directory)
    except OSError as error:
        raise Malformed(f"--trace {directory}: can't be written to ({error.strerror or error})") from None
