"""What the ideal domains are made of: levels whose rows are numbered with those of layer `wide`, sites, and parts."""

from dataclasses import dataclass, field

from reconvene.lab.ideal.evs import AGREED, SAFE, Conf, IdealGroup, Node
from reconvene.trace.events import Row

__all__ = ["Crossing", "Item", "Level", "Message", "Part", "Site"]


class Level(IdealGroup):
    """A level whose rows are numbered together with those of the layer `wide`."""

    def __init__(self, names: list[str], seed: int) -> None:
        self.counts = dict.fromkeys(names, 0)
        super().__init__(names, seed)

    def next_number(self, name: str) -> int:
        self.counts[name] += 1
        return self.counts[name]

    def _row(self, node: Node, kind: str, conf: str, **fields: object) -> None:
        super()._row(node, kind, conf, **fields)
        node.rows[-1].n = self.next_number(node.name)

    def conf_of(self, name: str) -> Conf:
        conf = self.nodes[name].conf
        assert conf is not None
        return conf

    def cast(self, name: str, service: str, flush: bool = True) -> str:
        """The node sends a message, and all get everything that was sent. Returns its id."""
        self.send(name, service)
        conf = self.conf_of(name)
        if flush:
            self.flush(conf)
        return conf.log[-1].id

    def form_again(self, conf: Conf) -> None:
        """Its nodes that are up form another configuration."""
        self._form([name for name in conf.members if self.nodes[name].conf is conf], None)

    def flush(self, conf: Conf) -> None:
        there = [node for node in self.nodes.values() if node.conf is conf]
        if len(there) < len(conf.members):
            return  # someone failed: it shows at the next change
        conf.received = dict.fromkeys(conf.members, len(conf.log))
        for node in there:
            while ready := self._ready(node, conf):
                self._deliver(node, conf.id, self.random.choice(ready))


@dataclass
class Message:
    id: str
    life: tuple[str, int]
    service: str
    group: str
    scope: str
    past: frozenset[str]
    """All that precedes it, whatever the configuration; of a fifo one, its sender's earlier fifo ones."""
    held: bool
    """Is it delivered at home only when it comes back?"""

    @property
    def domain(self) -> str:
        return self.life[0].partition("/")[0]

    @property
    def is_ordered(self) -> bool:
        return self.service in (AGREED, SAFE)


@dataclass
class Crossing:
    conf: str
    pos: int
    cross: str
    """The CROSS, in the cluster's trace."""
    messages: list[Message]


@dataclass
class Item:
    """What a site of a part sees: a message or a wide configuration."""

    place: list[int]
    message: Message | None = None
    conf: Row | None = None
    """The upper configuration that begins."""
    index: int = -1
    """Its index in what the representative's gateway saw; -1: it came from the cluster itself."""

    @property
    def is_ordered(self) -> bool:
        return self.message is None or self.message.is_ordered or self.message.held


@dataclass
class Site:
    name: str
    domain: str
    inc: int = 1
    conf: str = ""
    kind: str = ""
    root: str = ""
    taken: set[int] = field(default_factory=set)
    """Items of its part's log that it has taken."""
    index: int = 0
    """What it needs of what the gateway saw begins here, …"""
    stand: tuple[str, list[int]] = ("", [])
    """… after this place of this upper configuration."""
    got: set[str] = field(default_factory=set)
    skip: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    fifo: set[str] = field(default_factory=set)
    sent: int = 0
    held: list[Message] = field(default_factory=list)
    """Its own that it delivers when they come back."""
    rows: list[Row] = field(default_factory=list)
    part: "Part | None" = None

    @property
    def node(self) -> str:
        return f"{self.domain}/{self.name}"


@dataclass
class Part:
    domain: str
    conf: str
    members: list[str]
    rep: str | None = None
    term: int = 0
    log: list[Item] = field(default_factory=list)
    pointer: int = 0
    """How much of what the gateway saw was brought in."""
    turn: str = ""
    """The upper configuration of that, and …"""
    line: list[int] = field(default_factory=list)
    """… the last place."""
    crosses: int = 0
    outgoing: list[Message] = field(default_factory=list)
    unconfirmed: list[Crossing] = field(default_factory=list)
