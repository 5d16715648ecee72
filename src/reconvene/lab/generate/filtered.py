"""A generated run of a group with the virtual-synchrony filter: one process at each node, all in one group.

The primary component is the whole network or, during a partition, the majority. Processes of the rest stop, and come
back one by one, under new identities, when the network merges.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reconvene.lab.generate.events import Events, Section, text
from reconvene.lab.generate.frames import Frames, own_frames, taken_frames
from reconvene.lab.generate.plan import MAJORITY, REST, Numbers, Plan, Turns

__all__ = ["filtered_events", "filtered_plan"]

_GROUP = "g"
_VIEWS = 1 << 20
"""More views than one configuration has."""


def filtered_plan(events: int, runs: int, nodes: int, changes: int, pack: int) -> Plan:
    spells = changes + 1
    most = nodes // 2 + 1
    rows = pack * (nodes * (1 + nodes) * ((spells + 1) // 2) + most * (1 + most) * (spells // 2))
    stride = pack * (1 + 2 * nodes) + nodes + 4
    return Plan(runs, nodes, spells, max(2, round(events / runs / rows)), pack, stride)


def filtered_events(plan: Plan, turns: Turns) -> pa.RecordBatch:
    events = Events(plan, turns)
    events.put_entering()
    _put_views(events)
    _put_stops(events)
    primary = turns.part != REST
    casts = events.section(np.where(primary, plan.pack, 0))
    own = own_frames(events, casts)
    about = _about(events, casts)
    events.put(casts, "vs", "cast", False, msg=own.messages(), service=own.services(), **about)
    before = events.section(np.where(primary & (turns.round > 0), turns.size * plan.pack, 0))
    _put_deliveries(events, taken_frames(events, before, turns.round - 1))
    # A process that stops at the end of the spell does not deliver the last messages.
    stays = primary & turns.is_last & ~(turns.leaves & (turns.with_part == REST))
    last = events.section(np.where(stays, turns.size * plan.pack, 0))
    _put_deliveries(events, taken_frames(events, last, turns.round))
    events.put_leaving()
    return events.batch()


def _identity(plan: Plan, spell: Numbers, node: Numbers) -> Numbers:
    """The number of the node's process in a spell: one more after each time that the node was in the rest."""
    parted = spell // 2
    """How many earlier spells were partitioned; in the n-th one the node's rank was node + n."""
    rest = plan.size_of(REST)

    def below(rank: Numbers) -> Numbers:
        return rank // plan.nodes * rest + np.maximum(rank % plan.nodes - plan.majority, 0)

    return 1 + below(node + parted) - below(node)


def _processes(events: Events, spell: Numbers, node: Numbers) -> pa.Array:
    return pc.binary_join_element_wise(events.name(node), "1", text(_identity(events.plan, spell, node)), ":")


def _last_view(plan: Plan, spell: Numbers, part: Numbers) -> Numbers:
    merged = (spell % 2 == 0) & (spell > 0)
    return plan.number(spell, part) * _VIEWS + np.where(merged, plan.size_of(REST), 0)


def _about(events: Events, section: Section) -> dict[str, pa.Array]:
    """Group, process and view of the events of a spell after its views are installed."""
    turns, at = events.turns, section.turn
    return {
        "group": pa.repeat(_GROUP, len(at)),
        "process": _processes(events, turns.spell[at], turns.node[at]),
        "view": pa.array(_last_view(events.plan, turns.spell[at], turns.part[at])),
    }


def _put_deliveries(events: Events, frames: Frames) -> None:
    section = frames.section
    sender = _processes(events, events.turns.spell[section.turn], frames.sender)
    about = _about(events, section)
    columns = {"msg": frames.messages(), "service": frames.services(), "ts": frames.stamps()}
    events.put(section, "vs", "deliver", True, sender=sender, **columns, **about)


def _put_views(events: Events) -> None:
    """One view for each spell of a primary component; after a merge, another one for each process that comes back."""
    plan, turns = events.plan, events.turns
    before = turns.spell - 1
    was = plan.part(before, turns.node)
    merged = (turns.spell % 2 == 0) & (turns.spell > 0)
    rest = plan.size_of(REST)
    first = np.where(merged & (was == REST), plan.index(before, turns.node) + 1, 0)
    last = np.where(merged, rest, 0)
    views = events.section(np.where(turns.enters & (turns.part != REST), last - first + 1, 0))
    at = views.turn
    change = first[at] + views.d
    members = [
        [f"{plan.name(node)}:1:{number}" for node, number in _members(plan, spell, part, came)]
        for spell, part, came in zip(turns.spell[at].tolist(), turns.part[at].tolist(), change.tolist(), strict=True)
    ]
    number = turns.number[at]
    columns = {"members": pa.array(members, pa.list_(pa.string())), "primary": pa.array(number)}
    about = {**_about(events, views), "view": pa.array(number * _VIEWS + change)}
    events.put(views, "vs", "view", False, conf=events.conf(views), **columns, **about)


def _members(plan: Plan, spell: int, part: int, came: int) -> list[tuple[int, int]]:
    """Nodes and the numbers of their processes in a spell, after so many have come back."""
    nodes = plan.nodes_of(spell, part)
    if spell % 2 == 0 and spell > 0:
        back = {
            int(plan.node_at(*(np.array([each]) for each in (spell - 1, REST, index)))[0]) for index in range(came)
        }
        nodes = sorted({*plan.nodes_of(spell - 1, MAJORITY), *back})
    numbers = _identity(plan, np.full(len(nodes), spell), np.array(nodes))
    return list(zip(nodes, numbers.tolist(), strict=True))


def _put_stops(events: Events) -> None:
    plan, turns = events.plan, events.turns
    stops = events.section((turns.enters & (turns.part == REST)).astype(np.int64))
    at = stops.turn
    before = turns.spell[at] - 1
    about = {
        "group": pa.repeat(_GROUP, len(at)),
        "process": _processes(events, before, turns.node[at]),
        "view": pa.array(_last_view(plan, before, np.zeros_like(before))),
    }
    events.put(stops, "vs", "stop", False, **about)
