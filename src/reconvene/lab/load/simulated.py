"""Members that send at given rates in a simulated cluster, and when each message arrives at each member.

Given: how the cluster orders, each member's rate over time, and which members are paused when.
Promised: virtual time, so the same seed has the same figures. Messages leave at jittered intervals. Those sent before
or after the measured span are load, and not counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pvariance
from struct import Struct

from reconvene.core.effects import Delivered, Event
from reconvene.core.options import Options
from reconvene.core.order import Atop
from reconvene.core.site import Site
from reconvene.ids import Service
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Conditions
from reconvene.sim.core import EvsSite
from reconvene.sim.node import Node

__all__ = ["MS", "SECOND", "Arrivals", "Rate", "System", "Traffic", "measure"]

MS = 1_000_000
SECOND = 1_000_000_000

MESSAGE_BYTES = 50
JITTER = 0.2
"""An interval is shorter or longer by up to this share."""

_STAMP = Struct(">QQ")

Rate = Callable[[int], float]
"""Messages a second, by the ns since the sending began; 0: none for now."""


@dataclass(frozen=True, slots=True)
class System:
    name: str
    options: Options
    service: Service = Service.AGREED


@dataclass(frozen=True, slots=True)
class Traffic:
    rates: tuple[Rate, ...]
    """By member."""
    warm_ns: int
    """Sending before anything is counted: the time to adapt."""
    span_ns: int
    """Messages that are sent in this time are counted."""
    tail_ns: int = 2 * SECOND
    """The sending continues after the span, so that the end of traffic delays no counted message."""
    still: tuple[tuple[int, int, int], ...] = ()
    """(member, from, to), in ns since the sending began: the member is paused."""


@dataclass(slots=True)
class Arrivals:
    """`by_sender`: latencies in ns, of every message counted at every member."""

    start_ns: int
    span_ns: int
    by_sender: list[list[int]]
    sent: list[list[int]]
    """When each member sent its counted messages."""
    watched: list[tuple[int, int, int]] = field(default_factory=list)
    """(sender, when it was sent, when it arrived) of every message at one member, in the order of arrival."""
    dummies: int = 0
    """Numbered frames that carried nothing but passes or a tag, in the span."""
    distributions: int = 0
    datagrams: int = 0
    """Datagrams sent in the span, counted once for each destination, beacons included."""
    missing: int = 0
    """Deliveries that did not happen."""

    @property
    def all(self) -> list[int]:
        return sorted(latency for own in self.by_sender for latency in own)

    @property
    def messages(self) -> int:
        return sum(map(len, self.sent))

    @property
    def mean_ms(self) -> float:
        return fmean(self.all) / MS

    @property
    def mean_by_sender_ms(self) -> float:
        """The mean of the senders' means."""
        return fmean(fmean(own) for own in self.by_sender if own) / MS

    @property
    def variance_ms2(self) -> float:
        return pvariance([latency / MS for latency in self.all])

    def percentile_ms(self, percent: float) -> float:
        ordered = self.all
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)] / MS


class _Sender:
    def __init__(self, run: "_Run", ordinal: int, rate: Rate) -> None:
        self._run = run
        self._ordinal = ordinal
        self._rate = rate
        self._random = run.cluster.stream(f"sender/{ordinal}")
        self._counter = 0
        self._schedule(self._random.random())

    def _schedule(self, part: float) -> None:
        """Schedules the next message after this share of an interval."""
        run = self._run
        rate = self._rate(run.cluster.now - run.began)
        if rate <= 0:
            # Checks again soon, so that a burst begins on time.
            run.cluster.loop.at(run.cluster.now + 10 * MS, self._look)
            return
        at = run.cluster.now + max(1, int(part * SECOND / rate))
        if at < run.ends:
            run.cluster.loop.at(at, self._send)

    def _look(self, _: None) -> None:
        if self._run.cluster.now < self._run.ends:
            self._schedule(self._random.random())

    def _send(self, _: None) -> None:
        run = self._run
        node = run.cluster.nodes[self._ordinal]
        if not node.paused and self._rate(run.cluster.now - run.began) > 0:
            self._counter += 1
            now = run.cluster.now
            payload = _STAMP.pack(now, self._counter).ljust(MESSAGE_BYTES, b".")
            if run.from_ns <= now < run.until_ns:
                run.arrivals.sent[self._ordinal].append(now)
            node.hand_over(run.system.service, [payload])
        self._schedule(1 - JITTER + 2 * JITTER * self._random.random())


