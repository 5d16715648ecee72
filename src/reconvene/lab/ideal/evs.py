"""An ideal group: makes random correct runs. Tests verify them, or break them first; measurements use them.

Within a configuration, messages are in one list in the order of their sending, and each member has received a prefix
of it; it delivers what the services allow. At a change, the members that move on together share what any of them has
received. There is no network and no protocol: the group knows everything at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from reconvene.trace.events import SCHEMA, Row, Run

__all__ = ["IdealGroup", "busy_run", "random_run"]

FIFO, CAUSAL, AGREED, SAFE = "fifo", "causal", "agreed", "safe"
SERVICES = (FIFO, CAUSAL, AGREED, SAFE)


@dataclass
class Message:
    id: str
    sender: str
    service: str
    index: int
    past: frozenset[int]
    """Indexes of the messages that have to be delivered before it."""
    ts: list[int]


@dataclass
class Conf:
    id: str
    number: int
    members: list[str]
    log: list[Message] = field(default_factory=list)
    received: dict[str, int] = field(default_factory=dict)


@dataclass
class Node:
    name: str
    inc: int = 0
    sent: int = 0
    conf: Conf | None = None
    delivered: set[int] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)


class IdealGroup:
    def __init__(self, names: Sequence[str], seed: int, services: Sequence[str] = SERVICES) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.services = services
        self.nodes = {name: Node(name) for name in sorted(names)}
        self.counter = 0
        self.clock_ns = 0
        self.parts: list[list[str]] = [sorted(names)]
        for name in self.nodes:
            self.restart(name)

    # -- rows

    def _row(self, node: Node, kind: str, conf: str, **fields: object) -> None:
        self.clock_ns += 1000
        node.rows.append(
            Row(
                node=node.name,
                inc=node.inc,
                n=len(node.rows),
                t=self.clock_ns,
                layer="evs",
                kind=kind,
                conf=conf,
                **fields,  # type: ignore[arg-type]
            )
        )

    def _number(self, proposer: str) -> int:
        self.counter += 1
        return (self.counter << 16) | sorted(self.nodes).index(proposer)

    # -- what happens

    def restart(self, name: str) -> None:
        node = self.nodes[name]
        assert node.conf is None
        node.inc += 1
        node.sent = 0
        number = self._number(name)
        self._enter(node, Conf(str(number), number, [name], received={name: 0}))

    def crash(self, name: str, kind: str = "fail") -> None:
        node = self.nodes[name]
        assert node.conf is not None
        self._row(node, kind, node.conf.id)
        node.conf = None

    def _enter(self, node: Node, conf: Conf) -> None:
        node.conf, node.delivered = conf, set()
        self._row(node, "conf", conf.id, conf_kind="regular", members=conf.members)

    def send(self, name: str, service: str) -> None:
        node = self.nodes[name]
        conf = node.conf
        assert conf is not None
        index = len(conf.log)
        if service == FIFO:
            earlier = (m for m in reversed(conf.log) if m.sender == name and m.service == FIFO)
            past = frozenset(m.index for m in [*earlier][:1])
        else:
            seen = (m for m in conf.log if m.index in node.delivered or m.sender == name)
            past = frozenset(m.index for m in seen if m.service != FIFO)
        ts = [conf.number, 0, index, 0] if service in (AGREED, SAFE) else []
        conf.log.append(Message(f"{name}:{node.inc}:{node.sent}", name, service, index, past, ts))
        node.sent += 1
        self._row(node, "send", conf.id, msg=conf.log[-1].id, service=service)

    def step(self, name: str) -> None:
        """The node receives more messages, and delivers what it can, in any allowed order."""
        node = self.nodes[name]
        conf = node.conf
        assert conf is not None
        start = conf.received[name]
        conf.received[name] = self.random.randint(start, len(conf.log))
        while ready := self._ready(node, conf):
            self._deliver(node, conf.id, self.random.choice(ready))
            if self.random.random() < 0.1:
                return

    def _ready(self, node: Node, conf: Conf) -> list[Message]:
        everyone = min(conf.received.values())
        ready: list[Message] = []
        blocked = False
        for message in conf.log[: conf.received[node.name]]:
            if message.index in node.delivered:
                continue
            allowed = message.past <= node.delivered
            if message.service in (AGREED, SAFE):
                allowed = allowed and not blocked and (message.service == AGREED or message.index < everyone)
                blocked = True
            if allowed:
                ready.append(message)
        return ready

    def _deliver(self, node: Node, conf: str, message: Message) -> None:
        node.delivered.add(message.index)
        fields: dict[str, object] = {"msg": message.id, "sender": message.sender, "service": message.service}
        if message.ts:
            fields["ts"] = message.ts
        self._row(node, "deliver", conf, **fields)

    def regroup(self, hide: str | None = None) -> None:
        """The running nodes of each component form a configuration. The node `hide` agrees to it, but does not
        install it, and stays alone."""
        for part in self.parts:
            up = [name for name in part if self.nodes[name].conf is not None]
            if not up:
                continue
            if len({self.nodes[name].conf.id for name in up}) == 1:  # type: ignore[union-attr]
                conf = self.nodes[up[0]].conf
                if conf is not None and conf.members == up:
                    continue
            self._form(up, hide if hide in up and len(up) > 1 else None)

    def _form(self, up: list[str], hide: str | None) -> None:
        number = self._number(up[0])
        new = Conf(str(number), number, up, received=dict.fromkeys(up, 0))
        groups: dict[str, list[str]] = {}
        for name in up:
            groups.setdefault(self.nodes[name].conf.id, []).append(name)  # type: ignore[union-attr]
        for old_id, group in groups.items():
            old = self.nodes[group[0]].conf
            assert old is not None
            assert old.id == old_id
            shared = max(old.received[name] for name in group)
            # Its sender has it.
            shared = max([shared, *(m.index + 1 for m in old.log if m.sender in group)])
            everyone = min(old.received.values())
            for name in group:
                old.received[name] = shared
            regular = self._regular_part(old, shared, everyone)
            for name in group:
                if name == hide:
                    self._row(self.nodes[name], "conf", new.id, conf_kind="hidden", members=up)
                    number = self._number(name)
                    alone = Conf(str(number), number, [name], received={name: 0})
                    self._go(self.nodes[name], old, alone, [name], regular, shared)
                else:
                    self._go(self.nodes[name], old, new, group, regular, shared)

    def _regular_part(self, old: Conf, shared: int, everyone: int) -> set[int]:
        part: set[int] = set()
        blocked = False
        for message in old.log[:shared]:
            ordered = message.service in (AGREED, SAFE)
            if message.service == SAFE and message.index >= everyone:
                blocked = True
            if not (ordered and blocked) and message.past <= part:
                part.add(message.index)
        return part

    def _go(self, node: Node, old: Conf, new: Conf, group: list[str], regular: set[int], shared: int) -> None:
        left = [message for message in old.log[:shared] if message.index not in node.delivered]
        for message in left:
            if message.index in regular:
                self._deliver(node, old.id, message)
        transitional = f"{old.id}+{new.id}"
        self._row(node, "conf", transitional, conf_kind="transitional", members=group, reg=old.id)
        for message in left:
            if message.index not in regular:
                self._deliver(node, transitional, message)
        self._enter(node, new)

    def settle(self) -> None:
        """No more faults: all nodes start, each component ends in one configuration, and everything is delivered."""
        for name, node in self.nodes.items():
            if node.conf is None:
                self.restart(name)
        self.regroup()
        for node in self.nodes.values():
            assert node.conf is not None
            node.conf.received[node.name] = len(node.conf.log)
        for node in self.nodes.values():
            assert node.conf is not None
            while ready := self._ready(node, node.conf):
                self._deliver(node, node.conf.id, ready[0])

    # -- many messages at once

    def renew(self) -> None:
        """All nodes deliver everything, and move to a new configuration."""
        self._form(list(self.nodes), None)

    def exchange(self, pack: int, service: str) -> None:
        """All nodes send a frame of messages, and all deliver all of them."""
        fresh: list[Message] = []
        for node in self.nodes.values():
            conf = node.conf
            assert conf is not None
            for _ in range(pack):
                index = len(conf.log)
                ts = [conf.number, 0, index // pack, index % pack] if service in (AGREED, SAFE) else []
                message = Message(f"{node.name}:{node.inc}:{node.sent}", node.name, service, index, frozenset(), ts)
                node.sent += 1
                conf.log.append(message)
                fresh.append(message)
                self._row(node, "send", conf.id, msg=message.id, service=service)
        for node in self.nodes.values():
            assert node.conf is not None
            node.conf.received[node.name] = len(node.conf.log)
            for message in fresh:
                self._deliver(node, node.conf.id, message)

    # -- a whole run

    def run(self, steps: int) -> None:
        random = self.random
        for _ in range(steps):
            up = [name for name, node in self.nodes.items() if node.conf is not None]
            draw = random.random()
            if draw < 0.45 and up:
                for _ in range(random.randint(1, 3)):
                    self.send(random.choice(up), random.choice(self.services))
            elif draw < 0.85 and up:
                self.step(random.choice(up))
            elif draw < 0.9 and len(up) > 1:
                self.crash(random.choice(up), random.choice(["fail", "stop"]))
            elif draw < 0.93 and len(up) < len(self.nodes):
                self.restart(random.choice([name for name in self.nodes if name not in up]))
            elif draw < 0.96:
                self.parts = self._split()
            else:
                self.regroup(random.choice(up) if up and random.random() < 0.4 else None)

    def _split(self) -> list[list[str]]:
        parts: dict[int, list[str]] = {}
        for name in self.nodes:
            parts.setdefault(self.random.randint(0, 1), []).append(name)
        return list(parts.values())

    def meta(self, settled: bool) -> Run:
        return Run(
            schema=SCHEMA,
            run=f"ideal-{self.seed}",
            nodes=list(self.nodes),
            stack="evs",
            order="atop",
            seed=self.seed,
            settled=settled,
            components=self.parts if settled else [],
            down=[name for name, node in self.nodes.items() if node.conf is None],
            quorum={"kind": "majority"},
        )

    def rows(self) -> dict[str, list[Row]]:
        return {name: node.rows for name, node in self.nodes.items()}


def random_run(
    seed: int, names: str = "abc", steps: int = 40, settled: bool | None = None
) -> tuple[Run, dict[str, list[Row]]]:
    """A short run with crashes, partitions and hidden configurations."""
    group = IdealGroup(list(names), seed)
    group.regroup()
    group.run(steps)
    settle = group.random.random() < 0.5 if settled is None else settled
    if settle:
        group.settle()
    return group.meta(settle), group.rows()


def busy_run(events: int, nodes: int, change_each: int = 20_000, pack: int = 4) -> tuple[Run, dict[str, list[Row]]]:
    """A long run of about `events` events, to measure the checks: all nodes send frames all the time, and now and
    then all move to a new configuration. It is made in time linear in the events."""
    names = [f"n{index:02}" for index in range(nodes)]
    group = IdealGroup(names, seed=0)
    made = 0
    while made < events:
        group.renew()
        for turn in range(max(1, change_each // (nodes * pack))):
            group.exchange(pack, SERVICES[turn // 7 % 2] if turn % 7 == 0 else (AGREED, SAFE)[turn % 2])
            made += nodes * pack * (nodes + 1)
            if made >= events:
                break
    return group.meta(True), group.rows()
