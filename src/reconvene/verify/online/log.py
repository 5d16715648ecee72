"""The durable log while its rows come in: facts that are true of no right run (`reconvene.verify.corel.sums`).

Given: the rows of the layer `corel`, each node's in the order of its file, and when a node fails. Promised: a run
that breaks one of the checks in `JUDGED` has a fact that the check declares; and only what is not yet the same
everywhere is kept: messages that a node has and that are not green there, positions that not all nodes have reached,
and messages that are logged somewhere and were accepted nowhere yet.

What is forgotten can't be compared, so names stand in for it: messages are called AUTHOR:INCARNATION:COUNTER, and if
the counters of one author's incarnation grow along each node's `accept`, `log` and `green` rows, then none of these
comes twice. Whatever is called otherwise, or comes in another order, is a suspect, and the local check decides.
"""

from dataclasses import dataclass, field
from typing import cast

from msgspec import UNSET

from reconvene.trace.events import Row
from reconvene.verify.counts import LogCounts
from reconvene.verify.online.sighting import MOST, Sighting, add_sighting

__all__ = ["JUDGED", "LogRows"]

JUDGED = ("corel.3.1", "corel.3.2", "corel.3.6", "corel.green", "corel.agreed", "corel.phases", "corel.ts")
"""The checks of which the facts here are the proof."""


@dataclass(slots=True)
class _Node:
    name: str
    next: int = 0
    """Its next position."""
    had: set[str] = field(default_factory=set)
    """Messages that it has, and that are not green here."""
    logged: dict[str, int] = field(default_factory=dict)
    """By author's incarnation: the counter of the last message that it logged."""
    unlogged: set[str] = field(default_factory=set)
    """Messages that it accepted, and has not logged."""
    snapshot: int = 0
    """The highest position of a snapshot that it took."""
    coloured: set[str] = field(default_factory=set)
    """Messages that became yellow or red after a snapshot, while not all that it covers were known."""
    inc: int = 0
    primary: bool = False
    """Did it establish a primary component, and go on to no other phase since? Then …"""
    arrivals: int = 0
    """… how many regular configurations it has entered since."""


