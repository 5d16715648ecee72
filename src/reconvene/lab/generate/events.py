"""Makes the events of many turns at once, section by section."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reconvene.lab.generate.plan import Flags, Numbers, Plan, Turns
from reconvene.pipeline.schema import ARROW_EVENTS

__all__ = ["Events", "Section", "text"]

_ROUND_NS = 10_000_000


@dataclass(frozen=True)
class Section:
    """Consecutive events in each turn: for each event the index of its turn, its index in the section, and in the
    turn."""

    turn: Numbers
    d: Numbers
    k: Numbers

    def only(self, those: Flags) -> "Section":
        return Section(self.turn[those], self.d[those], self.k[those])


class Events:
    def __init__(self, plan: Plan, turns: Turns) -> None:
        self.plan = plan
        self.turns = turns
        self._names = pa.array(plan.names())
        self._used = np.zeros(len(turns.turn), np.int64)
        self._tables: list[pa.Table] = []
        self._keys: list[Numbers] = []

    def section(self, count: Numbers) -> Section:
        """Adds a section of so many events in each turn, after the earlier sections."""
        turn = np.repeat(np.arange(len(count)), count)
        first = np.cumsum(count) - count
        d = np.arange(len(turn)) - first[turn]
        section = Section(turn, d, self._used[turn] + d)
        self._used = self._used + count
        return section

    def put(self, section: Section, layer: str, kind: str | pa.Array, late: bool, **fields: pa.Array) -> None:
        """Adds the events of a section. late: in the second half of the turn, when every node has originated its
        frame."""
        if not len(section.turn):
            return
        plan, turns, at = self.plan, self.turns, section.turn
        # Between any two events there is room for a planted one.
        place = 2 * (turns.turn[at] * plan.stride + section.k)
        first = int(turns.run[0])
        runs = pa.array([plan.run_name(run) for run in range(first, int(turns.run[-1]) + 1)])
        columns = {
            "run": runs.take(pa.array(turns.run[at] - first)),
            "place": pa.array(place),
            "node": self.name(turns.node[at]),
            "inc": pa.array(np.ones(len(at), np.int64)),
            "n": pa.array(place),
            "t": pa.array(self._clock(section, late)),
            "layer": pa.repeat(layer, len(at)),
            "kind": pa.repeat(kind, len(at)) if isinstance(kind, str) else kind,
            **fields,
        }
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(len(at), field.type) for field in ARROW_EVENTS
        ]
        self._tables.append(pa.Table.from_arrays(arrays, schema=ARROW_EVENTS))
        self._keys.append(at * plan.stride + section.k)

    def _clock(self, section: Section, late: bool) -> Numbers:
        """What a node originates in one half of a turn, every node receives in a later half."""
        plan, turns, at = self.plan, self.turns, section.turn
        jitter = (turns.turn * 7919 + turns.node * 104_729) % 1009 * (_ROUND_NS // 8) // 1009
        own = turns.node * (_ROUND_NS // 8) // plan.nodes
        begin = turns.turn * _ROUND_NS + jitter + own + late * (_ROUND_NS // 2)
        return begin[at] + section.k * (_ROUND_NS // 4) // plan.stride

    def batch(self) -> pa.RecordBatch:
        """All events, in their order."""
        if not self._tables:
            return pa.RecordBatch.from_pylist([], schema=ARROW_EVENTS)
        order = np.argsort(np.concatenate(self._keys))
        return pa.concat_tables(self._tables).take(pa.array(order)).combine_chunks().to_batches()[0]

    # -- columns

    def name(self, node: Numbers) -> pa.Array:
        return self._names.take(pa.array(node))

    def message(self, sender: Numbers, counter: Numbers) -> pa.Array:
        return pc.binary_join_element_wise(self.name(sender), "1", text(counter), ":")

    def names(self, nodes: list[list[int]]) -> pa.Array:
        return pa.array([[self.plan.name(node) for node in some] for some in nodes], pa.list_(pa.string()))

    def stamps(self, *parts: Numbers) -> pa.Array:
        """Timestamps with these parts."""
        flat = np.stack(parts, axis=1).reshape(-1)
        offsets = np.arange(len(parts[0]) + 1, dtype=np.int32) * len(parts)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat))

    # -- configurations

    def put_entering(self) -> None:
        """The events in which each node starts alone and enters the configuration of a spell."""
        plan, turns = self.plan, self.turns
        alone = self.section(turns.starts.astype(np.int64))
        nodes = turns.node[alone.turn]
        own, members = text(nodes + 1), self.names([[node] for node in nodes.tolist()])
        self.put(alone, "evs", "conf", False, conf=own, conf_kind=pa.repeat("regular", len(nodes)), members=members)
        joining = self.section(turns.starts.astype(np.int64))
        conf = pc.binary_join_element_wise(own, text(turns.number[joining.turn]), "+")
        kind = pa.repeat("transitional", len(nodes))
        self.put(joining, "evs", "conf", False, conf=conf, conf_kind=kind, members=members, reg=own)
        enter = self.section(turns.enters.astype(np.int64))
        spells, parts = turns.spell[enter.turn].tolist(), turns.part[enter.turn].tolist()
        members = self.names([plan.nodes_of(spell, part) for spell, part in zip(spells, parts, strict=True)])
        kind = pa.repeat("regular", len(spells))
        self.put(enter, "evs", "conf", False, conf=self.conf(enter), conf_kind=kind, members=members)

    def put_leaving(self) -> None:
        """The transitional configuration after that of a spell."""
        turns = self.turns
        leave = self.section(turns.leaves.astype(np.int64))
        spells, parts = turns.with_spell[leave.turn].tolist(), turns.with_part[leave.turn].tolist()
        members = self.names([self.plan.nodes_of(spell, part) for spell, part in zip(spells, parts, strict=True)])
        kind, conf = pa.repeat("transitional", len(spells)), self.transitional(leave)
        self.put(leave, "evs", "conf", True, conf=conf, conf_kind=kind, members=members, reg=self.conf(leave))

    def conf(self, section: Section) -> pa.Array:
        return text(self.turns.number[section.turn])

    def transitional(self, section: Section) -> pa.Array:
        return pc.binary_join_element_wise(self.conf(section), text(self.turns.next_number[section.turn]), "+")


def text(numbers: Numbers) -> pa.Array:
    return pc.cast(pa.array(numbers), pa.string())
