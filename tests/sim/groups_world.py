"""Process groups on the simulator: sites with a groups layer, and an application that does at random all it can do.

What happened is kept per incarnation of a site and handed to the oracle, which knows nothing of how groups work.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from msgspec.structs import replace

from reconvene.core.effects import Changed, ConfKind, Event
from reconvene.core.groups.events import Arrived, Blocked, GroupEvent, Left, Process, ViewChanged
from reconvene.core.groups.groups import Groups
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service
from reconvene.sim.core import SiteLike
from reconvene.sim.node import Node
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.stack.layer import Layer
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn
from reconvene.trace.events import Row
from reconvene.trace.recorder import Recorder

__all__ = ["Accepted", "GroupSite", "Life", "Told", "World", "run_world"]

MS = 1_000_000
PLAIN = ("fleet", "galley", "harbour")
FILTERED = ("admiralty", "bank")
MIXED = "mixed"
"""Some join it with the filter, some without."""
MOST_PROCESSES = 3
_BETWEEN_ACTS_NS = 11 * MS
"""On average."""


@dataclass(slots=True)
class Told:
    """What one process saw, and the site's configuration after that turn."""

    process: Process
    event: GroupEvent
    members: tuple[int, ...]
    changed: bool
    """The site installed a configuration in that turn."""


@dataclass(slots=True)
class Accepted:
    """A message that a site took."""

    sender: Process
    membership: int
    group: str
    service: Service
    payload: bytes
    to: tuple[Process, ...] | None
    after: int
    """How much the site's processes had seen by then."""


@dataclass(slots=True)
class Life:
    """One incarnation of one site."""

    site: int
    incarnation: int
    groups: Groups
    told: list[Told] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    joined: dict[int, tuple[Process, str, bool]] = field(default_factory=dict)
    """By membership: process, group, with the filter?"""
    left: set[int] = field(default_factory=set)
    """`leave` was called, or its process was closed."""
    open: set[Process] = field(default_factory=set)
    last: dict[int, ViewChanged | Blocked | Left] = field(default_factory=dict)
    """By membership: where it stands, as far as its process has seen."""
    views: dict[int, ViewChanged] = field(default_factory=dict)
    crashed: bool = False


class Watcher(Protocol):
    """Who made the sites, and hears what happens to their processes."""

    def begin(self, life: Life) -> None: ...
    def react(self, site: "GroupSite", events: list[GroupEvent]) -> None: ...


class GroupSite(Stack):
    """Groups as the simulator sees a site; what processes see is kept."""

    def __init__(
        self,
        world: "Watcher",
        options: Options,
        ordinal: int,
        sites: int,
        record: bytes,
        now: int,
        peers: Collection[int] | None = None,
        layers: Sequence[Layer] = (),
    ) -> None:
        site = Site(options, ordinal, sites, record, now, peers)
        super().__init__(site, Groups(site, sites), layers)
        self.life = Life(ordinal, site.incarnation, self.groups)
        self._world = world
        world.begin(self.life)

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        raise AssertionError("everything goes through groups")

    def room(self) -> int:
        return 0

    def withdraw(self) -> int:
        return 0

    def flush(self, now: int, time: int, *, asked: bool = True) -> Turn:
        turn = super().flush(now, time, asked=asked)
        installed = any(isinstance(e, Changed) and e.kind is ConfKind.REGULAR for e in turn.events)
        for process, events in turn.processes:
            for event in events:
                self.life.told.append(Told(process, event, self.members, installed))
                if not isinstance(event, Arrived):
                    self.life.last[event.membership] = event
                if isinstance(event, ViewChanged):
                    self.life.views[event.membership] = event
        if turn.processes:
            self._world.react(self, [event for _, events in turn.processes for event in events])
        return turn


class _NodeRecorder(Recorder):
    silent = False
    """Nobody wants the rows: they cost a fifth of a run."""

    def events(self, t: int, events: Sequence[Event]) -> None:
        if not self.silent:
            super().events(t, events)


