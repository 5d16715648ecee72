"""One run's events in the form that the checks read: integers in columns, indexed once.

An event is a number: nodes are numbered by their sorted names, and events by node, then by place in the node's
file. Configurations, messages and timestamps are numbered as they are met; timestamps then by their order. Only
the layer `evs` and `establish` events are kept here; the layer `vs` in `processes`, the layer `corel` in `log`, and
the layer `isis` in `isis`.

A *stay* is what lies between a node's entering a configuration and its leaving it, by place in the file. What an
event itself says of its configuration is kept apart (`conf`): whether the two agree is one of the checks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import UNSET

from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import read_rows, read_run
from reconvene.trace.writer import RUN_FILE
from reconvene.verify.codes import (
    AGREED,
    CAUSAL,
    CONF,
    DELIVER,
    FAIL,
    FIFO,
    HIDDEN,
    NONE,
    SAFE,
    SEND,
    SERVICES,
)
from reconvene.verify.isis_history import IsisHistory
from reconvene.verify.log_history import LogHistory
from reconvene.verify.processes import Processes
from reconvene.verify.quorums import quorum_of, standing_sites

if TYPE_CHECKING:
    from reconvene.verify.wide_history import WideHistory

__all__ = [
    "AGREED",
    "CAUSAL",
    "CONF",
    "DELIVER",
    "FAIL",
    "FIFO",
    "HIDDEN",
    "NONE",
    "SAFE",
    "SEND",
    "Configuration",
    "Declared",
    "Established",
    "History",
    "Stay",
    "Stray",
]

_LABELS = [service.label for service in Service]

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Declared:
    """What one conf event says of its configuration."""

    kind: str
    members: tuple[int, ...]
    reg: int


@dataclass(slots=True)
class Configuration:
    """A configuration as its first event describes it: the first that is not hidden, if there is one."""

    id: str
    kind: str = "unknown"
    members: tuple[int, ...] = ()
    reg: int = NONE
    entered: list[int] = field(default_factory=list)
    """deliver_conf events, in the order of events."""
    hidden: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Stay:
    """A node's time in one configuration."""

    node: int
    inc: int
    conf: int
    begin: int
    end: int = NONE
    """The event that ended it, or one after the node's last."""
    left: str = "end"
    """conf: for another configuration; fail: by failing or stopping; end: the file ends before it did."""
    next: int = NONE
    """The configuration that it was left for, in the same incarnation."""


@dataclass(slots=True, frozen=True)
class Established:
    """A primary component that a node established."""

    node: int
    n: int
    primary: int
    conf: str
    members: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Stray:
    """A row that stands outside of its incarnation."""

    node: str
    n: int
    detail: str


