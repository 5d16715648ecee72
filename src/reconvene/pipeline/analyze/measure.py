"""All measures of some traces, collected: what the report shows and `--json` prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.errors import Malformed
from reconvene.pipeline.analyze.configurations import change_spread, changes
from reconvene.pipeline.analyze.counts import counts_by_site, of_everything, of_runs, of_sites
from reconvene.pipeline.analyze.greens import green_by, greens
from reconvene.pipeline.analyze.latency import latencies, latency_by
from reconvene.pipeline.analyze.minorities import accepted, minorities
from reconvene.pipeline.analyze.rates import in_buckets, rates
from reconvene.pipeline.analyze.shapes import ACCURACY, EXACT_UP_TO, shown_spread
from reconvene.pipeline.analyze.story import tell_story
from reconvene.report.measures import (
    MOST_CHANGES,
    MOST_RUNS,
    MOST_SITES,
    Analysis,
    Change,
    Fairness,
    Latency,
    Minority,
    Overview,
    RunLine,
    Sender,
    SiteFaults,
    Spread,
    Story,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from reconvene.pipeline.traces import Traces

__all__ = ["measure"]

_SERVICES = ("fifo", "causal", "agreed", "safe")


def measure(traces: "Traces", names: Sequence[str], run: str | None = None) -> Analysis:
    """Of all runs together; over time, of one run: `run`, or the first by name. Raises Malformed where it is none."""
    return _Measures(traces).collect(names, run)


class _Measures:
    """The tables that several measures share, each made once."""

    def __init__(self, traces: "Traces") -> None:
        self.events = traces.events
        self.runs = traces.runs
        self.cut: list[str] = []

    def collect(self, names: Sequence[str], run: str | None) -> Analysis:
        named = self.runs if run is None else self.runs.where(F.col("run") == run)
        meta = named.orderBy("run").select("run", "nodes").first()
        if meta is None:
            raise Malformed(f"--run {run}: the traces have no such run")
        # Small tables that several measures begin with; the events are read once for each of them.
        counts = counts_by_site(self.events).persist()
        by_run = of_runs(counts)
        buckets = in_buckets(self.events, by_run).persist()
        changed = changes(self.events, by_run).persist()
        try:
            return self._collect(counts, by_run, buckets, changed, names, meta)
        finally:
            for table in (changed, buckets, counts):
                table.unpersist()

    def _collect(
        self,
        counts: "DataFrame",
        by_run: "DataFrame",
        buckets: "DataFrame",
        changed: "DataFrame",
        names: Sequence[str],
        meta: "Row",
    ) -> Analysis:
        total = of_everything(counts).first()
        assert total is not None, "an aggregate over everything has one row"
        exact = max(total["deliveries"] or 0, total["greens"] or 0) <= EXACT_UP_TO
        spread_of_changes = shown_spread(change_spread(changed, exact).first(), curve=True)
        lines = self._lines(by_run, buckets, changed)
        sites = self._limited(of_sites(counts).orderBy("node"), MOST_SITES, "sites")
        latency, fairness = self._latency(exact, {row["node"]: row["sends"] for row in sites})
        author, at_sites, waited = self._log(exact) if total["accepts"] else (Spread(count=0), [], [])
        return Analysis(
            traces=list(names),
            percentiles="exact" if exact else f"estimated; the rank is off by 1 in {ACCURACY:,} at most",
            overview=self._overview(total, spread_of_changes.count),
            runs=lines,
            latency=latency,
            fairness=fairness,
            change_spread=spread_of_changes,
            changes=self._changes(changed, F.col("took").desc(), "run", "began"),
            faults=[
                SiteFaults(site=row["node"], incarnations=row["incarnations"], fails=row["fails"], stops=row["stops"])
                for row in sites
            ],
            green_at_author=author,
            green_at_sites=at_sites,
            minorities=waited,
            story=self._story(by_run, buckets, changed, meta),
            cut=list(dict.fromkeys(self.cut)),
        )

    def _overview(self, total: "Row", changes: int) -> Overview:
        return Overview(
            runs=self.runs.count(),
            sites=total["sites"],
            events=total["events"] or 0,
            messages=total["sends"] or 0,
            deliveries=total["deliveries"] or 0,
            changes=changes,
            fails=total["fails"] or 0,
            stops=total["stops"] or 0,
            accepted=total["accepts"] or 0,
            greens=total["greens"] or 0,
        )

    def _limited(self, table: "DataFrame", limit: int, what: str) -> "list[Row]":
        rows = table.limit(limit + 1).collect()
        if len(rows) > limit:
            self.cut.append(f"{what}: the first {limit} are shown")
        return rows[:limit]

    def _lines(self, by_run: "DataFrame", buckets: "DataFrame", changed: "DataFrame") -> list[RunLine]:
        first = self.runs.orderBy("run").limit(MOST_RUNS + 1)
        told = (
            F.broadcast(first)
            .join(by_run, "run", "left")
            .join(rates(buckets), "run", "left")
            .join(changed.groupBy("run").agg(F.count(F.lit(1)).alias("changes")), "run", "left")
            .orderBy("run")
        )
        return [
            RunLine(
                run=row["run"],
                nodes=len(row["nodes"]),
                stack=row["stack"],
                order=row["order"],
                seed=row["seed"],
                settled=row["settled"],
                events=row["events"] or 0,
                deliveries=row["deliveries"] or 0,
                length=row["length"] or 0,
                bucket=row["width"] or 0,
                rate=row["rate"],
                variance=row["variance"],
                variation=row["variance"] ** 0.5 / row["rate"] if row["rate"] else None,
                changes=row["changes"] or 0,
                fails=row["fails"] or 0,
                stops=row["stops"] or 0,
            )
            for row in self._limited(told, MOST_RUNS, "runs")
        ]

    def _latency(self, exact: bool, sends: dict[str, int]) -> tuple[list[Latency], Fairness]:
        table = latency_by(latencies(self.events), exact).orderBy("level", "sender", "site", "service")
        rows = self._limited(table, 6 * MOST_SITES, "latencies")
        order = {service: place for place, service in enumerate(_SERVICES)}
        found = [
            Latency(
                service=row["service"],
                site=row["site"],
                spread=shown_spread(row, curve=row["level"] == "service"),
                negative=row["negative"],
            )
            for row in rows
            if row["level"] != "sender"
        ]
        found.sort(key=lambda entry: (entry.site is not None, order.get(entry.service, 9), entry.site or ""))
        by_sender = [row for row in rows if row["level"] == "sender"]
        total = sum(row["count"] for row in by_sender) or 1
        senders = [
            Sender(
                sender=row["sender"],
                messages=sends.get(row["sender"], 0),
                deliveries=row["count"],
                share=row["count"] / total,
                spread=shown_spread(row),
            )
            for row in by_sender
        ]
        one = by_sender[0] if by_sender else None
        return found, Fairness(
            deliveries=None if one is None else one["jain_count"],
            latency=None if one is None else one["jain_mean"],
            senders=senders,
        )

    def _changes(self, changed: "DataFrame", *order: "object") -> list[Change]:
        rows = self._limited(changed.orderBy(*order), MOST_CHANGES, "configuration changes")  # type: ignore[arg-type]
        return [Change(**{**row.asDict(), "members": list(row["members"] or [])}) for row in rows]

    def _log(self, exact: bool) -> tuple[Spread, list[Latency], list[Minority]]:
        rows = self._limited(green_by(greens(self.events), exact).orderBy("site"), MOST_SITES, "sites")
        author = next((shown_spread(row, curve=True) for row in rows if row["site"] is None), Spread(count=0))
        sites = [
            Latency(service="log", site=row["site"], spread=shown_spread(row, curve=True), negative=row["negative"])
            for row in rows
            if row["site"] is not None
        ]
        waited = minorities(accepted(self.events), self.events, exact).orderBy(F.col("author").asc_nulls_first())
        return (
            author,
            sites,
            [
                Minority(
                    author=row["author"] or "",
                    accepted=row["accepted"],
                    waited=row["waited"],
                    still=row["still"],
                    spread=shown_spread(row),
                )
                for row in self._limited(waited, MOST_SITES, "sites")
            ],
        )

    def _story(self, by_run: "DataFrame", buckets: "DataFrame", changed: "DataFrame", meta: "Row") -> Story | None:
        line = by_run.where(F.col("run") == meta["run"]).first()
        if line is None:
            return None
        mine = self._changes(changed.where(F.col("run") == meta["run"]), "began")
        return tell_story(self.events, buckets, line, meta["nodes"], mine)
