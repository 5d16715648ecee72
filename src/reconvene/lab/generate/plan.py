"""The shape of a generated run: how many nodes, configurations and rounds, and which nodes are connected when.

A run is divided into *spells* of equally many *rounds*. In spells 0, 2, 4, … all nodes are one configuration; in the
others the network is partitioned into a majority and the rest, with other nodes each time. In a round each node
originates a frame of `pack` messages, and receives those of the round before.

Everything about an event follows from the numbers of its run, node, spell and round alone, so any task can make any
event.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["MAJORITY", "REST", "WHOLE", "Flags", "Numbers", "Plan", "Turns"]

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

WHOLE, MAJORITY, REST = 0, 1, 2
"""Parts of the network: all of it, or during a partition one of the two."""


@dataclass(frozen=True)
class Plan:
    runs: int
    nodes: int
    spells: int
    rounds: int
    """Rounds of each spell, or of each of its stages."""
    pack: int
    stride: int
    """An upper bound on the events of a node in a round."""
    stages: int = 1
    """A spell's stages have equally many rounds. Messages are originated only in the last one; the stages before it
    exchange what others did in the spell before."""
    prefix: str = "made"
    """The prefix of the runs' names."""

    @property
    def majority(self) -> int:
        return self.nodes // 2 + 1

    @property
    def turns(self) -> int:
        """Turns of one node: a turn is a round of a stage of a spell."""
        return self.spells * self.stages * self.rounds

    def name(self, node: int) -> str:
        return f"n{node:0{max(2, len(str(self.nodes - 1)))}}"

    def names(self) -> list[str]:
        return [self.name(node) for node in range(self.nodes)]

    def run_name(self, run: int) -> str:
        return f"{self.prefix}-{run:06}"

    def nodes_of(self, spell: int, part: int) -> list[int]:
        shift = 0 if part == WHOLE else spell // 2
        first = self.majority if part == REST else 0
        return sorted((first + index - shift) % self.nodes for index in range(self.size_of(part)))

    def size_of(self, part: int) -> int:
        return (self.nodes, self.majority, self.nodes - self.majority)[part]

    def components(self) -> list[list[str]]:
        """The components at the end."""
        parts = (WHOLE,) if self.spells % 2 else (MAJORITY, REST)
        every = [[self.name(node) for node in self.nodes_of(self.spells - 1, part)] for part in parts]
        return [part for part in every if part]

    # -- for many at once

    def part(self, spell: Numbers, node: Numbers) -> Numbers:
        """Which part of the network the node is in."""
        parted = np.where(self._rank(spell, node) < self.majority, MAJORITY, REST)
        return np.where(spell % 2 == 0, WHOLE, parted)

    def index(self, spell: Numbers, node: Numbers) -> Numbers:
        """The node's place in its part."""
        rank = self._rank(spell, node)
        return np.where(spell % 2 == 0, node, np.where(rank < self.majority, rank, rank - self.majority))

    def node_at(self, spell: Numbers, part: Numbers, index: Numbers) -> Numbers:
        """The node that has this place in this part."""
        parted = (index + np.where(part == REST, self.majority, 0) - spell // 2) % self.nodes
        return np.where(part == WHOLE, index, parted)

    def size(self, part: Numbers) -> Numbers:
        return np.array([self.size_of(each) for each in (WHOLE, MAJORITY, REST)])[part]

    def number(self, spell: Numbers, part: Numbers) -> Numbers:
        """The number of the configuration of a part in a spell. Lower numbers are those of the nodes when they start
        alone."""
        return self.nodes + 1 + 3 * spell + part

    def _rank(self, spell: Numbers, node: Numbers) -> Numbers:
        """In a partition: by how much the nodes are rotated, so that other nodes are the majority each time."""
        return (node + spell // 2) % self.nodes


class Turns:
    """Turns of nodes, each known by a number: by run, then by node, then in their order."""

    def __init__(self, plan: Plan, ids: Numbers) -> None:
        self.run = ids // (plan.nodes * plan.turns)
        self.node = ids // plan.turns % plan.nodes
        self.turn = ids % plan.turns
        self.spell = self.turn // (plan.stages * plan.rounds)
        self.stage = self.turn // plan.rounds % plan.stages
        self.round = ids % plan.rounds
        self.part = plan.part(self.spell, self.node)
        self.index = plan.index(self.spell, self.node)
        self.size = plan.size(self.part)
        self.number = plan.number(self.spell, self.part)
        """The number of the node's configuration."""
        self.next_number = plan.number(self.spell + 1, plan.part(self.spell + 1, self.node))
        """The number of the configuration after it."""
        self.with_spell = self.spell | 1
        """The part of the nodes that move on with a node from a spell: its part in that one of the spell and the next
        in which the network is partitioned."""
        self.with_part = plan.part(self.with_spell, self.node)
        self.starts = self.turn == 0
        self.enters = self.turn % (plan.stages * plan.rounds) == 0
        self.originates = self.stage == plan.stages - 1
        self.is_last = self.originates & (self.round == plan.rounds - 1)
        self.leaves = self.is_last & (self.spell < plan.spells - 1)
