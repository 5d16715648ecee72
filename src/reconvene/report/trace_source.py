"""One run's events from its trace directory, in memory, for diagrams."""

from collections.abc import Callable, Sequence
from pathlib import Path

from reconvene.report.moment import MESSAGE_KINDS, STRUCTURE_KINDS, Moment, Placed, around, lot
from reconvene.trace.events import Row
from reconvene.trace.reader import Trace, read_trace

__all__ = ["TraceSource", "layer_of_check", "spacetime_of_trace"]


def spacetime_of_trace(directory: Path, node: str, n: int, detail: str = "", check: str = "") -> Moment:
    """The diagram's content around event n of a node: for a witness, with its detail and its check's id.

    Raises Malformed where the trace can't be read or has no such event."""
    return around(TraceSource(read_trace(directory)), node, n, detail, layer_of_check(check))


def layer_of_check(check: str) -> str | None:
    """The layer whose messages explain a violation of this check; None for that of the event itself."""
    family = check.partition(".")[0]
    return {"isis": "isis", "vs": "vs", "corel": "corel", "evs": "evs", "to": "evs", "transis": "evs"}.get(family)


class TraceSource:
    """As `EventSource` says."""

    def __init__(self, trace: Trace) -> None:
        self.run = trace.run.run
        self.nodes = [*sorted(trace.run.nodes), *sorted(trace.run.followers), *sorted(trace.run.outposts)]
        self.stack = trace.run.stack
        self._rows = trace.rows
        self.start = min((row.t for rows in trace.rows.values() for row in rows), default=0)

    def named(self, events: Sequence[tuple[str, int]]) -> list[Placed]:
        wanted = set(events)
        return self._where(lambda row: (row.node, row.n) in wanted)

    def beside(self, node: str, place: int, layer: str, reach: int) -> list[Placed]:
        rows = [
            placed
            for placed in (Placed(at, row) for at, row in enumerate(self._rows.get(node, [])))
            if placed.row.layer == layer or placed.place == place
        ]
        at = next(index for index, placed in enumerate(rows) if placed.place == place)
        return rows[max(at - reach, 0) : at + reach + 1]

    def of_messages(self, messages: Sequence[str], layer: str, near: int, limit: int) -> list[Placed]:
        wanted = set(messages)
        return self._nearest(
            lambda row: row.layer == layer and row.msg in wanted and row.kind in MESSAGE_KINDS[layer], near, limit
        )[0]

    def count(self, low: int, high: int, layer: str) -> int:
        kinds = MESSAGE_KINDS[layer]
        return len(self._where(lambda row: row.layer == layer and row.kind in kinds and low <= row.t <= high))

    def between(self, low: int, high: int, layer: str, every: int, near: int, limit: int) -> list[Placed]:
        kinds = MESSAGE_KINDS[layer]

        def wanted(row: Row) -> bool:
            inside = row.layer == layer and row.kind in kinds and low <= row.t <= high
            return inside and (every == 1 or lot(row.msg or "") % every == 0)

        return self._nearest(wanted, near, limit)[0]

    def structure(self, low: int, high: int, layer: str, near: int, limit: int) -> tuple[list[Placed], int]:
        def wanted(row: Row) -> bool:
            return low <= row.t <= high and row.layer in ("evs", layer) and row.kind in STRUCTURE_KINDS[row.layer]

        return self._nearest(wanted, near, limit)

    def openings(self, places: dict[str, int], before: int) -> dict[str, Row]:
        found = {}
        for node, rows in self._rows.items():
            place = places.get(node)
            earlier = rows[:place] if place is not None else [row for row in rows if row.t < before]
            for row in reversed(earlier):
                if row.layer == "evs" and row.kind in STRUCTURE_KINDS["evs"] and row.conf_kind != "hidden":
                    found[node] = row
                    break
        return found

    def _where(self, wanted: Callable[[Row], bool]) -> list[Placed]:
        return [
            Placed(at, row) for node in self.nodes for at, row in enumerate(self._rows.get(node, [])) if wanted(row)
        ]

    def _nearest(self, wanted: Callable[[Row], bool], near: int, limit: int) -> tuple[list[Placed], int]:
        rows = self._where(wanted)
        rows.sort(key=lambda placed: (abs(placed.row.t - near), placed.row.node, placed.place))
        return rows[:limit], len(rows)
