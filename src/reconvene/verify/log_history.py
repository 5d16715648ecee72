"""The events of the durable log (layer `corel`), in the form that the checks read.

Each node's events are columns of their own, all its incarnations in one; an event is a node and a *place* in them.
Where a node leaves a configuration, by the layer `evs`, there is an event too: what a primary component
orders, it orders before that. Of two events the one of the lower node, then of the lower place, is the lower.

A message that an outpost accepted may have several copies, of which one counts. A row with a `label` is about the
copy of that id. What a copy is in the end its lowest green event says, by its `msg`; all other rows about the copy
are taken for rows of that message.

From these is worked out when each node came to have each message, had it green, and had it yellow or green for good:
always as a place, NEVER where it did not. A snapshot does that for every message whose lowest green event has a
position below it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, cast

from msgspec import UNSET

from reconvene.trace.events import Row
from reconvene.verify.codes import NONE

__all__ = [
    "ACCEPT",
    "ADOPT",
    "ATTEMPT",
    "COMMIT",
    "ESTABLISH",
    "GREEN",
    "LEAVE",
    "LOG",
    "NEVER",
    "OFFER",
    "RED",
    "SNAPSHOT",
    "YELLOW",
    "Component",
    "LogHistory",
    "NodeLog",
]

NEVER = 1 << 62

ACCEPT, LOG, YELLOW, RED, GREEN, ATTEMPT, COMMIT, ESTABLISH, ADOPT, SNAPSHOT, LEAVE = range(11)
OFFER = 11
"""Kinds of event."""

_KINDS = {
    "accept": ACCEPT,
    "log": LOG,
    "yellow": YELLOW,
    "red": RED,
    "green": GREEN,
    "attempt": ATTEMPT,
    "commit": COMMIT,
    "establish": ESTABLISH,
    "adopt": ADOPT,
    "snapshot": SNAPSHOT,
}
_NAMES = [*_KINDS, "leaves its configuration", "offer"]
_KINDS["offer"] = OFFER


class Component(NamedTuple):
    """A primary component as an event describes it."""

    conf: str
    members: frozenset[str]

    def __str__(self) -> str:
        return f"{self.conf} of {','.join(sorted(self.members)) or 'nobody'}"


@dataclass(slots=True)
class NodeLog:
    """One node's events, and what follows from them."""

    name: str
    kind: list[int] = field(default_factory=list)
    msg: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    """Of a green event or a snapshot, its position; of a primary component's, its number; of leaving a configuration,
    1 if that is by a failure, else 0."""
    n: list[int] = field(default_factory=list)
    inc: int = 0
    conf: str | None = None
    """The configuration that it is in, empty after a failure; None where the layer `evs` has no event yet."""
    stale: set[int] = field(default_factory=set)
    """Events of a primary component that name another configuration than the one the node is in."""
    named: dict[int, "Component"] = field(default_factory=dict)
    """Of each attempt, commit and establish event, what it says of its primary component."""
    arrived: list[int] = field(default_factory=list)
    """Where the node entered a regular configuration: the place of its next event then."""
    failed: list[int] = field(default_factory=list)
    """The same, of where it failed."""

    order: list[int] = field(default_factory=list)
    """All messages that it accepted or came to have, each once, in the order of that."""
    entered: list[int] = field(default_factory=list)
    """Of each of these, the place where it did."""
    had: list[int] = field(default_factory=list)
    """By message: from where on the node has it."""
    green: list[int] = field(default_factory=list)
    """By message: from where on it is green here."""
    steady: list[int] = field(default_factory=list)
    """By message: from where on it is yellow or green here, and never red after."""

    def describe(self, place: int, messages: list[str]) -> str:
        what = _NAMES[self.kind[place]]
        if self.msg[place] != NONE:
            what = f"{what} {messages[self.msg[place]]}"
        if self.number[place] != NONE:
            what = f"{what} {'at ' if self.kind[place] == GREEN else ''}{self.number[place]}"
        return f"{self.name}#{self.n[place]} {what}"