class LogRows:
    """Of one run."""

    def __init__(self, nodes: list[str]) -> None:
        self._nodes = [_Node(name) for name in nodes]
        self.rows = 0
        """How many rows of the layer have come."""
        self.counts = LogCounts()
        self.facts: dict[str, int] = {}
        """How many rows have which fact; what may yet be explained by rows of another file is left out."""
        self.seen: list[Sighting] = []
        """The first rows that have a fact."""
        self._accepted: dict[str, list[list[int]]] = {}
        """By author's incarnation: the counters that were accepted, as spans."""
        self._waiting: dict[str, tuple[int, Sighting]] = {}
        """Messages that are logged and that nobody accepted so far; the pass in which they came, and the row."""
        self._order: dict[int, str] = {}
        """The messages at the positions that some node has not reached."""
        self._position: dict[str, int] = {}
        """The same by message."""
        self._low = 0
        """The position below which nothing is kept."""
        self._green: dict[str, int] = {}
        """By author's incarnation: the counter of the last message that has a position."""
        self._unmade: set[int] = set()
        """Positions of which no node is known to have made them green in a primary component."""
        self._stamps: dict[str, list[int]] = {}
        """Of messages that are kept: the timestamp under which one was first logged."""
        self._restamped: dict[str, int] = {}
        self._again: set[str] = set()
        """Messages that their author may have sent a second time, since it failed before it logged them."""
        self._highest = 0
        """The highest position of a snapshot; …"""
        self._line = 0
        """… and the lowest position that no green row had."""
        self.lost: str | None = None
        """Why the log can't be judged any more, in one line."""

    def __len__(self) -> int:
        """How many messages and positions are kept."""
        return (
            len(self._order) + len(self._stamps) + len(self._waiting) + len(self._unmade) + len(self._restamped)
            + sum(len(node.had) + len(node.unlogged) + len(node.coloured) for node in self._nodes)
        )  # fmt: skip

    def slowest(self) -> str:
        """The node whose next position is the lowest."""
        return min(self._nodes, key=lambda node: node.next).name

    def drop(self, why: str) -> None:
        """Nothing of the log is judged from now on, and nothing is kept."""
        self.lost = why
        for kept in (self._order, self._position, self._stamps, self._waiting, self._restamped):
            kept.clear()
        self._unmade.clear()
        self._again.clear()
        for node in self._nodes:
            node.had.clear()
            node.unlogged.clear()
            node.coloured.clear()

    # -- rows

    def move(self, node: int, row: Row) -> None:
        """A row of the layer `evs` that moves the node; not of a hidden configuration."""
        at = self._nodes[node]
        if row.kind != "conf" or row.inc != at.inc:
            self._fail(at, row.inc)
        if row.conf_kind == "regular":
            at.arrivals += 1

    def _fail(self, at: _Node, inc: int) -> None:
        at.inc = inc
        at.primary = False
        self._again |= at.unlogged
        at.unlogged.clear()

    def add(self, node: int, row: Row, now: int) -> None:
        """A row of the layer, with the fields that its kind requires."""
        self.rows += 1
        if self.lost is not None:
            return
        at = self._nodes[node]
        if row.inc != at.inc:
            if at.inc > row.inc:
                self._fact("tangled", at, row)
            self._fail(at, row.inc)
        kind = row.kind
        if kind == "log":
            self._log(at, row, now)
        elif kind == "green":
            self._make_green(at, row)
        elif kind == "yellow" or kind == "red":
            if kind == "yellow":
                self.counts.yellows += 1
            else:
                self.counts.reds += 1
            if row.msg not in at.had:
                self._fact("recoloured", at, row)
            elif at.snapshot > self._line:
                at.coloured.add(row.msg)
        elif kind == "accept":
            self._accept(at, row)
        elif kind == "snapshot":
            self._snapshot(at, row)
        elif kind == "offer":
            self._fact("torn", at, row)  # copies of an outpost's message: only the whole run shows which one counts
        else:
            self.counts.phases += kind != "adopt"
            at.primary = kind == "establish"
            at.arrivals = 0
        if row.label is not UNSET:
            self._fact("torn", at, row)

    def _fact(self, name: str, at: _Node, row: Row) -> None:
        self.facts[name] = self.facts.get(name, 0) + 1
        what = " ".join(str(part) for part in (row.kind, row.msg, row.pos) if part is not UNSET)
        add_sighting(self.seen, Sighting(name, at.name, row.n, what))

    def _accept(self, at: _Node, row: Row) -> None:
        self.counts.accepts += 1
        msg = cast(str, row.msg)
        life, _, told = msg.rpartition(":")
        if life.rpartition(":")[0] != at.name or not told.isdecimal():
            self._fact("twice", at, row)
            return
        counter = int(told)
        spans = self._accepted.get(life)
        if spans is None:
            self._accepted[life] = [[counter, counter]]
        elif counter == spans[-1][1] + 1:
            spans[-1][1] = counter
        elif counter > spans[-1][1]:
            spans.append([counter, counter])
        else:
            self._fact("twice", at, row)
        at.unlogged.add(msg)
        if self._waiting and self._waiting.pop(msg, None) is not None and msg in at.had:
            self._fact("too_soon", at, row)

    def _was_accepted(self, life: str, counter: int) -> bool:
        return any(first <= counter <= last for first, last in reversed(self._accepted.get(life, ())))

    def _log(self, at: _Node, row: Row, now: int) -> None:
        self.counts.logs += 1
        msg = cast(str, row.msg)
        life, _, told = msg.rpartition(":")
        counter = int(told) if told.isdecimal() else -1
        if counter <= at.logged.get(life, -1):
            self._fact("twice", at, row)
        else:
            at.logged[life] = counter
        spans = self._accepted.get(life)
        if (spans is None or not spans[-1][0] <= counter <= spans[-1][1]) and not self._was_accepted(life, counter):
            self._waiting.setdefault(msg, (now, Sighting("unaccepted", at.name, row.n, f"log {msg}")))
        ts = cast("list[int]", row.ts)
        if self._stamps.setdefault(msg, ts) != ts:
            self._restamped[msg] = self._restamped.get(msg, 0) + 1
        if not (at.snapshot and self._is_covered(at, msg, life, counter)):
            at.had.add(msg)
        at.unlogged.discard(msg)

    def _is_covered(self, at: _Node, msg: str, life: str, counter: int) -> bool:
        """Has the message a position that the node is past? If it is forgotten, all nodes are."""
        position = self._position.get(msg)
        return position < at.next if position is not None else counter <= self._green.get(life, -1)

    def _make_green(self, at: _Node, row: Row) -> None:
        self.counts.greens += 1
        msg, pos = cast(str, row.msg), cast(int, row.pos)
        if pos != at.next:
            self._fact("misplaced", at, row)
            self._fact("misplaced_green", at, row)
        at.next = pos + 1
        if msg in at.had:
            at.had.remove(msg)
        else:
            self._fact("green_unhad", at, row)
        known = self._order.get(pos)
        if known is None:
            self._place(at, row)
        elif known != msg:
            self._fact("shared", at, row)
            self._fact("moved", at, row)
        if pos in self._unmade and at.primary and at.arrivals <= 1:
            self._unmade.discard(pos)
        if pos == self._low:
            self._forget()

    def _place(self, at: _Node, row: Row) -> None:
        """The first `green` of this position."""
        msg, pos = cast(str, row.msg), cast(int, row.pos)
        if pos < self._low:
            self._fact("shared", at, row)  # what was here is forgotten: all nodes had reached it
            return
        life, _, told = msg.rpartition(":")
        counter = int(told) if told.isdecimal() else -1
        if counter <= self._green.get(life, -1):
            self._fact("moved", at, row)
            self._fact("twice", at, row)
        self._green[life] = counter
        self._order[pos] = msg
        self._position[msg] = pos
        self.counts.positions += 1
        self._unmade.add(pos)
        if self._highest > pos:
            for node in self._nodes:
                if node.snapshot > pos:  # it covered the message, before this row came
                    node.had.discard(msg)
                    if msg in node.coloured:
                        self._fact("recoloured", node, row)
        while self._line in self._order:
            self._line += 1
        if self._highest == self._line:
            for node in self._nodes:
                node.coloured.clear()

    def _snapshot(self, at: _Node, row: Row) -> None:
        self.counts.snapshots += 1
        pos = cast(int, row.pos)
        if pos < at.next:
            self._fact("misplaced", at, row)
        for covered in range(at.next, pos):
            msg = self._order.get(covered)
            if msg is not None:
                at.had.discard(msg)
        at.next = pos
        at.snapshot = max(at.snapshot, pos)
        self._highest = max(self._highest, pos)
        self._forget()

    def _forget(self) -> None:
        """Forgets the positions that all nodes have reached, and their messages."""
        reached = min(node.next for node in self._nodes)
        while self._low < reached and self._low in self._order:
            msg = self._order.pop(self._low)
            self._stamps.pop(msg, None)
            self._position.pop(msg, None)
            self._low += 1

    # -- what is found

    def sightings(self, before: int) -> list[Sighting]:
        """The first rows with a fact, those left out that came in that pass or later and may yet be explained."""
        waiting = [sighting for since, sighting in self._waiting.values() if since < before]
        return [*self.seen, *waiting[:MOST]]

    def suspects(self, down: set[str], before: int | None = None) -> dict[str, int]:
        """How many rows have which fact, as if the run ended here. `before`: left out is what may yet be explained by
        rows of a file that is behind: all that came in that pass or later."""
        found = dict(self.facts)

        def add(fact: str, count: int) -> None:
            if count:
                found[fact] = found.get(fact, 0) + count

        excused = self._again.union(*(node.unlogged for node in self._nodes if node.name in down))
        add("restamped", sum(count for msg, count in self._restamped.items() if msg not in excused))
        if before is None:
            add("unaccepted", len(self._waiting))
            add("unmade", len(self._unmade))
            add("gap", int(self._highest > self._line))
        else:
            add("unaccepted", sum(since < before for since, _ in self._waiting.values()))
            add("unmade", sum(pos < self._low for pos in self._unmade))
        return found
