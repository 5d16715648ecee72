"""What passed between domains in one run: the events of layer `wide` in columns, and the levels below and above.

An event of layer `wide` that is about a configuration, a message or a failure is a number: nodes (DOMAIN/SITE) by
their sorted names, then by place in the node's file. The other rows (`rep`, `cross`, `in`, `view`, `lost`) are kept
as they are. A *life* is one incarnation of one node. The *root* of a wide configuration is itself, or the regular one
that it follows.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from msgspec import UNSET

from reconvene.trace.domains import Domains, Tree
from reconvene.trace.events import Row, Run
from reconvene.verify.codes import AGREED, CONF, DELIVER, FAIL, NONE, SEND, SERVICES
from reconvene.verify.history import History

__all__ = ["Entry", "Life", "Message", "Place", "WideHistory"]

Place = tuple[int, ...]
Life = tuple[int, int]
"""Node and incarnation."""

T = TypeVar("T")


@dataclass(slots=True)
class Entry:
    """A node's time in one wide configuration."""

    node: int
    inc: int
    conf: int
    place: Place
    begin: int
    left: str = "end"
    """conf: for another configuration; fail: by failing or stopping; end: the file ends before it did."""
    next: int = NONE
    """The configuration that it was left for."""
    delivered: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Message:
    """A message as its lowest sending describes it."""

    id: str
    sent: int = NONE
    node: int = NONE
    """Its sender; where no sending is known, as its lowest delivery says."""
    inc: int = NONE
    service: int = NONE
    group: str = ""
    is_wide: bool = True
    conf: int = NONE
    """The wide configuration of its sending."""
    ordered: bool | None = None
    """Whether it has a place, once that was asked for."""
    places: dict[int, Place] = field(default_factory=dict)
    """By root: the ts of its lowest delivery there that has one."""


@dataclass(slots=True)
class Configuration:
    id: str
    kind: str = "unknown"
    root: int = NONE
    entered: list[int] = field(default_factory=list)


