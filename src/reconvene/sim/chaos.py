"""Random faults, each followed by its repair after a random time, so that a run keeps moving.

Given: which kinds of fault, how often on average, and until when.
Promised: what it does follows from its own stream of random numbers and the states that nodes are in; after
`stop` it does nothing more.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log
from random import Random

from reconvene.corel.events import LogEvent
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Changes
from reconvene.sim.list_operator import ListOperator
from reconvene.sim.node import Node
from reconvene.sim.remote import Remote
from reconvene.sim.scenario import ChaosPlan
from reconvene.sim.wide_process import WideProcess
from reconvene.sim.wide_world import WideWorld

__all__ = ["Chaos"]

MS = 1_000_000
_SHORTEST_NS = 10 * MS
_LONGEST_NS = 4_000 * MS
"""How long a fault lasts: from what no site notices to what every site has long reacted to."""

_SOON_NS = 5 * MS
"""Within it a fault strikes that waited for a step, if not at its beginning."""
_MOST_TRAPS = 8
_FEW_SITES = 3
"""With fewer than that in the list, sites are added and not removed, while there are any."""

_LONG_STEPS = ("down", "operational", "gathering")
"""Steps that faults find by themselves."""
_SHRUNK = 4
"""So many times as long as other faults a component stays divided, so that its parts are divided in turn."""
_IN_PRIMARY = ("log: primary", "log: establish")
_CHANGE = "log: change"
"""No step of a node: a change of the log's replicas is green there, and nowhere else so far."""
_RARE_STEP = "recovering: exchange"
"""Only where frames were lost, or a partition came between them."""


