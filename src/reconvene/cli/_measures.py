"""Measurements, as tables on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from reconvene.report.figures import show_count, show_ns, show_number, show_percent
from reconvene.report.measures import Analysis, Latency, Spread

__all__ = ["print_measures"]

_SPREAD = ("count", "p50", "p99", "p99.9", "longest")


def print_measures(analysis: Analysis) -> None:
    # Lines are not wrapped where the output is no terminal.
    console = Console(highlight=False, width=None if Console().is_terminal else 200)
    view = analysis.overview
    runs = "1 run" if view.runs == 1 else f"{show_count(view.runs)} runs"
    console.print(
        f"{runs}, {view.sites} sites, {show_count(view.events)} events: {show_count(view.messages)} messages sent,"
        f" {show_count(view.deliveries)} deliveries, {show_count(view.changes)} configuration changes,"
        f" {show_count(view.fails)} crashes, {show_count(view.stops)} stops",
        markup=False,
    )
    tables = [_runs(analysis), _latency(analysis.latency), _senders(analysis), _changes(analysis), _faults(analysis)]
    if view.accepted:
        tables += [_greens(analysis), _minorities(analysis)]
    for table in tables:
        if table.row_count:
            console.print()
            console.print(table)
    console.print()
    console.print(f"percentiles: {analysis.percentiles}", markup=False)
    for what in analysis.cut:
        console.print(f"incomplete: {what}", markup=False)


def _table(title: str, names: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _spread(spread: Spread) -> list[str]:
    durations = (spread.p50, spread.p99, spread.p999, spread.max)
    return [show_count(spread.count), *(show_ns(value) for value in durations)]


def _runs(analysis: Analysis) -> Table:
    table = _table(
        "Deliveries a second",
        ("run",),
        ("events", "length", "bucket", "a second", "variance", "variation", "changes", "crashes", "stops"),
    )
    for run in analysis.runs:
        table.add_row(
            run.run,
            show_count(run.events),
            show_ns(run.length),
            show_ns(run.bucket),
            show_number(run.rate),
            show_number(run.variance),
            show_percent(run.variation),
            *(show_count(count) for count in (run.changes, run.fails, run.stops)),
        )
    return table


def _latency(entries: Sequence[Latency]) -> Table:
    table = _table("Latency, by service and by site that delivers", ("service", "site"), _SPREAD)
    for entry in entries:
        table.add_row(entry.service, entry.site or "all", *_spread(entry.spread))
    return table


def _senders(analysis: Analysis) -> Table:
    fair = analysis.fairness
    shown = ["–" if value is None else f"{value:.3f}" for value in (fair.deliveries, fair.latency)]
    title = f"Fairness: Jain's index {shown[0]} of deliveries, {shown[1]} of mean latencies"
    table = _table(title, ("sender",), ("messages", "share", *_SPREAD))
    for sender in fair.senders:
        table.add_row(sender.sender, show_count(sender.messages), show_percent(sender.share), *_spread(sender.spread))
    return table


def _changes(analysis: Analysis) -> Table:
    spread = analysis.change_spread
    title = (
        f"Configuration changes: {show_count(spread.count)}, p50 {show_ns(spread.p50)}, p99 {show_ns(spread.p99)},"
        f" longest {show_ns(spread.max)}"
    )
    table = _table(title, ("run", "configuration", "members"), ("from", "at", "took", "silence"))
    for change in analysis.changes[:10]:
        members = " ".join(change.members)
        table.add_row(
            change.run,
            change.conf,
            members if len(members) <= 40 else f"{len(change.members)} members",
            str(change.merged),
            show_ns(change.began),
            show_ns(change.took),
            show_ns(change.silence),
        )
    return table


def _faults(analysis: Analysis) -> Table:
    table = _table("Faults seen", ("site",), ("incarnations", "crashes", "stops"))
    for site in analysis.faults:
        if site.fails or site.stops:
            table.add_row(site.site, str(site.incarnations), str(site.fails), str(site.stops))
    return table


def _greens(analysis: Analysis) -> Table:
    table = _table("The log, from accept to green", ("at",), _SPREAD)
    table.add_row("its author", *_spread(analysis.green_at_author))
    for entry in analysis.green_at_sites:
        table.add_row(entry.site or "", *_spread(entry.spread))
    return table


def _minorities(analysis: Analysis) -> Table:
    table = _table(
        "Accepted outside a primary component",
        ("author",),
        ("accepted", "waited", "still waiting", "p50", "p99", "p99.9", "longest"),
    )
    for entry in analysis.minorities:
        counts = (show_count(count) for count in (entry.accepted, entry.waited, entry.still))
        table.add_row(entry.author or "all", *counts, *_spread(entry.spread)[1:])
    return table