class History:
    """One run. Built by `History.of` from rows in memory, or by `History.load` from a trace directory."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.names = sorted(run.nodes)
        self.nodes = len(self.names)
        """How many nodes have a file. A number at or above it is a name that only `members` or `sender` mention."""
        self._name_index = {name: index for index, name in enumerate(self.names)}
        self.rows = 0
        self.numbers: list[list[int]] = [[] for _ in self.names]
        """The `n` of all rows of each node, of every layer."""
        self.strays: list[Stray] = []
        """Rows of other layers than `evs` that stand outside of their incarnation, lowest first."""
        self.outlived: dict[int, int] = {}
        """Events of an incarnation below one that a row of another layer had begun; and that one."""
        self.first = [0] * (self.nodes + 1)
        """Node p's events are first[p] … first[p + 1] - 1."""
        self.node: list[int] = []
        self.n: list[int] = []
        self.inc: list[int] = []
        self.kind: list[int] = []
        self.conf: list[int] = []
        self.msg: list[int] = []
        self.service: list[int] = []
        self.sender: list[int] = []
        self.ts: list[int] = []
        """Place among the run's distinct timestamps, in their order; NONE where there is none."""
        self.timestamps: list[tuple[int, ...]] = []
        self._ts_index: dict[tuple[int, ...], int] = {}
        self.confs: list[Configuration] = []
        self._conf_index: dict[str, int] = {}
        self.declared: dict[int, Declared] = {}
        self.messages: list[str] = []
        self._msg_index: dict[str, int] = {}
        self.sent: list[int] = []
        """Of each message, its first send event, or NONE."""
        self.sends: list[int] = []
        self.established: list[Established] = []
        self.processes = Processes(self.names[: self.nodes])
        """The events of process groups with the filter."""
        self.log = LogHistory(self.names[: self.nodes])
        """The events of the durable log."""
        self.isis = IsisHistory(self.names[: self.nodes])
        """The events of process groups in the manner of ISIS."""
        self.wide: WideHistory | None = None
        """Of what passed between domains, if that is what this run is: it then has no rows of other layers, and is
        judged by the checks of the layer `wide` and of every row."""
        self.is_level = False
        """Is it the trace of one domain, judged together with the others of a run?"""
        self.remotes: dict[str, list[Row]] = {}
        """By name: the rows of the log's followers and outposts, who are no nodes."""
        self.stays: list[list[Stay]] = []
        self.root: list[int] = []
        """Of each configuration, the regular one of it: reg(c)."""
        self.msg_service: list[int] = []
        """As it was sent; where no sending is known, as it was first delivered."""
        self.delivered_root: list[dict[int, set[int]]] = []
        """Of each node, by regular configuration: the messages that it delivered there or in what follows it."""
        self.delivered_conf: list[dict[int, set[int]]] = []
        """Of each node, by configuration: the messages that it delivered there."""
        self._worked_out: dict[Callable[[History], Any], Any] = {}

    # -- building ---------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, run: Run, rows: Mapping[str, Iterable[Row]]) -> "History":
        """From rows in memory, of which each has the fields that its kind requires."""
        history = cls(run)
        for node, name in enumerate(sorted(run.nodes)):
            history._add_node(node, rows.get(name, ()))
        for name in sorted([*run.followers, *run.outposts]):
            history._add_remote(name, rows.get(name, ()))
        history._finish()
        return history

    @classmethod
    def load(cls, directory: Path) -> "History":
        """From a trace directory, node by node, so that the rows of only one are in memory. May raise Malformed."""
        run = read_run(directory)
        history = cls(run)
        for node, name in enumerate(sorted(run.nodes)):
            history._add_node(node, read_rows(directory, name))
        for name in sorted([*run.followers, *run.outposts]):
            history._add_remote(name, read_rows(directory, name))
        history.need_quorum(str(directory / RUN_FILE))
        history._finish()
        return history

    def need_quorum(self, where: str) -> None:
        """Which nodes are a quorum decides what has to happen where a log or process groups settle. Raises Malformed
        where run.json does not say."""
        if (self.log.rows or self.isis.rows) and self.run.settled:
            try:
                quorum_of(self.run)
            except Malformed as error:
                raise Malformed(f"{where}: {error}") from None

    def name_index(self, name: str) -> int:
        index = self._name_index.get(name)
        if index is None:
            index = self._name_index[name] = len(self.names)
            self.names.append(name)
        return index

    def _conf(self, conf: str) -> int:
        index = self._conf_index.get(conf)
        if index is None:
            index = self._conf_index[conf] = len(self.confs)
            self.confs.append(Configuration(conf))
        return index

    def _message(self, msg: str) -> int:
        index = self._msg_index.get(msg)
        if index is None:
            index = self._msg_index[msg] = len(self.messages)
            self.messages.append(msg)
            self.sent.append(NONE)
            self.msg_service.append(NONE)
        return index

    def _add_node(self, node: int, rows: Iterable[Row]) -> None:
        self.first[node] = len(self.node)
        numbers = self.numbers[node]
        highest = ended = 0  # incarnations; they are 1 at least
        for row in rows:
            numbers.append(row.n)
            inc = row.inc
            if row.layer == "evs":
                if inc < highest:
                    self.outlived[len(self.node)] = highest
                else:
                    highest = inc
                    if row.kind in ("fail", "stop"):
                        ended = inc
                if "/" not in row.node:  # the end of an incarnation is in both files of a site of domains
                    self._add(node, row)
                continue
            if inc < highest or inc == ended:
                self._stray(row, highest)
            else:
                highest = inc
            if row.kind == "establish":
                self._establish(node, row)
            elif row.layer == "vs":
                self.processes.add(node, row)
            elif row.layer == "isis":
                self.isis.add(node, row)
            if row.layer == "corel":
                self.log.add(node, row)
            elif row.layer == "wide" and row.kind in ("fail", "stop"):
                ended = inc
        self.rows += len(numbers)
        self.first[node + 1] = len(self.node)

    def _add_remote(self, name: str, rows: Iterable[Row]) -> None:
        """A follower or an outpost of the log: it has no part in configurations."""
        found = self.remotes[name] = list(rows)
        self.rows += len(found)
        highest = 0
        for row in found:
            if row.inc < highest:
                self._stray(row, highest)
            highest = max(highest, row.inc)

    def _stray(self, row: Row, highest: int) -> None:
        what = f"{row.node}#{row.n} {row.layer} {row.kind}"
        why = f"of incarnation {row.inc}, after {highest} began"
        if row.inc == highest:
            why = f"after incarnation {row.inc} failed or stopped"
        self.strays.append(Stray(row.node, row.n, f"{what}: {why}"))

    def _add(self, node: int, row: Row) -> None:
        event = len(self.node)
        kind = row.kind
        msg = service = sender = stamp = NONE
        conf = self._conf(cast(str, row.conf))
        if kind == "deliver":
            code = DELIVER
            msg = self._message(cast(str, row.msg))
            service = SERVICES[cast(str, row.service)]
            sender = self.name_index(cast(str, row.sender))
            if row.ts is not UNSET and service >= AGREED:
                stamp = self._timestamp(tuple(row.ts))
        elif kind == "send":
            code = SEND
            msg = self._message(cast(str, row.msg))
            service = SERVICES[cast(str, row.service)]
            self.sends.append(event)
            if self.sent[msg] == NONE:
                self.sent[msg] = event
                self.msg_service[msg] = service
        elif kind == "conf":
            code = self._declare(event, conf, row)
            self.processes.begin(node, row.inc)
            self.isis.begin(node, row.inc)
            if code == CONF:
                self.log.move(node, row, cast(str, row.conf))
        else:
            code = FAIL
            self.processes.fail(node, row.inc)
            self.isis.fail(node, row.inc)
            self.log.move(node, row, "")
        self.node.append(node)
        self.n.append(row.n)
        self.inc.append(row.inc)
        self.kind.append(code)
        self.conf.append(conf)
        self.msg.append(msg)
        self.service.append(service)
        self.sender.append(sender)
        self.ts.append(stamp)

    def _timestamp(self, ts: tuple[int, ...]) -> int:
        index = self._ts_index.get(ts)
        if index is None:
            index = self._ts_index[ts] = len(self._ts_index)
        return index

    def _declare(self, event: int, conf: int, row: Row) -> int:
        kind = cast(str, row.conf_kind)
        members = tuple(sorted({self.name_index(name) for name in cast("list[str]", row.members)}))
        reg = NONE if row.reg is UNSET or kind != "transitional" else self._conf(row.reg)
        self.declared[event] = Declared(kind, members, reg)
        known = self.confs[conf]
        if kind == "hidden":
            known.hidden.append(event)
            if known.kind == "unknown":
                known.kind, known.members = "hidden", members
            return HIDDEN
        if not known.entered:
            known.kind, known.members, known.reg = kind, members, reg
        known.entered.append(event)
        return CONF

    def _establish(self, node: int, row: Row) -> None:
        members = tuple(sorted(cast("list[str]", row.members)))
        self.established.append(Established(node, row.n, cast(int, row.primary), cast(str, row.conf), members))

    # -- indexing ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._rank_timestamps()
        self.root = [
            conf.reg if conf.kind == "transitional" and conf.reg != NONE else index
            for index, conf in enumerate(self.confs)
        ]
        down = {self._name_index[name] for name in self.run.down if name in self._name_index}
        self.stays = [self._stays_of(node, node in down) for node in range(self.nodes)]
        self._index_deliveries()
        self.processes.finish(down)
        self.log.finish()
        if self.isis.rows:
            self.isis.finish(down, standing_sites(self.run, self._name_index, down), self.run.settled)

    def _rank_timestamps(self) -> None:
        self.timestamps = sorted(self._ts_index)
        rank = [0] * len(self.timestamps)
        for place, ts in enumerate(self.timestamps):
            rank[self._ts_index[ts]] = place
        rank.append(NONE)  # so that NONE, which is the last index, stays NONE
        self.ts = [rank[stamp] for stamp in self.ts]
        self._ts_index.clear()

    def _stays_of(self, node: int, down: bool) -> list[Stay]:
        stays: list[Stay] = []
        current: Stay | None = None
        for event in range(self.first[node], self.first[node + 1]):
            kind = self.kind[event]
            if kind in (SEND, DELIVER, HIDDEN):
                continue
            inc = self.inc[event]
            if current is not None:
                current.end = event
                # A new incarnation without a fail before it: the old one can't have lived on.
                failed = kind == FAIL or inc != current.inc
                current.left = "fail" if failed else "conf"
                if not failed:
                    current.next = self.conf[event]
                current = None
            if kind == CONF:
                current = Stay(node, inc, self.conf[event], event)
                stays.append(current)
        if current is not None:
            current.end = self.first[node + 1]
            current.left = "fail" if down else "end"
        return stays

    def _index_deliveries(self) -> None:
        kind, msg, conf, root = self.kind, self.msg, self.conf, self.root
        for node in range(self.nodes):
            by_conf: dict[int, set[int]] = {}
            for event in range(self.first[node], self.first[node + 1]):
                if kind[event] != DELIVER:
                    continue
                message = msg[event]
                here = by_conf.get(conf[event])
                if here is None:
                    here = by_conf[conf[event]] = set()
                here.add(message)
                if self.msg_service[message] == NONE:
                    self.msg_service[message] = self.service[event]
            by_root: dict[int, set[int]] = {}
            for where, messages in by_conf.items():
                by_root.setdefault(root[where], set()).update(messages)
            self.delivered_conf.append(by_conf)
            self.delivered_root.append(by_root)

    # -- asking -----------------------------------------------------------------------------------------------

    def has(self, layer: str) -> bool:
        """Is there anything to check in this layer? In `evs` there always is."""
        if self.wide is not None or layer == "wide":
            return self.wide is not None and layer == "wide"
        match layer:
            case "corel":
                return self.log.rows > 0 or any(self.remotes.values())
            case "vs":
                return bool(self.processes.kind)
            case "isis":
                return self.isis.rows > 0
        return True

    def once(self, work: "Callable[[History], T]") -> T:
        """What `work` makes of this history: worked out when a check first asks, and kept for the others."""
        if work not in self._worked_out:
            self._worked_out[work] = work(self)
        result: T = self._worked_out[work]
        return result

    def messages_of(self, node: int, regular: int) -> set[int]:
        """What the node delivered in this regular configuration or in the transitional one that follows it."""
        if node >= self.nodes:
            return set()
        return self.delivered_root[node].get(regular, set())

    def messages_in(self, node: int, conf: int) -> set[int]:
        """What the node delivered in exactly this configuration."""
        if node >= self.nodes:
            return set()
        return self.delivered_conf[node].get(conf, set())

    def last_stay(self, node: int) -> Stay | None:
        if node >= self.nodes or not self.stays[node]:
            return None
        return self.stays[node][-1]

    def enters(self, node: int, conf: int) -> bool:
        """Is there a deliver_conf of this configuration at this node?"""
        return any(self.node[event] == node for event in self.confs[conf].entered)

    def name_of(self, node: int) -> str:
        return self.names[node]

    def conf_id(self, conf: int) -> str:
        return self.confs[conf].id if conf != NONE else "none"

    def describe(self, event: int) -> str:
        """An event in a witness: where it is, and what it is."""
        where = f"{self.names[self.node[event]]}#{self.n[event]}"
        kind, conf = self.kind[event], self.conf_id(self.conf[event])
        if kind in (SEND, DELIVER):
            verb = "send" if kind == SEND else "deliver"
            label = _LABELS[self.service[event]]
            return f"{where} {verb} {label} {self.messages[self.msg[event]]} in {conf}"
        if kind == FAIL:
            return f"{where} fail in {conf}"
        return f"{where} {self.declared[event].kind} configuration {conf}"
