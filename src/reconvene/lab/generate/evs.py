"""A generated run of group communication: every service, several senders, partitions and merges.

In round r a node sends its frame, then delivers all frames of round r - 1. The messages of a spell's last round are
delivered by the nodes that move to the next configuration together: fifo and causal messages in the regular
configuration, the others in the transitional one.
"""

import numpy as np
import pyarrow as pa

from reconvene.lab.generate.events import Events
from reconvene.lab.generate.frames import Frames, loose_frames, own_frames, taken_frames
from reconvene.lab.generate.plan import Plan, Turns

__all__ = ["evs_events", "evs_plan"]


def evs_plan(events: int, runs: int, nodes: int, changes: int, pack: int) -> Plan:
    spells = changes + 1
    most = nodes // 2 + 1
    whole = nodes * pack * (1 + nodes)
    parted = pack * (nodes + most**2 + (nodes - most) ** 2)
    rows = whole * ((spells + 1) // 2) + parted * (spells // 2)
    return Plan(runs, nodes, spells, max(2, round(events / runs / rows)), pack, stride=pack * (1 + 2 * nodes) + 4)


def evs_events(plan: Plan, turns: Turns) -> pa.RecordBatch:
    events = Events(plan, turns)
    events.put_entering()
    sends = events.section(np.full(len(turns.turn), plan.pack))
    own = own_frames(events, sends)
    conf = events.conf(sends)
    events.put(sends, "evs", "send", False, conf=conf, msg=own.messages(), service=own.services())
    before = events.section(np.where(turns.round > 0, turns.size * plan.pack, 0))
    _put_deliveries(events, taken_frames(events, before, turns.round - 1))
    loose = loose_frames(turns.size)
    last = events.section(np.where(turns.is_last, np.where(turns.leaves, loose, turns.size) * plan.pack, 0))
    _put_deliveries(events, _reaching(events, taken_frames(events, last, turns.round)))
    events.put_leaving()
    late = events.section(np.where(turns.leaves, (turns.size - loose) * plan.pack, 0))
    _put_deliveries(events, _reaching(events, taken_frames(events, late, turns.round, loose)), transitional=True)
    return events.batch()


def _reaching(events: Events, frames: Frames) -> Frames:
    """Which of a spell's last frames reach the node: all in a run's last spell, else those of the nodes that move on
    with it."""
    turns, at = events.turns, frames.section.turn
    together = events.plan.part(turns.with_spell[at], frames.sender) == turns.with_part[at]
    return frames.only(~turns.leaves[at] | together)


def _put_deliveries(events: Events, frames: Frames, transitional: bool = False) -> None:
    section = frames.section
    events.put(
        section, "evs", "deliver", True,
        conf=events.transitional(section) if transitional else events.conf(section),
        msg=frames.messages(), sender=events.name(frames.sender), service=frames.services(), ts=frames.stamps(),
    )  # fmt: skip