class Chaos:
    def __init__(
        self, cluster: Cluster | WideWorld, plan: ChaosPlan, random: Random, lists: ListOperator | None = None
    ) -> None:
        """`lists`: where the list of sites changes."""
        self._cluster = cluster
        self._plan = plan
        self._random = random
        self._stopped = False
        self._partitions = 0
        self._ambush: str | None = None
        """A kind of fault that waits for a node to enter a short step …"""
        self._victim: str | None = None
        """… and the node that did."""
        self._traps: list[tuple[str, str]] = []
        """Kinds of fault, and the step that each waits for; the oldest give way to new ones."""
        self._standing = list(plan.standing)
        """The same, each until it has struck."""
        self._faults: dict[str, Callable[[], None]] = {
            "partition": self._partition,
            "crash": self._crash,
            "cut": self._cut,
            "pause": self._pause,
            "loss": self._loss,
            "duplicate": self._duplicate,
            "reorder": self._reorder,
            "delay": self._delay,
            "clock": self._clock,
            "disk": self._disk,
            "full": self._full,
            "sync": self._sync,
            "kill": self._kill,
            "gateway": self._gateway,
            "split": self._split,
            "sites": self._sites,
        }
        self._lists = lists
        self._newest: tuple[int, int] = (0, 0)
        """The age of the newest set of the log's replicas that is green anywhere."""
        if plan.ambush:
            cluster.on_step(self._sprung if plan.ambush_steps else self._stepped)
        if _CHANGE in plan.ambush_steps:
            cluster.on_log(self._watch_changes)
        self._next(plan.from_ns)

    def stop(self) -> None:
        self._stopped = True

    def _next(self, after_ns: int) -> None:
        at = after_ns + int(self._random.expovariate(1 / self._plan.mean_gap_ns))
        if at < self._plan.until_ns:
            self._cluster.loop.at(at, self._strike)

    def _strike(self, _: None) -> None:
        if self._stopped:
            return
        kind = self._random.choice(self._plan.faults)
        if self._plan.ambush and self._random.random() < self._plan.ambush:
            self._lie_in_wait(kind)
        else:
            self._faults[kind]()
        self._next(self._cluster.now)

    def _lie_in_wait(self, kind: str) -> None:
        steps = self._plan.ambush_steps
        if steps:
            self._traps = [*self._traps[1 - _MOST_TRAPS :], (kind, self._random.choice(steps))]
        else:
            self._ambush = kind

    def _sprung(self, node: Node | WideProcess, before: str, now: str) -> None:
        if self._stopped or self._cluster.now < self._plan.from_ns:
            return
        traps = self._standing if any(step == now for _, step in self._standing) else self._traps
        kind = next((kind for kind, step in traps if step == now), None)
        if kind is None or (not now.endswith(_RARE_STEP) and self._random.random() < 0.5):
            return  # not always the first that comes
        traps.remove((kind, now))
        if traps is self._standing or self._random.random() < 0.7:
            self._strike_at(kind, node.name)
        else:
            at = self._cluster.now + self._random.randrange(_SOON_NS)
            self._cluster.loop.at(at, lambda _: None if self._stopped else self._strike_at(kind, node.name))

    def _watch_changes(self, node: Node, events: list[LogEvent]) -> None:
        if node.log is not None and node.log.replica.replicas.age > self._newest:
            self._newest = node.log.replica.replicas.age
            self._sprung(node, node.step, _CHANGE)

    def _strike_at(self, kind: str, victim: str) -> None:
        self._victim = victim
        self._faults[kind]()
        self._victim = None

    def _stepped(self, node: Node | WideProcess, before: str, now: str) -> None:
        # Steps that last for a millisecond are hardly ever met by a fault that comes at a random time.
        if self._stopped or self._ambush is None or now in _LONG_STEPS:
            return
        if now != _RARE_STEP and self._random.random() < 0.6:
            return
        kind, self._ambush = self._ambush, None
        self._strike_at(kind, node.name)

    def _choose(self, names: Sequence[str]) -> str:
        victim = self._victim
        return victim if victim is not None and victim in names else self._random.choice(names)

    def _later(self, repair: Callable[[], None], times: int = 1) -> None:
        self._cluster.loop.at(self._cluster.now + times * self._some_time(), self._repair, repair)

    def _repair(self, repair: Callable[[], None]) -> None:
        if not self._stopped:
            repair()

    def _some_time(self) -> int:
        # Evenly over the orders of magnitude: short and long faults find different steps of the protocol.
        return int(exp(self._random.uniform(log(_SHORTEST_NS), log(_LONGEST_NS))))

    # -- connectivity ------------------------------------------------------------------------------------

    def _partition(self) -> None:
        names = list(self._cluster.everyone)
        if len(names) < 2:
            return
        if self._plan.shrink and self._random.random() < self._plan.shrink and self._shrink():
            return
        self._random.shuffle(names)
        pieces = self._random.choice((2, 2, 2, 3, len(names)))
        borders = sorted(self._random.sample(range(1, len(names)), min(pieces, len(names)) - 1))
        edges = [0, *borders, len(names)]
        self._cluster.partition([names[one:two] for one, two in pairwise(edges)])
        self._heal_later()

    def _shrink(self) -> bool:
        """One component is divided in two. The others may join those that are put off, as if it were these that had
        gone over to them. Returns whether there was one to divide."""
        components = [sorted(component) for component in self._cluster.components() if len(component) > 1]
        primary = [node.name for node in self._cluster.nodes if node.step in _IN_PRIMARY]
        name = self._choose(primary or self._cluster.names)
        divided = next((component for component in components if name in component), None)
        if divided is None:
            return False
        names = self._random.sample(divided, len(divided))
        cut = self._random.randint(1, len(names) - 1)
        stay, leave = names[:cut], names[cut:]
        others = [component for component in self._cluster.components() if name not in component]
        if self._random.random() < 0.6:
            self._cluster.partition([stay, [*leave, *(name for component in others for name in component)]])
        else:
            self._cluster.partition([stay, leave, *others])
        self._heal_later(_SHRUNK)
        return True

    def _heal_later(self, times: int = 1) -> None:
        self._partitions += 1
        mine = self._partitions
        self._later(lambda: self._heal(mine), times)

    def _heal(self, partition: int) -> None:
        # A later partition has replaced this one, and has its own repair.
        if partition == self._partitions:
            self._cluster.heal()

    def _cut(self) -> None:
        pairs = self._some_pairs()
        for one, other in pairs:
            self._cluster.cut(one, other)
        self._later(lambda: self._mend(pairs))

    def _mend(self, pairs: list[tuple[str, str]]) -> None:
        for one, other in pairs:
            self._cluster.mend(one, other)

    # -- processes ---------------------------------------------------------------------------------------

    def _crash(self) -> None:
        names = [node.name for node in self._cluster.members if node.up]
        if not names:
            return
        if self._random.random() < 0.03:
            for name in names:
                self._crash_one(name)
            return
        self._crash_one(self._choose(self._representatives() or names))

    def _representatives(self) -> list[str]:
        """In a third of the cases: a crash does the most harm at the site that proposes configurations."""
        if self._random.random() > 1 / 3:
            return []
        sites = [(node, node.site) for node in self._cluster.nodes]
        return [node.name for node, site in sites if site is not None and site.members[0] == node.ordinal]

    def _crash_one(self, name: str, kind: str = "crash") -> None:
        node = self._cluster.member(name)
        if not node.paused and self._random.random() < 0.3:
            self._cluster.doom(name, self._random.randrange(2 * len(self._cluster.everyone)), kind)
        else:
            self._cluster.crash(name, kind)
        self._later(lambda: self._restart(node))

    def _restart(self, node: Node | Remote | WideProcess) -> None:
        if node.doomed:
            self._later(lambda: self._restart(node))  # it has not come to sending yet
        elif self._cluster.may_start(node.name):
            self._cluster.restart(node.name)

    def _pause(self) -> None:
        names = [node.name for node in self._cluster.members if node.up and not node.paused]
        if names:
            node = self._cluster.member(self._choose(names))
            self._cluster.pause(node.name)
            self._later(lambda: self._resume(node))

    def _resume(self, node: Node | Remote | WideProcess) -> None:
        if node.up and node.paused:
            self._cluster.resume(node.name)

    def _clock(self) -> None:
        self._cluster.jump(self._choose(self._cluster.everyone), self._some_time())

    def _disk(self) -> None:
        self._cluster.stall(self._choose(self._cluster.everyone), self._some_time() // 4)

    def _full(self) -> None:
        self._cluster.refuse(self._choose(self._cluster.everyone), self._some_time() // 4)

    def _sync(self) -> None:
        names = [node.name for node in self._cluster.members if node.up and not node.paused and not node.doomed]
        if names:
            node = self._cluster.member(self._choose(names))
            self._cluster.doom_sync(node.name, completes=self._random.random() < 0.5)
            self._later(lambda: self._restart(node))

    def _sites(self) -> None:
        """A site is added to the list or removed from it, for good."""
        lists, random = self._lists, self._random
        if lists is None:
            return
        listed = sorted(lists.listed)
        if lists.names and (len(listed) < _FEW_SITES or random.random() < 0.5):
            name = random.choice(lists.names)
            self._cluster.record_fault("sites", [name])
            lists.add(name)
        elif len(listed) > 1:
            name = self._choose(listed)
            self._cluster.record_fault("sites", [name])
            lists.remove(name)

    def _kill(self) -> None:
        """A process that dies comes back when its node restarts."""
        living = {
            node.name: node.processes.living
            for node in self._cluster.nodes
            if node.up and not node.paused and node.processes is not None and node.processes.living
        }
        if living:
            self._cluster.kill(self._random.choice(living[self._choose(list(living))]))

    # -- several clusters --------------------------------------------------------------------------------

    def _gateway(self) -> None:
        """The representative of a cluster crashes, or it gives way to a standby; now and then both its gateways."""
        world = self._cluster
        assert isinstance(world, WideWorld), "there are several clusters"
        plan = self._random.choice(world.plans)
        gateways = [f"{plan.name}/{gateway}" for gateway in plan.gateways]
        name = world.representative(plan.name) or self._random.choice(gateways)
        if self._victim is not None and world.member(self._victim).upper is not None:
            name, gateways = self._victim, [self._victim]
        domain = world.member(name).domain
        if name == world.representative(domain) and self._random.random() < 0.3:
            world.hand_over(domain)
            return
        for each in [name] if self._random.random() < 0.8 else gateways:
            if world.member(each).up:
                self._crash_one(each, "gateway")

    def _split(self) -> None:
        world = self._cluster
        assert isinstance(world, WideWorld), "there are several clusters"
        names = [plan.name for plan in world.plans]
        if len(names) < 2:
            return
        if self._random.random() < 0.4:
            # Gateways of one cluster in different components above, while the cluster is whole.
            names = [f"{plan.name}/{gateway}" for plan in world.plans for gateway in plan.gateways]
        self._random.shuffle(names)
        cut = self._random.randint(1, len(names) - 1)
        world.split([names[:cut], names[cut:]])
        self._heal_later()

    # -- conditions --------------------------------------------------------------------------------------

    def _loss(self) -> None:
        self._worsen("loss", Changes(loss=self._random.choice((0.05, 0.2, 0.5, 0.9))))

    def _duplicate(self) -> None:
        self._worsen("duplicate", Changes(duplicate=self._random.choice((0.1, 0.5, 1.0))))

    def _reorder(self) -> None:
        self._worsen("reorder", Changes(reorder=self._random.choice((0.1, 0.5, 0.9))))

    def _delay(self) -> None:
        latency_ns = self._some_time() // 8
        self._worsen("delay", Changes(latency_ns=latency_ns, jitter_ns=latency_ns))

    def _worsen(self, kind: str, changes: Changes) -> None:
        pairs = None if self._random.random() < 0.5 else self._some_pairs()
        self._later(self._cluster.worsen(kind, changes, pairs))

    def _some_pairs(self) -> list[tuple[str, str]]:
        """One directed pair, or all that one node says, or all that it hears."""
        one = self._choose(self._cluster.everyone)
        others = [name for name in self._cluster.everyone if name != one]
        if not others:
            return []
        match self._random.randrange(3):
            case 0:
                return [(one, self._random.choice(others))]
            case 1:
                return [(one, other) for other in others]
            case _:
                return [(other, one) for other in others]
