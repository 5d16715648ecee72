"""The tables of what was measured, as HTML."""

from collections.abc import Sequence

from reconvene.report.figures import show_count, show_ns, show_number, show_percent
from reconvene.report.markup import Child, Markup, tag
from reconvene.report.measures import Analysis, Change, Latency, Minority, RunLine, Sender, SiteFaults, Spread
from reconvene.report.page import Column, dotted, table

__all__ = [
    "change_table",
    "fault_table",
    "green_table",
    "latency_table",
    "minority_table",
    "run_table",
    "sender_table",
]

_SPREAD = (Column("p50"), Column("p99"), Column("p99.9"), Column("longest"))


def _spread(spread: Spread) -> list[Child]:
    return [show_ns(value) for value in (spread.p50, spread.p99, spread.p999, spread.max)]


def latency_table(entries: Sequence[Latency]) -> Markup:
    sites = any(entry.site is not None for entry in entries)
    head = [Column("site", number=False)] if sites else []
    # Only clocks that were set, or differ, put a delivery before its sending.
    jumped = any(entry.negative for entry in entries)
    clocks = [Column("negative")] if jumped else []
    columns = [*head, Column("service", number=False), Column("deliveries"), *_SPREAD, *clocks]
    rows = [
        [
            *([entry.site] if sites else []),
            dotted(entry.service, entry.service),
            show_count(entry.spread.count),
            *_spread(entry.spread),
            *([show_count(entry.negative)] if jumped else []),
        ]
        for entry in entries
    ]
    return table(columns, rows)


def sender_table(senders: Sequence[Sender]) -> Markup:
    columns = [
        Column("sender", number=False),
        *(Column(name) for name in ("messages", "deliveries", "share")),
        *_SPREAD,
    ]
    rows = [
        [
            sender.sender,
            show_count(sender.messages),
            show_count(sender.deliveries),
            show_percent(sender.share),
            *_spread(sender.spread),
        ]
        for sender in senders
    ]
    return table(columns, rows)


def change_table(changes: Sequence[Change]) -> Markup:
    columns = [
        Column("run", number=False),
        Column("configuration", number=False),
        Column("members", number=False),
        *(Column(name) for name in ("from", "at", "took", "silence")),
    ]
    rows: list[list[Child]] = [
        [
            change.run,
            change.conf,
            _members(change.members),
            str(change.merged),
            show_ns(change.began),
            show_ns(change.took),
            show_ns(change.silence),
        ]
        for change in changes
    ]
    return table(columns, rows)


def fault_table(sites: Sequence[SiteFaults]) -> Markup:
    columns = [Column("site", number=False), Column("incarnations"), Column("crashes"), Column("stops")]
    rows: list[list[Child]] = [
        [site.site, show_count(site.incarnations), show_count(site.fails), show_count(site.stops)] for site in sites
    ]
    return table(columns, rows)


def green_table(analysis: Analysis) -> Markup:
    columns = [Column("at", number=False), Column("messages"), *_SPREAD]
    rows: list[list[Child]] = [
        ["its author", show_count(analysis.green_at_author.count), *_spread(analysis.green_at_author)]
    ]
    rows += [
        [entry.site, show_count(entry.spread.count), *_spread(entry.spread)] for entry in analysis.green_at_sites
    ]
    return table(columns, rows)


def minority_table(authors: Sequence[Minority]) -> Markup:
    columns = [
        Column("author", number=False),
        *(Column(name) for name in ("accepted", "waited", "still waiting", "p50", "p99", "longest")),
    ]
    rows: list[list[Child]] = [
        [
            entry.author or tag("b", "all"),
            show_count(entry.accepted),
            show_count(entry.waited),
            show_count(entry.still),
            *(show_ns(value) for value in (entry.spread.p50, entry.spread.p99, entry.spread.max)),
        ]
        for entry in authors
    ]
    return table(columns, rows)


def run_table(runs: Sequence[RunLine]) -> Markup:
    names = ("sites", "events", "deliveries", "length", "a second", "variation", "changes", "crashes", "stops")
    columns = [Column("run", number=False), *(Column(name) for name in names)]
    rows: list[list[Child]] = [
        [
            run.run,
            show_count(run.nodes),
            show_count(run.events),
            show_count(run.deliveries),
            show_ns(run.length),
            show_number(run.rate),
            show_percent(run.variation),
            show_count(run.changes),
            show_count(run.fails),
            show_count(run.stops),
        ]
        for run in runs
    ]
    return table(columns, rows)


def _members(members: Sequence[str]) -> str:
    joined = " ".join(members)
    return joined if len(joined) <= 40 else f"{len(members)} members"
