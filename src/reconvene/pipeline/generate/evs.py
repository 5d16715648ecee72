"""A made run of group communication: every service, several senders, configurations that part and merge.

In round r a node sends its frame, then delivers all frames of round r - 1: first those of fifo and causal messages,
each receiver in a way of its own, then those of agreed and safe ones in the order of their timestamps. What is sent
in a spell's last round is delivered by those who go on together: its fifo and causal messages in the regular
configuration, the others in the transitional one.
"""

import numpy as np
import pyarrow as pa

from reconvene.pipeline.generate.events import Events, Section
from reconvene.pipeline.generate.plan import Numbers, Plan, Turns

__all__ = ["evs_events", "evs_plan"]

_SERVICES = pa.array(["fifo", "causal", "agreed", "safe"])
FIFO, CAUSAL, AGREED, SAFE = range(4)


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
    _put_sends(events)
    loose = turns.size // 2
    before = events.section(np.where(turns.round > 0, turns.size * plan.pack, 0))
    _put_deliveries(events, before, before.d // plan.pack, turns.round - 1)
    frames = np.where(turns.leaves, loose, turns.size)
    last = events.section(np.where(turns.is_last, frames * plan.pack, 0))
    _put_deliveries(events, last, last.d // plan.pack, turns.round)
    events.put_leaving()
    late = events.section(np.where(turns.leaves, (turns.size - loose) * plan.pack, 0))
    _put_deliveries(events, late, late.d // plan.pack + loose[late.turn], turns.round, transitional=True)
    return events.batch()


def _put_sends(events: Events) -> None:
    plan, turns = events.plan, events.turns
    sends = events.section(np.full(len(turns.turn), plan.pack))
    at = sends.turn
    slot = (turns.index[at] + turns.round[at]) % turns.size[at]
    events.put(
        sends, "evs", "send", False,
        conf=events.conf(sends),
        msg=events.message(turns.node[at], _counter(events, sends, turns.round)),
        service=_SERVICES.take(pa.array(_service(turns, sends, slot, turns.round))),
    )  # fmt: skip


def _put_deliveries(
    events: Events, section: Section, frame: Numbers, sent: Numbers, transitional: bool = False
) -> None:
    """Of a round, by turn. frame: the place of a delivery's frame among those that the node delivers."""
    plan, turns = events.plan, events.turns
    if not len(section.turn):
        return
    at = section.turn
    loose = turns.size[at] // 2
    slot = np.where(frame < loose, (frame + turns.node[at]) % np.maximum(loose, 1), frame)
    sender = plan.node_at(turns.spell[at], turns.part[at], (slot - sent[at]) % turns.size[at])
    # What is sent in the last round before a change reaches only those who go on together.
    reaches = plan.part(turns.with_spell[at], sender) == turns.with_part[at]
    there = ~turns.leaves[at] | (sent[at] < turns.round[at]) | reaches
    section, slot, sender, loose, at = section.only(there), slot[there], sender[there], loose[there], at[there]
    service = _service(turns, section, slot, sent)
    ordered = pa.array(slot < loose)
    stamps = events.stamps(
        turns.number[at], np.zeros_like(slot), sent[at] * turns.size[at] + slot, section.d % plan.pack
    )
    events.put(
        section, "evs", "deliver", True,
        conf=events.transitional(section) if transitional else events.conf(section),
        msg=events.message(sender, _counter(events, section, sent)),
        sender=events.name(sender),
        service=_SERVICES.take(pa.array(service)),
        ts=_null_where(ordered, stamps),
    )  # fmt: skip


def _null_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    places = np.where(np.asarray(mask), -1, np.arange(len(values)))
    return values.take(pa.array(places, mask=places < 0))


def _counter(events: Events, section: Section, sent: Numbers) -> Numbers:
    """The message's place among its sender's."""
    plan, turns, at = events.plan, events.turns, section.turn
    return (turns.spell[at] * plan.rounds + sent[at]) * plan.pack + section.d % plan.pack


def _service(turns: Turns, section: Section, slot: Numbers, sent: Numbers) -> Numbers:
    """Of the frame in that place of its round's order."""
    size = turns.size[section.turn]
    turning = slot + sent[section.turn] // size
    return np.where(
        slot < size // 2, np.where(turning % 2 == 0, FIFO, CAUSAL), np.where(turning % 3 == 0, SAFE, AGREED)
    )
