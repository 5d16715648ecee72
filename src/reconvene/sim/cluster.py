"""A cluster in virtual time: nodes, the network between them, and every fault that can befall both.

Faults are methods; each records at which step of the protocol it found the nodes it befell, so that a test can
know what its runs have covered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

from reconvene.core.effects import Event
from reconvene.core.options import Options
from reconvene.corel.events import LogEvent
from reconvene.corel.following.follower import Follower
from reconvene.ids import MAX_SITES, Service
from reconvene.isis.events import IsisEvent
from reconvene.outpost.outpost import Outpost
from reconvene.quorum import Spec, full_spec
from reconvene.sim.befalling import Befalling
from reconvene.sim.calls import Calls
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.core import Core, LogCore, real_core
from reconvene.sim.follower import FollowerNode
from reconvene.sim.isis_scenario import Kill, home
from reconvene.sim.loop import Loop
from reconvene.sim.network import Network
from reconvene.sim.node import Node
from reconvene.sim.outpost import OutpostNode
from reconvene.sim.remote import Remote
from reconvene.trace.events import CHANGED, Row
from reconvene.trace.recorder import Recorder

__all__ = ["Cluster", "OnAppend", "OnEvents", "OnIsis", "OnLog", "OnStep"]

OnStep = Callable[[Node, str, str], None]
"""A node, the step it was in, and the one it is in now."""
OnEvents = Callable[[Node, list[Event]], None]
OnLog = Callable[[Node, list[LogEvent]], None]
OnIsis = Callable[[Node, list[IsisEvent]], None]
OnAppend = Callable[[Node | OutpostNode, int, list[bytes]], None]
"""A node or an outpost, and messages that it has taken, with the counter of the first."""


class Cluster(Befalling):
    """Everything in it follows from `seed`; names are those of its nodes, in any order.

    `check_every`: the sites' invariants are checked after each so many turns; 0: never.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        seed: int = 0,
        options: Options | None = None,
        conditions: Conditions | None = None,
        links: dict[tuple[str, str], Changes] | None = None,
        check_every: int = 0,
        core: Core | LogCore = real_core,
        followers: Sequence[str] = (),
        follower: type[Follower] = Follower,
        outposts: Sequence[str] = (),
        outpost: type[Outpost] = Outpost,
        loop: Loop | None = None,
        label: str = "",
    ) -> None:
        """`followers`: processes beside the nodes that follow their log; `follower`: what they keep it in.
        `outposts`, `outpost`: the same of those that accept messages for it. `loop`, `label`: of a cluster among
        others, in the same virtual time; its random numbers are its own."""
        self.names: tuple[str, ...] = tuple(sorted(names))
        assert 1 <= len(set(self.names)) == len(self.names) <= MAX_SITES, "up to 64 distinct names"
        self.options = options or Options()
        self.seed = seed
        self.loop = loop or Loop()
        self._label = label
        self.everyone: tuple[str, ...] = (*self.names, *sorted(followers), *sorted(outposts))
        """All that crash, part and pause: the nodes, then others."""
        self.rows: dict[str, list[Row]] = {name: [] for name in self.everyone}
        self.coverage: Counter[tuple[str, str]] = Counter()
        """(step, kind of fault): how often a fault of that kind found a node it befell at that step."""
        self.faults = 0
        self._ordinals = {name: ordinal for ordinal, name in enumerate(self.everyone)}
        sites = len(self.names)
        disks = self.stream("disk")
        self.nodes = [
            Node(name, ordinal, self.names, self.loop, self.options, core, disks)
            for ordinal, name in enumerate(self.names)
        ]
        self.followers = [self._follower(name, follower) for name in sorted(followers)]
        self.outposts = [self._outpost(name, outpost) for name in sorted(outposts)]
        self.members: list[Node | Remote] = [*self.nodes, *self.followers, *self.outposts]
        """By ordinal."""
        own = {(self._ordinals[one], self._ordinals[two]): own for (one, two), own in (links or {}).items()}
        self.network = Network(
            self.loop,
            [*(node.receive for node in self.nodes), *(_ignore for _ in (*self.followers, *self.outposts))],
            self.stream("network"),
            conditions or Conditions(),
            own,
        )
        self._on_step: list[OnStep] = []
        self._on_events: list[OnEvents] = []
        self._on_log: list[OnLog] = []
        self._on_append: list[OnAppend] = []
        self._on_isis: list[OnIsis] = []
        self._on_turn: list[Callable[[Node], None]] = []
        self._steps = ["down"] * sites
        self._list_steps: list[tuple[str, int] | None] = [None] * sites
        self._check_every = check_every
        self._turns = 0
        self._recorders = {name: Recorder(name, self.names, self.rows[name]) for name in self.names}
        for node in self.nodes:
            node.join(
                self.network,
                self._recorders[node.name],
                self._observed,
                self._turned,
                self._observed_log,
                self._observed_append,
                self.rows[node.name],
                self._observed_isis,
            )
        if self.followers or self.outposts:
            calls = Calls(self.loop, self.network, self.stream("calls"))
            for node in self.nodes:
                node.serve(calls)
            for remote in (*self.followers, *self.outposts):
                remote.join(calls)

    def _follower(self, name: str, make: type[Follower]) -> FollowerNode:
        """The followers are a tree: each pulls from another one, or, if it can't, from the nodes."""
        place = self._ordinals[name] - len(self.names)
        turned = place % len(self.names)

        def sources() -> list[Node | Remote]:
            above = [] if place == 0 else [self.followers[(place - 1) // 2]]
            return [*above, *self.nodes[turned:], *self.nodes[:turned]]

        random = self.stream(f"disk of {name}")
        return FollowerNode(name, self._ordinals[name], self.loop, random, self.rows[name], sources, make)

    def _outpost(self, name: str, make: type[Outpost]) -> OutpostNode:
        """Each begins with another node."""
        turned = self._ordinals[name] % len(self.names)

        def sites() -> list[Node]:
            return [*self.nodes[turned:], *self.nodes[:turned]]

        random = self.stream(f"disk of {name}")
        observe = self._observed_append
        return OutpostNode(name, self._ordinals[name], self.loop, random, self.rows[name], sites, make, observe)

    def stream(self, name: str) -> Random:
        """A source of random numbers of its own, so that one user's draws do not move another's."""
        return Random(f"{self.seed}/{self._label}{name}")

    def node(self, name: str) -> Node:
        return self.nodes[self._ordinals[name]]

    def recorder(self, name: str) -> Recorder:
        return self._recorders[name]

    def ordinals(self, names: Iterable[str]) -> list[int]:
        return [self._ordinals[name] for name in names if name in self._ordinals]

    def member(self, name: str) -> Node | Remote:
        """A node, or a process beside them."""
        return self.members[self._ordinals[name]]

    @property
    def now(self) -> int:
        return self.loop.now

    def run_until(self, time: int) -> None:
        self.loop.run(time)

    def run_for(self, duration_ns: int) -> None:
        self.loop.run(self.loop.now + duration_ns)

    # -- hooks -------------------------------------------------------------------------------------------

    def on_step(self, callback: OnStep) -> Callable[[], None]:
        """Called at the end of a node's turn in which its step has changed; it may inject faults.

        What is returned ends it.
        """
        if not self._on_step:
            self._steps = [node.step for node in self.nodes]  # they were not kept up to date so far
        self._on_step.append(callback)
        return lambda: self._on_step.remove(callback)

    def on_events(self, callback: OnEvents) -> Callable[[], None]:
        """Called with what a node's turn has brought, after it is recorded and before its datagrams leave.

        What is returned ends it.
        """
        self._on_events.append(callback)
        return lambda: self._on_events.remove(callback)

    def _observed(self, node: Node, events: list[Event]) -> None:
        for callback in self._on_events:
            callback(node, events)

    def on_log(self, callback: OnLog) -> Callable[[], None]:
        """The same with what has happened to the log."""
        self._on_log.append(callback)
        return lambda: self._on_log.remove(callback)

    def _observed_log(self, node: Node, events: list[LogEvent]) -> None:
        for callback in self._on_log:
            callback(node, events)

    def on_isis(self, callback: OnIsis) -> Callable[[], None]:
        """The same with what the ISIS layer has reported."""
        self._on_isis.append(callback)
        return lambda: self._on_isis.remove(callback)

    def _observed_isis(self, node: Node, events: list[IsisEvent]) -> None:
        for callback in self._on_isis:
            callback(node, events)

    def on_append(self, callback: OnAppend) -> Callable[[], None]:
        """Called with what a node's log or an outpost takes from the application, not yet durable."""
        self._on_append.append(callback)
        return lambda: self._on_append.remove(callback)

    def _observed_append(self, node: Node | OutpostNode, first: int, messages: list[bytes]) -> None:
        for callback in self._on_append:
            callback(node, first, messages)

    def on_turn(self, callback: Callable[[Node], None]) -> None:
        """Called at the end of each node's turn."""
        self._on_turn.append(callback)

    def _turned(self, node: Node) -> None:
        self._turns += 1
        for turned in self._on_turn:
            turned(node)
        if self._check_every and self._turns % self._check_every == 0 and node.site is not None:
            node.site.invariants()
        if self._on_step:
            before, now = self._steps[node.ordinal], node.step
            if before != now:
                self._steps[node.ordinal] = now
                for callback in self._on_step:
                    callback(node, before, now)
            if node.numbered is not None:
                self._look_at_list(node)

    def _look_at_list(self, node: Node) -> None:
        """What a site knows of the list of sites changes beside its other steps, and is a step for those who wait for
        one: proposed, chosen, in force."""
        known = node.list_step
        before, self._list_steps[node.ordinal] = self._list_steps[node.ordinal], known
        if known is not None and before is not None and known != before:
            for callback in self._on_step:
                callback(node, node.step, known[0])

    # -- processes ---------------------------------------------------------------------------------------

    def crash(self, name: str, kind: str = "crash") -> None:
        self.record_fault(kind, [name])
        self.member(name).crash()
        if name in self.names:
            self._steps[self._ordinals[name]] = "down"

    def may_start(self, name: str) -> bool:
        member = self.member(name)
        return not member.up and not (isinstance(member, Node) and member.absent)

    def kill(self, process: str) -> None:
        """This process of a node dies; the node does not."""
        node = home(process)[0]
        self.record_fault("kill", [node])
        self.node(node).ask(Kill((process,)))

    def stall(self, name: str, for_ns: int) -> None:
        self.record_fault("disk", [name])
        self.member(name).disk.stall(for_ns)

    def send(self, name: str, service: Service, payload: bytes) -> None:
        self.node(name).send(service, payload)

    def append(self, name: str, messages: Iterable[bytes]) -> None:
        self.node(name).append(messages)

    def refuse(self, name: str, for_ns: int) -> None:
        """Its disk is full for so long."""
        self.record_fault("full", [name])
        self.member(name).disk.refuse(for_ns)

    # -- network -----------------------------------------------------------------------------------------

    def partition(self, components: Iterable[Iterable[str]]) -> None:
        self.record_fault("partition", self.everyone)
        self.network.partition([[self._ordinals[name] for name in component] for component in components])

    def heal(self) -> None:
        self.network.heal()

    def connect(self, components: Iterable[Iterable[str]]) -> None:
        """A partition that is no fault: what the network is like in the end."""
        self.network.partition([[self._ordinals[name] for name in component] for component in components])

    def cut(self, source: str, destination: str) -> None:
        self.record_fault("cut", [source, destination])
        self.network.cut(self._ordinals[source], self._ordinals[destination])

    def mend(self, source: str, destination: str) -> None:
        self.network.mend(self._ordinals[source], self._ordinals[destination])

    def change_network(self, changes: Changes) -> None:
        self.record_fault("network", self.everyone)
        self.network.change(changes)

    def overlay(self, kind: str, changes: Changes, pairs: Sequence[tuple[str, str]] | None = None) -> int:
        """Worse conditions of these directed pairs, or of all, until `lift`."""
        befallen = self.everyone if pairs is None else sorted({name for pair in pairs for name in pair})
        self.record_fault(kind, befallen)
        ordinals = self._ordinals
        ends = None if pairs is None else [(ordinals[one], ordinals[two]) for one, two in pairs]
        return self.network.overlay(changes, ends)

    def worsen(self, kind: str, changes: Changes, pairs: Sequence[tuple[str, str]] | None) -> Callable[[], None]:
        """The same; what is returned ends it."""
        overlay = self.overlay(kind, changes, pairs)
        return lambda: self.lift(overlay)

    def lift(self, overlay: int) -> None:
        self.network.lift(overlay)

    def components(self) -> list[list[str]]:
        return [[self.everyone[ordinal] for ordinal in component] for component in self.network.components()]

    def run_quorum(self, first: Spec) -> dict[str, object]:
        """As run.json has it: the one that the log began with, and whether it is not that one any more."""
        changed = any(node.replicas_changed for node in self.nodes)
        first = full_spec(first, self.names)
        return {**first, CHANGED: True} if changed else first

    def record_fault(self, kind: str, befallen: Iterable[str]) -> None:
        self.faults += 1
        for name in befallen:
            member = self.member(name)
            if member.up:
                self.coverage[(member.step, kind)] += 1


def _ignore(datagram: bytes) -> None:
    """A process beside the nodes gets no datagrams."""
