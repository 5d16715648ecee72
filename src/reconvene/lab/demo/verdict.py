"""The text at the end of the demo: what holds, the figures, and what to do next."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from reconvene.lab.demo.result import DemoResult, Figures, Finding, Wait
from reconvene.report.figures import show_ns

__all__ = ["conclusion", "figures_table", "findings_table", "places_of", "what_next"]


def findings_table(findings: Sequence[Finding]) -> Table:
    table = _table()
    for finding in findings:
        mark = Text("✓ holds", style="bold green") if finding.ok else Text("✗ fails", style="bold red")
        said = Text(finding.what, style="" if finding.ok else "bold red")
        said.append(f"\n{finding.detail}", style="dim" if finding.ok else "red")
        table.add_row(mark, said)
    return table


def figures_table(figures: Figures) -> Table:
    table = _table()
    for what, counts in (("votes", figures.counts), ("at the end", figures.colours)):
        table.add_row(Text(what, style="dim"), ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    table.add_row(Text("voters got an answer", style="dim"), _wait(figures.answered))
    table.add_row(Text("counted at once", style="dim"), _wait(figures.counted_at_once))
    table.add_row(Text("counted after a wait", style="dim"), _wait(figures.counted_later))
    for change in figures.changes:
        table.add_row(Text(change.what, style="dim"), f"{show_ns(change.took_ns)} until the new configurations")
    if figures.retried:
        table.add_row(Text("second copies", style="dim"), f"{figures.retried} in the log; they do not count")
    return table


def conclusion(outcome: DemoResult) -> tuple[str, str]:
    """The line, and its style."""
    if not outcome.ok:
        broken = sum(not finding.ok for finding in outcome.findings)
        return f"{broken} of {len(outcome.findings)} do not hold.", "bold red"
    counts = outcome.figures.counts
    mayor = max(counts, key=lambda choice: counts[choice])
    return (
        f"All of it holds, after {outcome.figures.seconds:.0f} s. {mayor} is mayor, with {counts[mayor]:,} of"
        f" {outcome.figures.votes:,} votes.",
        "bold green",
    )


def places_of(outcome: DemoResult) -> Iterator[str]:
    """Files and addresses to look at."""
    shown = [("report", outcome.report), ("every check", outcome.checks)]
    if not outcome.ok:
        shown += [("traces", f"{outcome.cluster}/trace"), ("sites' logs", f"{outcome.cluster}/sites/*/log")]
    for what, where in shown:
        if where is not None:
            yield f"  {what:<12} {where}"
    if not outcome.running:
        return
    for site, address in outcome.dashboards.items():
        yield f"  {f'dashboard {site}':<12} {address}"
    yield "The cluster is still running:"
    yield f"  reconvene watch --dir {outcome.cluster}"
    yield f"  reconvene partition a,b c,d,e --dir {outcome.cluster}"
    yield f"  reconvene down --dir {outcome.cluster}       # ends it"


def what_next(outcome: DemoResult) -> Iterator[str]:
    if outcome.no_spark is not None:
        yield (
            f"Spark took no part: {outcome.no_spark}. With it, a stream follows the log all the while, and a report"
            " shows delays, colours and configurations over time."
        )
    if not outcome.running:
        yield "With --keep the cluster is left running, with a dashboard at every site, to play with."


def _table() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    return table


def _wait(wait: Wait) -> str:
    if not wait.votes:
        return "0"
    median, p99, longest = (show_ns(ns) for ns in (wait.median_ns, wait.p99_ns, wait.longest_ns))
    return f"{wait.votes:,}: after {median} (median), {p99} (p99), {longest} at most"
