"""Replicas above a group communication of a test's own, message by message and sync by sync.

Each configuration has one stream of messages, which is its agreed order, and each member a place in it. Who goes on
together has delivered the same of the old configuration; what they themselves sent beyond that comes in the
transitional one. Nothing is lost, and nothing arrives by itself: `deliver`, `sync` and `turn` do one thing at one
replica, and `run` does all there is to do.
"""

from collections import deque
from collections.abc import Callable, Iterable
from hashlib import sha256

from msgspec import Struct

from reconvene.core.effects import Changed, ConfKind, Delivered, Event
from reconvene.corel.batch import Heading, decode_heading, messages_of
from reconvene.corel.events import LogEvent, Logged
from reconvene.corel.keeping.load import create, exists
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import (
    ACK,
    BASE,
    CLAIMS,
    COMMIT,
    DATA,
    PRIORITY,
    READY,
    RED,
    STATE,
    Ack,
    BaseSent,
    Claims,
    Commit,
    Data,
    Item,
    Priority,
    Ready,
    Reds,
    State,
    decode,
    decode_ack,
    decode_data,
)
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.ids import Service
from reconvene.quorum import Spec
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op

__all__ = ["Conf", "Replicas", "Said"]

Control = State | Claims | BaseSent | Priority | Reds | Ready | Commit
Content = Data | Ack | Control
_FORMS: dict[int, type[Control]] = {
    STATE: State,
    BASE: BaseSent,
    CLAIMS: Claims,
    PRIORITY: Priority,
    RED: Reds,
    READY: Ready,
    COMMIT: Commit,
}
_MOST_ROUNDS = 1_000


class Said(Struct):
    """A message of a configuration, in its place of the stream."""

    sender: str
    service: Service
    payload: bytes
    timestamp: tuple[int, ...]

    @property
    def content(self) -> Content:
        kind = self.payload[0]
        if kind == DATA:
            return decode_data(self.payload)
        return decode_ack(self.payload) if kind == ACK else decode(self.payload, _FORMS[kind])


class Conf:
    """A regular configuration."""

    def __init__(self, number: int, members: tuple[str, ...]) -> None:
        self.number = number
        self.members = members
        self.stream: list[Said] = []
        self.places = dict.fromkeys(members, 0)
        """By member: how much of the stream it has delivered."""

    @property
    def name(self) -> str:
        return str(self.number)


class _Life:
    """One incarnation."""

    def __init__(self, replica: Replica, incarnation: int) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.writes: deque[tuple[int, list[Op]]] = deque()
        self.conf: Conf | None = None