class _Run:
    def __init__(self, system: System, traffic: Traffic, seed: int, conditions: Conditions, watched: int) -> None:
        self.system = system
        members = len(traffic.rates)
        names = [f"{ordinal:02}" for ordinal in range(members)]
        self.cluster = Cluster(names, seed=seed, options=system.options, conditions=conditions)
        self.cluster.start()
        while any(len(self._site(node).members) < members for node in self.cluster.nodes):
            self.cluster.run_for(100 * MS)
        self.cluster.run_for(SECOND)
        self.began = self.cluster.now
        self.from_ns = self.began + traffic.warm_ns
        self.until_ns = self.from_ns + traffic.span_ns
        self.ends = self.until_ns + traffic.tail_ns
        self.arrivals = Arrivals(self.from_ns, traffic.span_ns, [[] for _ in names], [[] for _ in names])
        self._watched = watched
        self.cluster.on_events(self._hear)
        for ordinal, rate in enumerate(traffic.rates):
            _Sender(self, ordinal, rate)
        for member, stop_ns, go_ns in traffic.still:
            self.cluster.loop.at(self.began + stop_ns, self._stop, names[member])
            self.cluster.loop.at(self.began + go_ns, self._go, names[member])

    @staticmethod
    def _site(node: Node) -> Site:
        assert isinstance(node.site, EvsSite)
        return node.site.site

    def _stop(self, name: str) -> None:
        self.cluster.pause(name)

    def _go(self, name: str) -> None:
        self.cluster.resume(name)

    def _hear(self, node: Node, events: list[Event]) -> None:
        now = self.cluster.now
        for event in events:
            if type(event) is Delivered:
                for payload in event.payloads:
                    sent = _STAMP.unpack_from(payload)[0]
                    if self.from_ns <= sent < self.until_ns:
                        self.arrivals.by_sender[event.sender].append(now - sent)
                    if node.ordinal == self._watched:
                        self.arrivals.watched.append((event.sender, sent, now))

    def _engines(self) -> list[Atop]:
        engines = [self._site(node).current.engine for node in self.cluster.nodes]
        return [engine for engine in engines if isinstance(engine, Atop)]

    def play(self) -> Arrivals:
        arrivals, cluster = self.arrivals, self.cluster
        cluster.run_until(self.from_ns)
        copies = cluster.network.traffic.sent
        # By engine: a configuration change makes a new one, which starts at 0.
        before = {id(engine): (engine.dummies, engine.introduced) for engine in self._engines()}
        cluster.run_until(self.until_ns)
        arrivals.datagrams = cluster.network.traffic.sent - copies
        for engine in self._engines():
            dummies, introduced = before.get(id(engine), (0, 0))
            arrivals.dummies += engine.dummies - dummies
            arrivals.distributions += engine.introduced - introduced
        cluster.run_until(self.ends + SECOND)
        arrivals.missing = arrivals.messages * len(cluster.nodes) - sum(map(len, arrivals.by_sender))
        return arrivals


def measure(
    system: System,
    rates: Sequence[float] | Traffic,
    *,
    warm_ns: int = 10 * SECOND,
    span_ns: int = 30 * SECOND,
    seed: int = 1,
    conditions: Conditions | None = None,
    watched: int = 1,
) -> Arrivals:
    """Runs a cluster with constant rates, or with a `Traffic`."""
    if not isinstance(rates, Traffic):
        slowest = min(rates)
        tail_ns = int(min(5 / slowest, 12) * SECOND) + SECOND
        rates = Traffic(tuple(_constant(rate) for rate in rates), warm_ns, span_ns, tail_ns)
    return _Run(system, rates, seed, conditions or Conditions(), watched).play()


def _constant(rate: float) -> Rate:
    return lambda _: rate
