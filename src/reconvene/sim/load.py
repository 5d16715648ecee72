"""Application traffic: the messages that a scenario has nodes send or append to the log, and processes cast."""

from collections.abc import Callable
from random import Random

from reconvene.ids import Service
from reconvene.sim.cluster import Cluster
from reconvene.sim.scenario import Load
from reconvene.sim.wide_scenario import DEFAULT_GROUP
from reconvene.sim.wide_world import WideWorld

__all__ = ["Application", "LoadRun"]


class Application:
    """Makes payloads that differ, of the size asked for, and hands them to nodes."""

    def __init__(self, cluster: Cluster | WideWorld) -> None:
        self._cluster = cluster
        self._made = 0

    def send(
        self,
        name: str,
        service: Service,
        size: int,
        count: int = 1,
        group: str = DEFAULT_GROUP,
        scope: str = "wide",
    ) -> None:
        """`group`, `scope`: where there are several clusters."""
        payloads = [self.payload(name.encode(), size) for _ in range(count)]
        if isinstance(self._cluster, WideWorld):
            self._cluster.node(name).say(service, payloads, group, scope)
        else:
            self._cluster.node(name).hand_over(service, payloads)

    def append(self, name: str, size: int, count: int = 1) -> bool:
        """False: that process takes no messages, as a follower does not."""
        assert isinstance(self._cluster, Cluster), "there is no log between clusters"
        messages = [self.payload(name.encode(), size) for _ in range(count)]
        return self._cluster.member(name).append(messages)

    def payload(self, name: bytes, size: int) -> bytes:
        self._made += 1
        unit = b"%s/%d;" % (name, self._made)
        return (unit * (size // len(unit) + 1))[:size]


class LoadRun:
    """One load at one node: evenly spaced messages that begin anywhere in the first gap, so that nodes do not
    send in step."""

    def __init__(
        self, cluster: Cluster | WideWorld, load: Load, node: str, random: Random, send: Callable[[], None]
    ) -> None:
        """`send`: one message; it is not called while the node is down or paused."""
        self._cluster = cluster
        self._load = load
        self._node = cluster.member(node)
        self._send_one = send
        self._sent = 0
        self._phase_ns = 0.0
        if load.rate * load.until_ns >= 1e-9:  # else the first message is further away than any run lasts
            self._phase_ns = random.random() * self._gap_ns
            self._schedule()

    @property
    def _gap_ns(self) -> float:
        return 1e9 / self._load.rate

    def _schedule(self) -> None:
        at = self._load.from_ns + int(self._phase_ns + self._sent * self._gap_ns)
        if at < self._load.until_ns:
            self._cluster.loop.at(at, self._send)

    def _send(self, _: None) -> None:
        if self._node.up and not self._node.paused:
            self._send_one()
        self._sent += 1
        self._schedule()