class World:
    """One run: chaos from the seed's scenario, and an application on every site."""

    def __init__(self, seed: int, recorded: bool = False, nodes: int | None = None) -> None:
        self.lives: list[Life] = []
        self._recorders: list[_NodeRecorder] = []
        scenario = random_scenario(seed, nodes=nodes or (3, 3, 4, 5)[seed % 4])
        assert scenario.chaos is not None
        duration = 3_000 * MS
        chaos = replace(scenario.chaos, until_ns=duration)
        self.scenario = replace(scenario, loads=(), chaos=chaos, duration_ns=duration, settle_ns=3_500 * MS)
        options = Options(order=scenario.order, return_unsent=True)
        self.runner = Runner(self.scenario, core=self, options=options, check_every=61)
        self.cluster = self.runner.cluster
        for node in self.cluster.nodes:
            recorder = _NodeRecorder(node.name, self.cluster.names, self.cluster.rows[node.name])
            recorder.silent = not recorded
            self._recorders.append(recorder)
            node.join(self.cluster.network, recorder, self.cluster._observed, self.cluster._turned)
        self._random = Random(f"groups/{seed}")
        self._count = 0
        self._next()
        self.cluster.loop.at(duration + 2_700 * MS, self._last_words)

    # -- how sites are made

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return boot(stored, ordinal, token)

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> SiteLike:
        for life in self.lives:
            life.crashed = life.crashed or life.site == ordinal
        return GroupSite(self, options, ordinal, sites, record, now, layers=self.layers(ordinal))

    def layers(self, ordinal: int) -> Sequence[Layer]:
        """Beside the groups, at a site that starts."""
        return ()

    def begin(self, life: Life) -> None:
        self.lives.append(life)
        if not self._recorders[life.site].silent:
            life.groups.record()

    def run(self) -> Result:
        result = self.runner.run()
        for node in self.cluster.nodes:
            if not node.up:
                for life in self.lives:
                    life.crashed = life.crashed or life.site == node.ordinal
        return result

    @property
    def rows(self) -> dict[str, list[Row]]:
        return self.cluster.rows

    # -- the application

    def _next(self) -> None:
        at = self.cluster.now + int(self._random.expovariate(1 / _BETWEEN_ACTS_NS))
        if at < self.scenario.duration_ns:
            self.cluster.loop.at(at, self._act)

    def _act(self, _: None) -> None:
        node = self._random.choice(self.cluster.nodes)
        site = node.site
        if isinstance(site, GroupSite) and not node.paused:
            self._do(node, site)
            node.hand_over(Service.FIFO, ())
        self._next()

    def react(self, site: GroupSite, events: list[GroupEvent]) -> None:
        """Views make processes talk at once; and now and then nobody, or only one other, hears any more of a site
        that has a new view of a group with the filter, not even what it would send in this turn."""
        views = [e for e in events if isinstance(e, ViewChanged) and e.kind is ConfKind.REGULAR]
        if not views or self.cluster.now >= self.scenario.duration_ns:
            return
        random, node = self._random, self.cluster.nodes[site.life.site]
        if random.random() < 0.5:
            self.cluster.loop.at(self.cluster.now + 10_000, self._talk, (site, random.choice(views).membership))
        if random.random() < 0.04 and any(site.life.joined[view.membership][2] for view in views):
            others = [name for name in self.cluster.names if name != node.name]
            with_it = random.sample(others, random.choice((0, 1)))
            self.cluster.partition([[node.name, *with_it], [name for name in others if name not in with_it]])
            self.cluster.loop.at(self.cluster.now + random.randint(20, 1_500) * MS, self._mend)

    def _mend(self, _: None) -> None:
        if self.cluster.now < self.scenario.duration_ns:
            self.cluster.heal()

    def _talk(self, what: tuple[GroupSite, int]) -> None:
        site, number = what
        node = self.cluster.nodes[site.life.site]
        if node.site is site and not node.paused and number not in site.life.left:
            self._send(node, site, number)
            node.hand_over(Service.FIFO, ())

    def _do(self, node: Node, site: GroupSite) -> None:
        random, life = self._random, site.life
        roll = random.random()
        if not life.open or (roll < 0.05 and len(life.open) < MOST_PROCESSES):
            process = site.groups.open()
            life.open.add(process)
            for group in random.sample((*PLAIN, *FILTERED), 3):
                self._join(node, site, process, group)
        elif roll < 0.17:
            self._join(node, site, random.choice(sorted(life.open)), random.choice((*PLAIN, *FILTERED, MIXED)))
        elif roll < 0.22:
            memberships = sorted(set(life.joined) - life.left)
            if memberships:
                number = random.choice(memberships)
                life.left.add(number)
                site.groups.leave(number, node.now)
        elif roll < 0.24:
            process = random.choice(sorted(life.open))
            life.open.discard(process)
            life.left |= {number for number, (owner, _, _) in life.joined.items() if owner == process}
            site.groups.close(process, node.now)
        else:
            memberships = sorted(set(life.joined) - life.left)
            if memberships:
                self._send(node, site, random.choice(memberships))

    def _join(self, node: Node, site: GroupSite, process: Process, group: str) -> None:
        primary = group in FILTERED or (group == MIXED and self._random.random() < 0.5)
        try:
            number = site.groups.join(process, group, primary, node.now)
        except Rejected:
            return  # it is in it already
        site.life.joined[number] = (process, group, primary)

    def _send(self, node: Node, site: GroupSite, number: int) -> None:
        random, life = self._random, site.life
        process, group, primary = life.joined[number]
        service = random.choice((Service.FIFO, *Service))
        to: tuple[Process, ...] | None = None
        if random.random() < 0.15:
            last = life.views.get(number)
            if last is not None:
                to = tuple(random.sample(last.members, random.randint(1, len(last.members))))
        payloads = []
        for _ in range(random.choice((1, 1, 2, 5))):
            self._count += 1
            size = random.choice((0, 0, 0, 50, 12_000 if random.random() < 0.05 else 0))
            payloads.append(b"%d " % self._count + bytes(size))
        blocked = isinstance(life.last.get(number), Blocked)
        over = isinstance(life.last.get(number), Left)
        try:
            taken = site.groups.send(number, service, payloads, to, node.now)
        except Unavailable:
            assert primary, "only the filter blocks"
            assert blocked, "the process sees that it is blocked before a request is refused"
            return
        except Rejected:
            assert over, "refused only when it is over"
            return
        assert not blocked or not taken, "a blocked process can't send"
        for payload in payloads[:taken]:
            life.accepted.append(Accepted(process, number, group, service, payload, to, len(life.told)))

    def _last_words(self, _: None) -> None:
        """When all is calm again every process says one more thing in each of its groups."""
        for node in self.cluster.nodes:
            site = node.site
            if isinstance(site, GroupSite):
                for number in sorted(set(site.life.joined) - site.life.left):
                    self._send(node, site, number)
                node.hand_over(Service.FIFO, ())


def run_world(seed: int, recorded: bool = False) -> tuple[World, Result]:
    """`recorded`: its trace is kept too."""
    world = World(seed, recorded)
    return world, world.run()
