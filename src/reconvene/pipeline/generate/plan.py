"""What a made run looks like: how many nodes, configurations and rounds; as numbers, and as SQL over a node's rounds.

A run is cut into *spells* of equally many *rounds*. In spells 0, 2, 4, … all nodes are one configuration; in those
between, the network is parted: a majority and the rest, other nodes each time. In a round each node originates a
frame of `pack` messages, and takes in those of the round before.

Everything about an event follows from the numbers of its run, node, spell and round alone, so that each is made by
itself, wherever it is made.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MAJORITY", "REST", "WHOLE", "Plan", "by_section"]

WHOLE, MAJORITY, REST = 0, 1, 2
"""Parts of the network: all of it; or, where it is parted, one of the two."""

_ROUND_NS = 10_000_000
_ROWS_IN_A_TASK = 400_000


@dataclass(frozen=True)
class Plan:
    runs: int
    nodes: int
    spells: int
    rounds: int
    """Of each spell, or of each of its stages."""
    pack: int
    stride: int
    """More events than any node has in a round."""
    stages: int = 1
    """A spell's stages have equally many rounds. Only in the last one messages are originated; those before it bring
    home what others did in the spell before."""

    # -- in Python

    @property
    def majority(self) -> int:
        return self.nodes // 2 + 1

    def name(self, node: int) -> str:
        return f"n{node:0{self._digits}}"

    def components(self) -> list[list[str]]:
        """Who is connected at the end."""
        if self.spells % 2:
            return [[self.name(node) for node in range(self.nodes)]]
        shift = (self.spells - 1) // 2
        parts: list[list[str]] = [[], []]
        for node in range(self.nodes):
            parts[(node + shift) % self.nodes >= self.majority].append(self.name(node))
        return [part for part in parts if part]

    @property
    def _digits(self) -> int:
        return max(2, len(str(self.nodes - 1)))

    # -- in SQL, of expressions

    def node_name(self, node: str) -> str:
        return f"concat('n', lpad(cast({node} as string), {self._digits}, '0'))"

    def part(self, spell: str, node: str) -> str:
        """Which part of the network the node is in."""
        return f"if(({spell}) % 2 = 0, {WHOLE}, if({self._rank(spell, node)} < {self.majority}, {MAJORITY}, {REST}))"

    def index(self, spell: str, node: str) -> str:
        """The node's place among those of its part."""
        rank = self._rank(spell, node)
        return f"if(({spell}) % 2 = 0, {node}, if({rank} < {self.majority}, {rank}, {rank} - {self.majority}))"

    def _rank(self, spell: str, node: str) -> str:
        """Where the network is parted: other nodes each time are the first ones, who are the majority."""
        return f"pmod({node} + ({spell}) div 2, {self.nodes})"

    def offset(self, spell: str, part: str) -> str:
        """What has to be added to a place in a part, modulo the number of nodes, for the node that has it."""
        return f"if({part} = {WHOLE}, 0L, if({part} = {REST}, {self.majority}L, 0L) - ({spell}) div 2)"

    def size(self, part: str) -> str:
        rest = self.nodes - self.majority
        return f"(case {part} when {WHOLE} then {self.nodes} when {MAJORITY} then {self.majority} else {rest} end)"

    def number(self, spell: str, part: str) -> str:
        """Of the configuration that a part has in a spell. Those below are of the nodes when they start, alone."""
        return f"({self.nodes + 1} + 3L * ({spell}) + {part})"

    def members(self, spell: str, part: str) -> str:
        """The names of a part's nodes."""
        nodes = f"filter(sequence(0L, {self.nodes - 1}L), x -> {self.part(spell, 'x')} = {part})"
        return f"transform({nodes}, x -> {self.node_name('x')})"

    def counter(self, spell: str, round_: str, index: str) -> str:
        """The place of a message among its sender's."""
        return f"((({spell}) * {self.rounds} + {round_}) * {self.pack} + {index})"

    # -- in Spark

    def node_rounds(self, spark: "SparkSession", rows: int) -> "DataFrame":
        """One row for each round of each node, in the order of runs, nodes and rounds: where and when it is (run,
        node, node_number, turn, spell, stage, round, t), what the node's configuration is then (part, index, size,
        number, conf, leaving: the transitional one after it), and which part of it the node goes on with from the
        spell (with_spell, with_part). `rows`: how many events will be made of them in all."""
        turns = self.spells * self.stages * self.rounds
        count = self.runs * self.nodes * turns
        frame = spark.range(0, count, 1, max(2, min(count, rows // _ROWS_IN_A_TASK)))
        jitter = f"pmod(hash(node_number, turn), {_ROUND_NS // 8})"
        return (
            frame.select(
                F.expr(f"id div {self.nodes * turns}").alias("run_number"),
                F.expr(f"(id div {turns}) % {self.nodes}").alias("node_number"),
                F.expr(f"id % {turns}").alias("turn"),
                F.expr(f"(id % {turns}) div {self.stages * self.rounds}").alias("spell"),
                F.expr(f"((id % {turns}) div {self.rounds}) % {self.stages}").alias("stage"),
                F.expr(f"id % {self.rounds}").alias("round"),
            )
            .withColumns({
                "run": F.expr("concat('made-', lpad(cast(run_number as string), 6, '0'))"),
                "node": F.expr(self.node_name("node_number")),
                "t": F.expr(f"turn * {_ROUND_NS} + {jitter} + node_number * {_ROUND_NS // 8} div {self.nodes}"),
                "part": F.expr(self.part("spell", "node_number")),
                "index": F.expr(self.index("spell", "node_number")),
                "next_part": F.expr(self.part("spell + 1", "node_number")),
                "with_spell": F.expr("if(spell % 2 = 1, spell, spell + 1)"),
            })
            .withColumns({
                "size": F.expr(self.size("part")),
                "offset": F.expr(self.offset("spell", "part")),
                "number": F.expr(self.number("spell", "part")),
                "next_number": F.expr(self.number("spell + 1", "next_part")),
                "with_part": F.expr("if(spell % 2 = 1, part, next_part)"),
            })
            .withColumns({
                "conf": F.expr("cast(number as string)"),
                "leaving": F.expr("concat(number, '+', next_number)"),
            })
        )  # fmt: skip

    def clock(self, late: str) -> str:
        """A time that grows with the turn, from its first half to its second, if `late`, and there with k. What is
        originated in one half is taken in in a later one, at every node."""
        return f"t + k * {max(1, _ROUND_NS // (4 * self.stride))} + if({late}, {_ROUND_NS // 2}, 0)"


def by_section(frame: "DataFrame", sections: "Mapping[str, str]") -> "DataFrame":
    """A row for each event of a node's round: `section`, `d` (its place in that) and `k` (its place in the round).

    Given the sections that a round has, in their order, each with an expression for how many events it has. A section
    is known by its number in that order.
    """
    ends = ["0L"]
    for count in sections.values():
        ends.append(f"{ends[-1]} + cast({count} as bigint)")
    frame = frame.withColumns({f"end_{place}": F.expr(end) for place, end in enumerate(ends)})
    last = f"end_{len(sections)}"
    frame = frame.where(f"{last} > 0").withColumn("k", F.expr(f"explode(sequence(0L, {last} - 1))"))
    which = " ".join(f"when k < end_{place + 1} then {place}" for place in range(len(sections)))
    since = " ".join(f"when k < end_{place + 1} then k - end_{place}" for place in range(len(sections)))
    return frame.withColumns({"section": F.expr(f"case {which} end"), "d": F.expr(f"case {since} end")})
