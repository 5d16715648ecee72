"""A few changes to the events of one run, applied while those events are made."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reconvene.pipeline.schema import ARROW_EVENTS

__all__ = ["Edits", "Event"]

Event = dict[str, Any]
"""A row of the table `events`."""

_WHERE = ("run", "place", "node", "inc", "n", "t")
"""The fields that an event keeps when it is swapped with another."""


@dataclass
class Edits:
    """The edits of one run; an event is known by node and place."""

    run: str
    changed: dict[tuple[str, int], Event] = field(default_factory=dict)
    """New values of some fields."""
    dropped: set[tuple[str, int]] = field(default_factory=set)
    inserted: list[Event] = field(default_factory=list)
    """Additional events, each after the event of its place."""

    def change(self, event: Event, **fields: object) -> None:
        self.changed.setdefault(_key(event), {}).update(fields)

    def drop(self, event: Event) -> None:
        self.dropped.add(_key(event))

    def insert(self, after: Event, event: Event, **fields: object) -> None:
        """Adds an event like `event` right after the one at its place."""
        self.inserted.append({**event, **{name: after[name] for name in _WHERE}, **fields})

    def swap(self, one: Event, other: Event) -> None:
        for here, there in ((one, other), (other, one)):
            self.change(here, **{name: there[name] for name in ARROW_EVENTS.names if name not in _WHERE})

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The events of a batch with the edits applied. Given events in their order."""
        mine = pc.equal(batch["run"], self.run)
        if not pc.any(mine).as_py():
            return batch
        table = pa.Table.from_batches([batch])
        for key in sorted({*self.changed, *self.dropped, *map(_key, self.inserted)}, reverse=True):
            table = self._apply_at(table, *key)
        return table.combine_chunks().to_batches()[0]

    def _apply_at(self, table: pa.Table, node: str, place: int) -> pa.Table:
        here = pc.and_(pc.equal(table["run"], self.run), pc.equal(table["node"], node))
        at = pc.index(pc.and_(here, pc.equal(table["place"], place)), True).as_py()
        if at < 0:
            return table
        rows: list[Event] = [] if (node, place) in self.dropped else table.slice(at, 1).to_pylist()
        rows = [{**row, **self.changed.get((node, place), {})} for row in rows]
        rows += [
            {**row, "place": place + 1, "n": row["n"] + 1} for row in self.inserted if _key(row) == (node, place)
        ]
        middle = pa.Table.from_pylist(rows, schema=ARROW_EVENTS)
        return pa.concat_tables([table.slice(0, at), middle, table.slice(at + 1)])


def _key(event: Event) -> tuple[str, int]:
    return event["node"], event["place"]
