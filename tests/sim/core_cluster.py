"""The core of a cluster inside a test: no sockets, no waiting, the same from the same seed."""

from collections.abc import Callable, Iterable
from typing import Any

from tests.sim.core_service import Configuration, Handle, Message

from reconvene.core.effects import Changed, Delivered, Event
from reconvene.core.options import Options
from reconvene.ids import Service as Promise
from reconvene.ids import message_id
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.durations import parse_duration, show_duration
from reconvene.sim.node import Node
from reconvene.testing import TimedOut, Violated
from reconvene.trace.events import SCHEMA, Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

__all__ = ["SimCluster", "TimedOut", "Violated"]

Duration = str | int | float
"""`"500ms"`, or a number of seconds."""


class SimCluster:
    """Nodes named a, b, c … (or as you like), started, on a network that does what you tell it.

    >>> from tests.sim.core_cluster import SimCluster
    >>> cluster = SimCluster(3, seed=7)
    >>> cluster.wait_together()
    >>> cluster.send("a", b"hello")
    >>> cluster.run_until(lambda: len(cluster.deliveries("c")) == 1)
    >>> [message.payload for message in cluster.deliveries("b")]
    [b'hello']
    >>> cluster.partition(["a"], ["b", "c"])
    >>> cluster.wait_together("b", "c")
    >>> cluster.configuration("c").members
    ('b', 'c')
    >>> cluster.settle()
    >>> cluster.configuration("a").members
    ('a', 'b', 'c')
    >>> cluster.verify().ok
    True

    Your own service is an object with `on_configuration` and `on_message` (either may be missing), made anew at each
    start of its node with a handle to send by:

    >>> class Echo:
    ...     def __init__(self, handle):
    ...         self.handle = handle
    ...         self.heard = []
    ...     def on_message(self, message):
    ...         self.heard.append(message.payload)
    ...         if message.payload == b"ping":
    ...             self.handle.send(b"pong from " + self.handle.node.encode())
    >>> cluster = SimCluster(2, service=Echo)
    >>> cluster.wait_together()
    >>> cluster.send("a", b"ping")
    >>> cluster.run_for("1s")
    >>> sorted(cluster.service("b").heard)
    [b'ping', b'pong from a', b'pong from b']
    """

    def __init__(
        self,
        nodes: int | Iterable[str] = 3,
        *,
        seed: int = 0,
        service: Callable[[Handle], Any] | None = None,
        order: str = "atop",
        latency: Duration = "1ms",
        jitter: Duration = "200us",
        loss: float = 0.0,
        options: Options | None = None,
    ) -> None:
        names = [_letters(place) for place in range(nodes)] if isinstance(nodes, int) else list(nodes)
        conditions = Conditions(latency_ns=_ns(latency), jitter_ns=_ns(jitter), loss=loss)
        self.sim = Cluster(
            names, seed=seed, options=options or Options(order=order), conditions=conditions, check_every=1
        )
        """The whole simulator, where this class does not do."""
        self._make = service
        self._services: dict[str, tuple[int, Any]] = {}
        self._history: dict[str, list[Message | Configuration]] = {name: [] for name in self.sim.names}
        self._settled = False
        self.sim.on_events(self._hear)
        self.sim.start()

    # -- what is there -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.sim.names

    @property
    def now_ns(self) -> int:
        return self.sim.now

    def service(self, node: str) -> Any:
        """The service at this node, of its present or, if it is down, last life."""
        return self._services[node][1]

    def history(self, node: str) -> list[Message | Configuration]:
        """All events of this node, in order, over all its lives."""
        return list(self._history[node])

    def deliveries(self, node: str) -> list[Message]:
        return [item for item in self._history[node] if isinstance(item, Message)]

    def configurations(self, node: str) -> list[Configuration]:
        return [item for item in self._history[node] if isinstance(item, Configuration)]

    def configuration(self, node: str) -> Configuration:
        """The one that it is in, or was in last."""
        return next(
            item
            for item in reversed(self._history[node])
            if isinstance(item, Configuration) and item.kind != "hidden"
        )

    def together(self, *nodes: str) -> bool:
        """Are these, or all, in one regular configuration, and no other site in it?"""
        names = tuple(sorted(nodes or self.nodes))
        present = [self.configuration(name) for name in names if self.sim.node(name).up]
        return (
            len(present) == len(names)
            and len({one.id for one in present}) == 1
            and present[0].kind == "regular"
            and present[0].members == names
        )

    # -- time --------------------------------------------------------------------------------------------

    def run_for(self, duration: Duration) -> None:
        self.sim.run_for(_ns(duration))

    def run_until(self, predicate: Callable[[], bool], timeout: Duration = "30s") -> None:
        """Until it is true, looked at after each event; TimedOut after so much virtual time."""
        until = self.sim.now + _ns(timeout)
        while not predicate():
            if not self.sim.loop.step(until):
                if predicate():
                    return
                raise TimedOut(f"not within {show_duration(_ns(timeout))}; {self._where()}")

    def wait_together(self, *nodes: str, timeout: Duration = "30s") -> None:
        """Until these, or all, are in one regular configuration of their own."""
        self.run_until(lambda: self.together(*nodes), timeout)

    def settle(self, duration: Duration = "10s") -> None:
        """Repairs everything and lets time pass, after which `verify` judges liveness too."""
        self.sim.network.calm()
        self.sim.heal()
        for node in self.sim.nodes:
            if not node.up:
                node.start()
            elif node.paused:
                node.resume()
        self.run_for(duration)
        self._settled = True

    # -- what happens ------------------------------------------------------------------------------------

    def send(self, node: str, payload: bytes, service: str = "agreed") -> None:
        self._settled = False
        self._up(node).hand_over(Promise[service.upper()], [payload])

    def partition(self, *components: Iterable[str]) -> None:
        """Replaces all connectivity. A node in no component is alone."""
        self._settled = False
        self.sim.partition(components)

    def heal(self) -> None:
        self._settled = False
        self.sim.heal()

    def cut(self, source: str, destination: str) -> None:
        """One way: what `source` sends to `destination` is lost."""
        self._settled = False
        self.sim.cut(source, destination)

    def mend(self, source: str, destination: str) -> None:
        self._settled = False
        self.sim.mend(source, destination)

    def crash(self, node: str) -> None:
        self._settled = False
        self._up(node)
        self.sim.crash(node)

    def restart(self, node: str) -> None:
        self._settled = False
        if self.sim.node(node).up:
            raise ValueError(f"{node} is up")
        self.sim.restart(node)

    def pause(self, node: str) -> None:
        self._settled = False
        if self._up(node).paused:
            raise ValueError(f"{node} is paused")
        self.sim.pause(node)

    def resume(self, node: str) -> None:
        self._settled = False
        if not self._up(node).paused:
            raise ValueError(f"{node} is not paused")
        self.sim.resume(node)

    def network(
        self,
        *,
        latency: Duration | None = None,
        jitter: Duration | None = None,
        loss: float | None = None,
        duplicate: float | None = None,
        reorder: float | None = None,
    ) -> None:
        """Changes these conditions from now on."""
        self._settled = False
        self.sim.change_network(
            Changes(
                latency_ns=None if latency is None else _ns(latency),
                jitter_ns=None if jitter is None else _ns(jitter),
                loss=loss,
                duplicate=duplicate,
                reorder=reorder,
            )
        )

    # -- the verdict -------------------------------------------------------------------------------------

    def verify(self) -> Report:
        """Checks the history so far against everything that Reconvene promises; raises Violated."""
        sim = self.sim
        run = Run(
            schema=SCHEMA,
            run=f"test-{sim.seed}",
            nodes=list(sim.names),
            stack="evs",
            order=sim.options.order,
            seed=sim.seed,
            settled=self._settled,
            components=sim.components(),
            down=[node.name for node in sim.nodes if not node.up],
            quorum={"kind": "majority"},
        )
        report = verify([History.of(run, sim.rows)])
        if not report.ok:
            raise Violated(report, run.run)
        return report

    def _up(self, name: str) -> Node:
        node = self.sim.node(name)
        if not node.up:
            raise ValueError(f"{name} is down")
        return node

    def _where(self) -> str:
        places = [
            f"{node.name}: " + (" ".join(self.configuration(node.name).members) if node.up else "down")
            for node in self.sim.nodes
        ]
        return f"seed {self.sim.seed}, at {show_duration(self.now_ns)} configurations were " + ", ".join(places)

    # -- services ----------------------------------------------------------------------------------------

    def _hear(self, node: Node, events: list[Event]) -> None:
        service = self._service_of(node)
        for event in events:
            if isinstance(event, Changed):
                members = tuple(self.nodes[ordinal] for ordinal in event.members)
                configuration = Configuration(event.kind.value, event.conf, members)
                self._history[node.name].append(configuration)
                _call(service, "on_configuration", configuration)
            elif isinstance(event, Delivered):
                sender = self.nodes[event.sender]
                for place, payload in enumerate(event.payloads):
                    number = message_id(sender, event.incarnation, event.first + place)
                    message = Message(sender, payload, event.service.label, event.conf, number)
                    self._history[node.name].append(message)
                    _call(service, "on_message", message)

    def _service_of(self, node: Node) -> Any:
        if self._make is None:
            return None
        assert node.site is not None
        incarnation = node.site.incarnation
        life, service = self._services.get(node.name, (0, None))
        if life != incarnation:
            service = self._make(self._handle(node, incarnation))
            self._services[node.name] = (incarnation, service)
        return service

    def _handle(self, node: Node, incarnation: int) -> Handle:
        def send(payload: bytes, promise: Promise) -> None:
            if node.site is not None and node.site.incarnation == incarnation:
                self._settled = False
                node.send(promise, payload)

        return Handle(node.name, send, lambda: node.now)


def _call(service: Any, callback: str, argument: object) -> None:
    method = getattr(service, callback, None)
    if method is not None:
        method(argument)


def _ns(duration: Duration) -> int:
    return parse_duration(duration) if isinstance(duration, str) else int(duration * 1_000_000_000)


def _letters(place: int) -> str:
    """a … z, and then names of two letters; their order is that of the places."""
    return (
        chr(ord("a") + place) if place < 26 else f"z{chr(ord('a') + (place - 26) // 26)}{chr(ord('a') + place % 26)}"
    )