class Replicas:
    def __init__(
        self,
        names: Iterable[str],
        quorum: Spec = MAJORITY,
        limits: LogLimits | None = None,
        replica: type[Replica] = Replica,
    ) -> None:
        self.names = tuple(names)
        self.slow: set[str] = set()
        """Replicas whose syncs wait for `sync`."""
        self.held: set[str] = set()
        """Replicas that deliver by `deliver` only."""
        self.lives: dict[str, _Life] = {}
        self.tables = {name: MemoryTables() for name in self.names}
        self.confs: list[Conf] = []
        self.events: dict[str, list[LogEvent]] = {name: [] for name in self.names}
        """What each replica reported, through all its incarnations."""
        self.on_event: Callable[[str, LogEvent], None] = lambda name, event: None
        self.on_said: Callable[[Said], None] = lambda said: None
        self.on_step: Callable[[], None] = lambda: None
        """Called after each turn."""
        self._quorum = quorum
        self._limits = limits
        self._replica = replica
        self._incarnations = dict.fromkeys(self.names, 0)
        self._now = 0
        for name in self.names:
            self.start(name)

    # -- replicas

    def start(self, name: str) -> None:
        assert name not in self.lives, f"{name} is up"
        tables = self.tables[name]
        if not exists(tables):
            first = ReplicaSet.first(self.names, self._quorum)
            tables.write(create(sha256(name.encode()).digest()[:8], first, admitted=True))
        self._incarnations[name] += 1
        replica = self._replica(name, self.names, self._incarnations[name], tables, self._limits)
        self.lives[name] = _Life(replica, self._incarnations[name])

    def crash(self, name: str) -> None:
        """What was not synced is gone."""
        del self.lives[name]

    def log(self, name: str) -> Replica:
        return self.lives[name].replica

    def append(self, name: str, *texts: str) -> None:
        """Each text is a batch of its own, unless a sync is under way."""
        for text in texts:
            self.log(name).append([text.encode()])
            self.turn(name)

    # -- configurations

    def view(self, *members: str) -> Conf:
        """These continue together. All of them deliver, in the old configuration, what any of them has."""
        conf = Conf(len(self.confs) + 1, tuple(sorted(members)))
        self.confs.append(conf)
        groups: dict[int, list[str]] = {}
        for name in conf.members:
            old = self.lives[name].conf
            groups.setdefault(0 if old is None else old.number, []).append(name)
        for together in groups.values():
            self._leave(together, conf)
        for name in conf.members:
            self.lives[name].conf = conf
            self._take(name, Changed(ConfKind.REGULAR, conf.name, self._ordinals(conf.members)))
        return conf

    def _leave(self, together: list[str], to: Conf) -> None:
        old = self.lives[together[0]].conf
        if old is None:
            return
        reached = max(old.places[name] for name in together)
        own = [said for said in old.stream[reached:] if said.sender in together]
        transitional = Changed(ConfKind.TRANSITIONAL, f"{old.name}+{to.name}", self._ordinals(together), old.name)
        for name in together:
            self.deliver(name, reached - old.places[name])
            self._take(name, transitional)
            for said in own:
                self._take(name, self._delivered(old, said))

    def conf(self, name: str) -> Conf:
        conf = self.lives[name].conf
        assert conf is not None, f"{name} has no configuration yet"
        return conf

    def _ordinals(self, members: Iterable[str]) -> tuple[int, ...]:
        return tuple(sorted(self.names.index(name) for name in members))

    # -- one thing at a time

    def deliver(self, name: str, count: int | None = None) -> None:
        """The next so many messages, or all; each is a turn."""
        conf = self.conf(name)
        end = len(conf.stream) if count is None else conf.places[name] + count
        while conf.places[name] < end:
            said = conf.stream[conf.places[name]]
            conf.places[name] += 1
            self._take(name, self._delivered(conf, said))

    def deliver_until(self, name: str, stop: Callable[[Said], bool]) -> None:
        """Up to the first message of which that holds, which it does not deliver."""
        conf = self.conf(name)
        while conf.places[name] < len(conf.stream) and not stop(conf.stream[conf.places[name]]):
            self.deliver(name, 1)

    def sync(self, name: str, count: int | None = None) -> None:
        """The next so many writes are durable, or all that are under way now."""
        life = self.lives[name]
        for _ in range(len(life.writes) if count is None else count):
            if life.writes:  # a turn that a sync makes may sync the rest
                self._sync_one(life)
                self.turn(name)

    def sync_at_once(self, name: str) -> None:
        """All that are under way, reported in one turn."""
        life = self.lives[name]
        while life.writes:
            self._sync_one(life)
        self.turn(name)

    def _sync_one(self, life: _Life) -> None:
        token, ops = life.writes.popleft()
        self.tables[life.replica.name].write(ops)
        life.replica.synced(token)

    def turn(self, name: str) -> None:
        life = self.lives[name]
        replica = life.replica
        replica.close_batches(self._now)
        while life.conf is not None and self._speak(life, life.conf):
            pass
        effects = replica.flush(self._now)
        if effects.token:
            life.writes.append((effects.token, effects.ops))
        for event in effects.events:
            self.events[name].append(event)
            self.on_event(name, event)
        replica.invariants()
        self.on_step()
        if name not in self.slow:
            self.sync(name)

    def _speak(self, life: _Life, conf: Conf) -> bool:
        replica = life.replica
        replica.settle()
        replica.pump()
        said = len(conf.stream)
        while replica.outgoing:
            self._say(conf, replica.name, *replica.outgoing.popleft())
            replica.pump()
        while (data := replica.next_data()) is not None:
            self._say(conf, replica.name, Service.AGREED, data)
        if (ack := replica.next_ack()) is not None:
            self._say(conf, replica.name, Service.FIFO, ack)
            replica.acknowledged()
        return len(conf.stream) > said

    def _say(self, conf: Conf, sender: str, service: Service, payload: bytes) -> None:
        said = Said(sender, service, payload, (conf.number, len(conf.stream)))
        conf.stream.append(said)
        self.on_said(said)

    def _take(self, name: str, event: Event) -> None:
        self.log(name).take([event])
        self.turn(name)

    def _delivered(self, conf: Conf, said: Said) -> Delivered:
        stamp = said.timestamp if said.service is Service.AGREED else None
        return Delivered(conf.name, self.names.index(said.sender), 1, said.service, 1, [said.payload], stamp)

    # -- all there is to do

    def run(self, *names: str) -> None:
        """At these replicas, or all: until nothing is left to deliver or to sync."""
        for _ in range(_MOST_ROUNDS):
            busy = False
            for name in names or self.names:
                life = self.lives.get(name)
                if life is None:
                    continue
                if life.writes and name not in self.slow:
                    self.sync(name)
                    busy = True
                conf = life.conf
                if name not in self.held and conf is not None and conf.places[name] < len(conf.stream):
                    self.deliver(name, 1)
                    busy = True
            if not busy:
                return
        raise AssertionError("they do not come to rest")

    # -- what they hold and say

    def text(self, name: str, heading: Heading) -> str:
        return " ".join(message.decode() for message in messages_of(self.log(name).body(heading)))

    def green(self, name: str) -> list[str]:
        replica = self.log(name)
        return [self.text(name, heading) for _, heading in replica.read(replica.base)]

    def yellow(self, name: str) -> list[str]:
        return [self.text(name, entry.heading) for entry in self.log(name).queue.yellow]

    def red(self, name: str) -> list[str]:
        return [self.text(name, entry.heading) for entry in self.log(name).queue.red]

    def accepted(self, name: str) -> list[str]:
        return [self.text(name, waiting.heading) for waiting in self.log(name).queue.accepted]

    def queue(self, name: str) -> str:
        """Green | yellow | red: `1 2 | 3 | x`."""
        return " | ".join(" ".join(part) for part in (self.green(name), self.yellow(name), self.red(name)))

    def said(self, conf: Conf, kind: type[Content]) -> list[tuple[str, Content]]:
        """(sender, message), in the agreed order."""
        return [(said.sender, said.content) for said in conf.stream if isinstance(said.content, kind)]

    def sent_again(self, conf: Conf, kind: type[Priority] | type[Reds]) -> list[tuple[str, str, bool]]:
        """(sender, text, whether with its body), in the agreed order."""
        found = []
        for said in conf.stream:
            if isinstance(said.content, kind):
                found += [(said.sender, self._text_of(item), item.body is not None) for item in said.content.items]
        return found

    def _text_of(self, item: Item) -> str:
        if item.body is not None:
            return " ".join(message.decode() for message in messages_of(item.body))
        for name in self.lives:
            for event in self.events[name]:
                if isinstance(event, Logged) and event.batch.id == item.id:
                    return self.text(name, event.batch)
        raise AssertionError(f"nobody has {item.id}")

    def texts_said(self, conf: Conf) -> list[str]:
        """Of DATA, in the agreed order."""
        bodies = [said.content.body for said in conf.stream if isinstance(said.content, Data)]
        assert all(decode_heading(body).count for body in bodies)
        return [message.decode() for body in bodies for message in messages_of(body)]
