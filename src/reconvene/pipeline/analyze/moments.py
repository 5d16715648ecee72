"""One run's events for space-time diagrams, out of a table of any size: every query is bounded by its limit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from pyspark.sql import functions as F

from reconvene.errors import Malformed
from reconvene.report.moment import MESSAGE_KINDS, STRUCTURE_KINDS, Placed
from reconvene.report.witness_diagrams import WitnessDiagram, draw_witnesses, runs_with_diagrams
from reconvene.trace.events import Row
from reconvene.verify.report import Report

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import Row as TableRow

    from reconvene.pipeline.traces import Traces

__all__ = ["TableSource", "diagrams_of_tables"]

_FIELDS = Row.__struct_fields__


class TableSource:
    """As `EventSource` says. Raises Malformed where the traces have no such run."""

    def __init__(self, traces: "Traces", run: str | None = None) -> None:
        named = traces.runs if run is None else traces.runs.where(F.col("run") == run)
        meta = named.orderBy("run").select("run", "nodes", "followers", "outposts", "stack").first()
        if meta is None:
            raise Malformed(f"--run {run}: the traces have no such run")
        self.run: str = meta["run"]
        self.nodes = [name for part in ("nodes", "followers", "outposts") for name in sorted(meta[part] or [])]
        self.stack: str = meta["stack"]
        self._events = traces.events.where(F.col("run") == self.run)
        ends = self._events.agg(F.min("t").alias("first"), F.max("t").alias("last")).first()
        self.start: int = (ends and ends["first"]) or 0
        self.end: int = (ends and ends["last"]) or 0

    def named(self, events: Sequence[tuple[str, int]]) -> list[Placed]:
        if not events:
            return []
        wanted = F.lit(False)
        for node, n in events:
            wanted = wanted | ((F.col("node") == node) & (F.col("n") == n))
        # A trace that numbers two events alike is a violation: both are shown.
        return _placed(self._events.where(wanted).limit(2 * len(events)))

    def beside(self, node: str, place: int, layer: str, reach: int) -> list[Placed]:
        mine = self._events.where((F.col("node") == node) & ((F.col("layer") == layer) | (F.col("place") == place)))
        before = mine.where(F.col("place") <= place).orderBy(F.col("place").desc()).limit(reach + 1)
        after = mine.where(F.col("place") > place).orderBy("place").limit(reach)
        return _placed(before.unionByName(after))

    def of_messages(self, messages: Sequence[str], layer: str, near: int, limit: int) -> list[Placed]:
        return self._nearest(_of_layer(layer) & F.col("msg").isin(*messages), near, limit)

    def count(self, low: int, high: int, layer: str) -> int:
        return self._events.where(_of_layer(layer) & F.col("t").between(low, high)).count()

    def between(self, low: int, high: int, layer: str, every: int, near: int, limit: int) -> list[Placed]:
        drawn = F.crc32(F.col("msg").cast("binary")) % every == 0
        return self._nearest(_of_layer(layer) & F.col("t").between(low, high) & drawn, near, limit)

    def structure(self, low: int, high: int, layer: str, near: int, limit: int) -> tuple[list[Placed], int]:
        wanted = F.lit(False)
        for name in dict.fromkeys(("evs", layer)):
            wanted = wanted | ((F.col("layer") == name) & F.col("kind").isin(*STRUCTURE_KINDS[name]))
        wanted = wanted & F.col("t").between(low, high)
        found = self._nearest(wanted, near, limit)
        return found, len(found) if len(found) < limit else self._events.where(wanted).count()

    def openings(self, places: dict[str, int], before: int) -> dict[str, Row]:
        earlier = ~F.col("node").isin(*places) & (F.col("t") < before)
        for node, place in places.items():
            earlier = earlier | ((F.col("node") == node) & (F.col("place") < place))
        moved = (F.col("layer") == "evs") & F.col("kind").isin(*STRUCTURE_KINDS["evs"])
        shown = F.coalesce(F.col("conf_kind") != "hidden", F.lit(True))
        last = (
            self._events.where(earlier & moved & shown)
            .groupBy("node")
            .agg(F.max_by(F.struct("place", *_FIELDS), "place").alias("last"))
            .select("last.*")
        )
        return {placed.row.node: placed.row for placed in _placed(last)}

    def _nearest(self, wanted: "Column", near: int, limit: int) -> list[Placed]:
        far = F.abs(F.col("t") - F.lit(near))
        return _placed(self._events.where(wanted).orderBy(far, "node", "place").limit(limit))


def diagrams_of_tables(report: Report, traces: "Traces") -> list[WitnessDiagram]:
    """For the page of a verdict on these traces."""
    return draw_witnesses(report, (TableSource(traces, run) for run in runs_with_diagrams(report)))


def _of_layer(layer: str) -> "Column":
    return (F.col("layer") == layer) & F.col("kind").isin(*MESSAGE_KINDS[layer])


def _placed(table: "DataFrame") -> list[Placed]:
    """Its rows, in the order of the table, which is bounded."""
    return [Placed(row["place"], _event(row)) for row in table.collect()]


def _event(row: "TableRow") -> Row:
    values: dict[str, Any] = {name: UNSET if row[name] is None else row[name] for name in _FIELDS}
    return Row(**values)
