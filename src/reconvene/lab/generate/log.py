"""A generated run of the durable log: all nodes accept messages; majorities order them, and all nodes after each
merge.

In round r a replica accepts its frame and logs the frames of round r - 1. In a primary component these become yellow
at once, and those of round r - 2, which all members have logged by then, become green. Nothing is pending at a
spell's end. What the rest accepts during a partition stays red there. At the merge each side logs what the other has,
the rest learns what is green, and then the new primary component orders what the rest had accepted.
"""

import numpy as np
import pyarrow as pa

from reconvene.lab.generate.events import Events, Section
from reconvene.lab.generate.plan import MAJORITY, REST, Numbers, Plan, Turns

__all__ = ["log_events", "log_plan"]

EXCHANGE, LEARN, COMMIT, ESTABLISH, WORK = range(5)
"""A spell's stages."""


def log_plan(events: int, runs: int, nodes: int, changes: int, pack: int) -> Plan:
    spells = changes + 1
    most = nodes // 2 + 1
    rest = nodes - most
    whole = nodes * (1 + 3 * nodes)
    parted = nodes + 3 * most**2 + rest**2
    # Each side logs the other's; the rest makes the majority's green; then all make the rest's yellow and green.
    merged = 2 * most * rest + most * rest + 2 * rest * nodes
    merges = (spells - 1) // 2
    rows = pack * (whole * ((spells + 1) // 2) + parted * (spells // 2) + merged * merges)
    stride = pack * (1 + 7 * nodes) + 6
    return Plan(runs, nodes, spells, max(2, round(events / runs / rows)), pack, stride, stages=5)


def log_events(plan: Plan, turns: Turns) -> pa.RecordBatch:
    events = Events(plan, turns)
    events.put_entering()
    _put_recovery(events)
    _put_work(events)
    events.put_leaving()
    return events.batch()


class _Messages:
    """The frames of one round of a part, in their order, for the events of a section."""

    def __init__(
        self, events: Events, section: Section, frame: Numbers, spell: Numbers, part: Numbers, sent: Numbers
    ):
        plan, at = events.plan, section.turn
        size = plan.size(part)
        self.index = section.d % plan.pack
        self.frame = frame
        sender = plan.node_at(spell, part, (frame - sent) % np.maximum(size, 1))
        counter = (spell * plan.rounds + sent) * plan.pack + self.index
        self.msg = events.message(sender, counter)
        self.stamps = events.stamps(plan.number(spell, part), np.zeros_like(at), sent * size + frame, self.index)
        """Positions, spell by spell; after a partition the majority's come first."""
        before = (spell * plan.nodes + np.where(part == REST, plan.majority, 0)) * plan.rounds
        self.position = pa.array((before + sent * size + frame) * plan.pack + self.index)


def _messages(events: Events, section: Section, spell: Numbers, part: Numbers, sent: Numbers) -> _Messages:
    """A section in which each event has another message. The rest is given by turn."""
    at = section.turn
    return _Messages(events, section, section.d // events.plan.pack, spell[at], part[at], sent[at])


def _put_recovery(events: Events) -> None:
    plan, turns = events.plan, events.turns
    before, merges = turns.spell - 1, (turns.spell % 2 == 0) & (turns.spell > 0)
    was = plan.part(before, turns.node)
    other = np.where(was == MAJORITY, REST, MAJORITY)
    rest = np.full_like(was, REST)
    majority = np.full_like(was, MAJORITY)

    exchange = events.section(np.where(merges & (turns.stage == EXCHANGE), plan.size(other) * plan.pack, 0))
    frames = _messages(events, exchange, before, other, turns.round)
    events.put(exchange, "corel", "log", True, msg=frames.msg, ts=frames.stamps)

    learns = merges & (turns.stage == LEARN) & (was == REST)
    adopt = events.section((learns & (turns.round == 0)).astype(np.int64))
    events.put(adopt, "corel", "adopt", True, primary=pa.array(turns.spell[adopt.turn]))
    learn = events.section(np.where(learns, plan.majority * plan.pack, 0))
    frames = _messages(events, learn, before, majority, turns.round)
    events.put(learn, "corel", "green", True, msg=frames.msg, pos=frames.position)

    for stage, phases, color in ((COMMIT, ("attempt", "commit"), "yellow"), (ESTABLISH, ("establish",), "green")):
        for phase in phases:
            _put_phase(events, phase, (turns.part != REST) & (turns.stage == stage) & (turns.round == 0))
        red = events.section(np.where(merges & (turns.stage == stage), plan.size_of(REST) * plan.pack, 0))
        frames = _messages(events, red, before, rest, turns.round)
        position = {"pos": frames.position} if color == "green" else {}
        events.put(red, "corel", color, True, msg=frames.msg, **position)


def _put_phase(events: Events, phase: str, where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    plan, turns = events.plan, events.turns
    section = events.section(where.astype(np.int64))
    spells, parts = turns.spell[section.turn].tolist(), turns.part[section.turn].tolist()
    members = events.names([plan.nodes_of(spell, part) for spell, part in zip(spells, parts, strict=True)])
    primary = pa.array(turns.spell[section.turn] + 1)
    events.put(section, "corel", phase, True, primary=primary, conf=events.conf(section), members=members)


def _put_work(events: Events) -> None:
    plan, turns = events.plan, events.turns
    accepts = events.section(np.where(turns.originates, plan.pack, 0))
    own = (turns.spell * plan.rounds + turns.round)[accepts.turn] * plan.pack + accepts.d
    events.put(accepts, "corel", "accept", False, msg=events.message(turns.node[accepts.turn], own))
    primary = turns.part != REST
    _put_logged(events, turns.originates & (turns.round > 0), turns.round - 1)
    _put_logged(events, turns.is_last, turns.round)
    for age in (2, 1, 0):
        ordered = primary & turns.originates & (turns.round >= age) & (turns.is_last | (age == 2))
        green = events.section(np.where(ordered, turns.size * plan.pack, 0))
        frames = _messages(events, green, turns.spell, turns.part, turns.round - age)
        events.put(green, "corel", "green", True, msg=frames.msg, pos=frames.position)


def _put_logged(events: Events, where: np.ndarray[tuple[int], np.dtype[np.bool_]], sent: Numbers) -> None:
    """The messages of a round: in a primary component each is yellow once it is logged."""
    plan, turns = events.plan, events.turns
    each = np.where(turns.part == REST, 1, 2)
    section = events.section(np.where(where, turns.size * plan.pack * each, 0))
    at = section.turn
    step = section.d % each[at]
    section = Section(at, section.d // each[at], section.k)
    for kind, those in (("log", step == 0), ("yellow", step == 1)):
        some = section.only(those)
        frames = _messages(events, some, turns.spell, turns.part, sent)
        stamps = {"ts": frames.stamps} if kind == "log" else {}
        events.put(some, "corel", kind, True, msg=frames.msg, **stamps)