class LogHistory:
    """One run's log. `nodes` are the names of those that have a file, sorted."""

    def __init__(self, nodes: list[str]) -> None:
        self.node_logs = [NodeLog(name) for name in nodes]
        self.rows = 0
        """How many rows of the layer there are."""
        self.messages: list[str] = []
        self._msg_index: dict[str, int] = {}
        self.author: list[int] = []
        """Of each message, the node of its lowest accept or offer event, or NONE."""
        self.accepted: list[int] = []
        """The place of that event."""
        self.past: list[int] = []
        """How many messages of that node's `order` come before it."""
        self.position: list[int] = []
        """Of each message, the position of its lowest green event; NEVER where there is none."""
        self.stamp: list[list[int] | None] = []
        """Of each message, the timestamp of its lowest log event."""
        self.restamped: list[tuple[int, int]] = []
        """The log events that have another timestamp than that, lowest first."""
        self.members: dict[int, frozenset[str]] = {}
        """Of each primary component's number, the members that its lowest establish event names."""
        self._counts_as: dict[int, int] = {}
        """Of each copy that has a green event: the message that the lowest one shows."""

    # -- building ---------------------------------------------------------------------------------------------

    def add(self, node: int, row: Row) -> None:
        node_log = self.node_logs[node]
        self.rows += 1
        if row.inc != node_log.inc:
            self._leave(node_log, row, failed=True)
        kind = _KINDS[row.kind]
        place = len(node_log.kind)
        message = number = NONE
        if row.msg is not UNSET and (kind <= GREEN or kind == OFFER):
            message = self._message(row.msg)
            copy = self._message(row.label) if row.label else message
            if kind != GREEN:
                message = copy
            if kind in (ACCEPT, OFFER) and self.author[message] == NONE:
                self.author[message], self.accepted[message] = node, place
            elif kind == GREEN:
                self._counts_as.setdefault(copy, message)
                number = cast(int, row.pos)
                if self.position[message] == NEVER:
                    self.position[message] = number
            elif kind == LOG:
                self._stamp(node, place, message, cast("list[int]", row.ts))
        elif kind == SNAPSHOT:
            number = cast(int, row.pos)
        else:
            number = cast(int, row.primary)
            if kind != ADOPT:
                component = Component(cast(str, row.conf), frozenset(cast("list[str]", row.members)))
                node_log.named[place] = component
                if node_log.conf is not None and row.conf != node_log.conf:
                    node_log.stale.add(place)
                if kind == ESTABLISH:
                    self.members.setdefault(number, component.members)
        node_log.kind.append(kind)
        node_log.msg.append(message)
        node_log.number.append(number)
        node_log.n.append(row.n)

    def _stamp(self, node: int, place: int, message: int, ts: list[int]) -> None:
        first = self.stamp[message]
        if first is None:
            self.stamp[message] = ts
        elif first != ts:
            self.restamped.append((node, place))

    def move(self, node: int, row: Row, conf: str) -> None:
        """By the layer `evs` the node leaves its configuration, for this one or, empty, by failing."""
        node_log = self.node_logs[node]
        self._leave(node_log, row, failed=not conf or row.inc != node_log.inc)
        node_log.conf = conf
        if row.conf_kind == "regular":
            node_log.arrived.append(len(node_log.kind))

    def _leave(self, node_log: NodeLog, row: Row, failed: bool) -> None:
        node_log.inc = row.inc
        if failed:
            node_log.failed.append(len(node_log.kind))
        if node_log.kind and node_log.kind[-1] != LEAVE:
            node_log.kind.append(LEAVE)
            node_log.msg.append(NONE)
            node_log.number.append(int(failed))
            node_log.n.append(row.n)

    def _message(self, msg: str) -> int:
        index = self._msg_index.get(msg)
        if index is None:
            index = self._msg_index[msg] = len(self.messages)
            self.messages.append(msg)
            self.author.append(NONE)
            self.accepted.append(NONE)
            self.position.append(NEVER)
            self.stamp.append(None)
        return index

    # -- indexing ---------------------------------------------------------------------------------------------

    def finish(self) -> None:
        self._msg_index.clear()
        self._resolve_copies()
        self.past = [0] * len(self.messages)
        ordered = sorted(
            (message for message, position in enumerate(self.position) if position != NEVER),
            key=lambda message: (self.position[message], message),
        )
        for node, node_log in enumerate(self.node_logs):
            self._follow(node, node_log, ordered)

    def _resolve_copies(self) -> None:
        """Rows about a copy become rows of the message that the copy is."""
        counts_as = {copy: message for copy, message in self._counts_as.items() if copy != message}
        self._counts_as.clear()
        if not counts_as:
            return
        for copy, message in counts_as.items():
            if self.author[message] == NONE:
                self.author[message], self.accepted[message] = self.author[copy], self.accepted[copy]
            self.author[copy] = self.accepted[copy] = NONE
            if self.stamp[message] is None:
                self.stamp[message] = self.stamp[copy]
        for node_log in self.node_logs:
            for place, message in enumerate(node_log.msg):
                if message in counts_as and node_log.kind[place] != GREEN:
                    node_log.msg[place] = counts_as[message]

    def _follow(self, node: int, node_log: NodeLog, ordered: list[int]) -> None:
        """Goes through a node's events once. `ordered` are the messages that are green anywhere, by position."""
        count = len(self.messages)
        had = node_log.had = [NEVER] * count
        green = node_log.green = [NEVER] * count
        steady = node_log.steady = [NEVER] * count
        order, entered = node_log.order, node_log.entered
        known = bytearray(count)
        covered = 0
        for place, (kind, message) in enumerate(zip(node_log.kind, node_log.msg, strict=True)):
            if kind == ACCEPT:
                if self.author[message] == node and self.accepted[message] == place:
                    self.past[message] = len(order)
            elif kind == OFFER:
                if self.author[message] == node and self.accepted[message] == place:
                    self.past[message] = len(order)
                continue
            elif kind == LOG:
                if had[message] == NEVER:
                    had[message] = place
            elif kind == SNAPSHOT:
                line = node_log.number[place]
                while covered < len(ordered) and self.position[ordered[covered]] < line:
                    below = ordered[covered]
                    covered += 1
                    had[below] = min(had[below], place)
                    green[below] = min(green[below], place)
                    steady[below] = min(steady[below], place)
                    if not known[below]:
                        known[below] = 1
                        order.append(below)
                        entered.append(place)
                continue
            elif kind in (YELLOW, GREEN):
                if steady[message] == NEVER:
                    steady[message] = place
                if kind == GREEN and green[message] == NEVER:
                    green[message] = place
                continue
            elif kind == RED:
                steady[message] = NEVER
                continue
            else:
                continue
            if not known[message]:
                known[message] = 1
                order.append(message)
                entered.append(place)

    # -- asking -----------------------------------------------------------------------------------------------

    def describe(self, node: int, place: int) -> str:
        """An event in a witness: where it is, and what it is."""
        return self.node_logs[node].describe(place, self.messages)