class WideHistory:
    """One run of domains. Built from rows in memory, of which each has the fields that its kind requires."""

    def __init__(
        self, domains: Domains, levels: Mapping[str, History], run: Run, rows: Mapping[str, Iterable[Row]]
    ) -> None:
        self.domains = domains
        self.tree = Tree(domains.domains)
        self.levels = levels
        self.names = sorted(run.nodes)
        self.nodes = len(self.names)
        self.home: list[str] = []
        """Of each node, its domain; and …"""
        self.site: list[str] = []
        """… its name there."""
        for name in self.names:
            domain, _, site = name.partition("/")
            self.home.append(domain)
            self.site.append(site)
        self._name_index = {name: index for index, name in enumerate(self.names)}
        self.first = [0] * (self.nodes + 1)
        self.node: list[int] = []
        self.rows: list[Row] = []
        self.kind: list[int] = []
        self.conf: list[int] = []
        self.msg: list[int] = []
        self.entry_of: list[Entry | None] = []
        """Of each event, where its node was, by its file."""
        self.messages: list[str] = []
        self.told: list[Message] = []
        self.sent: list[int] = []
        self.msg_service: list[int] = []
        self._msg_index: dict[str, int] = {}
        self.confs: list[Configuration] = []
        self._conf_index: dict[str, int] = {}
        self.entries: list[list[Entry]] = [[] for _ in self.names]
        self.others: dict[str, list[tuple[int, Row]]] = {}
        """By kind, the rows that are no events: node and row, lowest first."""
        self.got: dict[Life, dict[int, int]] = {}
        """Of each life, the messages that it delivered, and the first event of that."""
        self.down = {self._name_index[name] for name in domains.down if name in self._name_index}
        self.starts: dict[int, Place] = {}
        """Of each root, the lowest place at which a node entered it."""
        self._places: list[tuple[Place, int]] = []
        self._worked_out: dict[Callable[[WideHistory], Any], Any] = {}
        for node, name in enumerate(self.names):
            self._add_node(node, rows.get(name, ()))
        self._finish()

    # -- building

    def _conf(self, conf: str) -> int:
        index = self._conf_index.get(conf)
        if index is None:
            index = self._conf_index[conf] = len(self.confs)
            self.confs.append(Configuration(conf, root=index))
        return index

    def _message(self, msg: str) -> int:
        index = self._msg_index.get(msg)
        if index is None:
            index = self._msg_index[msg] = len(self.messages)
            self.messages.append(msg)
            self.told.append(Message(msg))
            self.sent.append(NONE)
            self.msg_service.append(NONE)
        return index

    def _add_node(self, node: int, rows: Iterable[Row]) -> None:
        self.first[node] = len(self.node)
        current: Entry | None = None
        for row in rows:
            kind = row.kind
            if kind not in ("conf", "send", "deliver", "fail", "stop"):
                self.others.setdefault(kind, []).append((node, row))
                continue
            if current is not None and row.inc != current.inc:
                current.left, current = "fail", None
            event = len(self.node)
            conf = NONE if row.conf is UNSET else self._conf(row.conf)
            message = NONE if row.msg is UNSET else self._message(row.msg)
            code = {"conf": CONF, "send": SEND, "deliver": DELIVER}.get(kind, FAIL)
            if code == CONF:
                entry = self._enter(node, event, conf, row)
                if current is not None:
                    current.left, current.next = "conf", conf
                current = entry
            elif code == FAIL:
                if current is not None:
                    current.left, current = "fail", None
            elif code == SEND:
                self._send(node, event, message, conf, row)
            self.node.append(node)
            self.rows.append(row)
            self.kind.append(code)
            self.conf.append(conf)
            self.msg.append(message)
            self.entry_of.append(current)
        if current is not None and node in self.down:
            current.left = "fail"
        self.first[node + 1] = len(self.node)

    def _enter(self, node: int, event: int, conf: int, row: Row) -> Entry:
        known = self.confs[conf]
        if not known.entered:
            known.kind = cast(str, row.conf_kind)
            if known.kind == "transitional":
                known.root = self._conf(cast(str, row.reg))
        known.entered.append(event)
        entry = Entry(node, row.inc, conf, tuple(cast("list[int]", row.ts)), event)
        self.entries[node].append(entry)
        return entry

    def _send(self, node: int, event: int, message: int, conf: int, row: Row) -> None:
        told = self.told[message]
        if told.sent != NONE:
            return
        told.sent, told.node, told.inc, told.conf = event, node, row.inc, conf
        told.service = self.msg_service[message] = SERVICES[cast(str, row.service)]
        told.group = cast(str, row.group)
        told.is_wide = row.scope != "cluster"
        self.sent[message] = event

    def _finish(self) -> None:
        for event, kind in enumerate(self.kind):
            if kind == DELIVER:
                self._deliver(event)
        for entries in self.entries:
            for entry in entries:
                root = self.confs[entry.conf].root
                if root == entry.conf:
                    self._places.append((entry.place, root))
                if root not in self.starts or entry.place < self.starts[root]:
                    self.starts[root] = entry.place
        self._places.sort()

    def _deliver(self, event: int) -> None:
        row, message = self.rows[event], self.msg[event]
        told = self.told[message]
        if told.service == NONE:
            told.service = self.msg_service[message] = SERVICES[cast(str, row.service)]
            told.group = cast(str, row.group)
            told.node = self._name_index.get(cast(str, row.sender), NONE)
        if row.ts is not UNSET:
            told.places.setdefault(self.root(event), tuple(row.ts))
        self.got.setdefault((self.node[event], row.inc), {}).setdefault(message, event)
        entry = self.entry_of[event]
        if entry is not None and entry.conf == self.conf[event]:
            entry.delivered.add(message)

    # -- asking

    def once(self, work: "Callable[[WideHistory], T]") -> T:
        """What `work` makes of this history: worked out when a check first asks, and kept for the others."""
        if work not in self._worked_out:
            self._worked_out[work] = work(self)
        result: T = self._worked_out[work]
        return result

    def node_index(self, name: str) -> int:
        return self._name_index.get(name, NONE)

    def message_index(self, msg: str) -> int:
        return self._msg_index.get(msg, NONE)

    def root(self, event: int) -> int:
        """The regular configuration of the one that the event names."""
        return self.confs[self.conf[event]].root

    def life(self, event: int) -> Life:
        return self.node[event], self.rows[event].inc

    def ordered(self, message: int) -> bool:
        """Has it a place in the order of its wide configuration? What stays in its cluster has none."""
        told = self.told[message]
        if told.ordered is None:
            told.ordered = told.service >= AGREED and told.is_wide and self._leaves(told)
        return told.ordered

    def _leaves(self, told: Message) -> bool:
        return told.node == NONE or self.tree.lets_out(told.group, self.home[told.node])

    def is_for(self, message: int, domain: str) -> bool:
        """Do its scope and the rules let it pass to this domain?"""
        told = self.told[message]
        if told.node == NONE:
            return False
        origin = self.home[told.node]
        return origin == domain or (told.is_wide and self.tree.passes(told.group, origin, domain))

    def placed_in(self, place: Place) -> int:
        """The regular configuration that was entered last below this place; NONE where that is none, or not one."""
        at = bisect_left(self._places, (place, NONE)) - 1
        if at < 0:
            return NONE
        below, root = self._places[at]
        while at and self._places[at - 1][0] == below:
            at -= 1
            if self._places[at][1] != root:
                return NONE
        return root

    def last_entry(self, node: int) -> Entry | None:
        """The wide configuration that the node is still in at the end."""
        entries = self.entries[node]
        return entries[-1] if entries and entries[-1].left == "end" else None

    def where(self, event: int) -> tuple[str, int]:
        return self.names[self.node[event]], self.rows[event].n

    def describe(self, event: int) -> str:
        row = self.rows[event]
        what = f"{self.names[self.node[event]]}#{row.n} {row.kind}"
        if row.msg is not UNSET:
            what += f" {row.service} {row.msg}"
        return what if row.conf is UNSET else f"{what} in {row.conf}"
