"""Casts one by one and many at a time, in virtual time: how long they take, and what they cost on the network.

For comparison, the same with a bare site's `causal` and `agreed` messages, which go to every site of a configuration.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from struct import Struct

from reconvene.core.effects import Delivered, Event
from reconvene.core.groups.events import Process
from reconvene.core.options import Options
from reconvene.ids import Service
from reconvene.isis.events import IsisEvent, Received
from reconvene.isis.limits import IsisLimits
from reconvene.lab.bench.sheet import percentile
from reconvene.lab.load.isis_simulated import NETWORK, IsisLab
from reconvene.lab.load.simulated import MS, SECOND
from reconvene.sim.cluster import Cluster
from reconvene.sim.node import Node
from reconvene.wire.codec import decode
from reconvene.wire.messages import Beacon, Packet

__all__ = ["Alone", "Load", "all_sending", "alone", "beside_a_pause", "largest_pool", "plain_alone"]

_STAMP = Struct(">Q")
_MARK = b"the payload of a cast"
SIZE = 100


@dataclass(slots=True)
class Alone:
    """Messages one at a time."""

    took_ns: list[int] = field(default_factory=list)
    """From sending to delivery, at each destination but the sender."""
    datagrams: float = 0.0
    """For each message: copies of datagrams, without beacons, which an idle cluster sends too."""

    @property
    def mean_ns(self) -> float:
        return fmean(self.took_ns)


def _payload(now: int) -> bytes:
    return (_STAMP.pack(now) + _MARK).ljust(SIZE, b".")


class _Tap:
    """What passes the network, beacons aside."""

    def __init__(self, cluster: Cluster) -> None:
        self.datagrams = 0
        self.packets = 0
        """Datagrams with casts in them."""
        self.payloads = 0
        """Copies of payloads."""
        cluster.network.watch = self._see

    def _see(self, source: int, destinations: tuple[int, ...], data: bytes) -> None:
        message = decode(data)
        if isinstance(message, Beacon):
            return
        copies = len(destinations)
        self.datagrams += copies
        payloads = data.count(_MARK)
        if isinstance(message, Packet) and payloads:
            self.packets += copies
        self.payloads += copies * payloads


def alone(kind: str, sites: int, to: Sequence[int] | None, count: int, every_ns: int, seed: int) -> Alone:
    """The first site's process casts to those of `to`; None: to a group of all."""
    lab = IsisLab(sites, seed=seed)
    if to is None:
        lab.join("all", range(sites))
    lab.rest(10 * SECOND)  # all that joining has left to tell is told
    found = Alone()

    def hear(site: int, event: IsisEvent) -> None:
        if isinstance(event, Received) and site != 0:
            found.took_ns.append(lab.now - _STAMP.unpack_from(event.payload)[0])

    lab.hear = hear
    tap = _Tap(lab.cluster)
    for _ in range(count):
        target = "all" if to is None else [lab.processes[site] for site in to]
        cast = lab.isis(0).cbcast if kind == "cbcast" else lab.isis(0).abcast
        cast(lab.processes[0], target, _payload(lab.now))
        lab.turn(0)
        lab.rest(every_ns)
    found.datagrams = tap.datagrams / count
    return found


def plain_alone(service: Service, sites: int, count: int, every_ns: int, seed: int) -> Alone:
    """The same with messages of a bare site, to all sites."""
    names = [f"{ordinal:02}" for ordinal in range(sites)]
    cluster = Cluster(names, seed=seed, options=Options(), conditions=NETWORK)
    cluster.start()
    while any(node.site is None or len(node.site.members) < sites for node in cluster.nodes):
        cluster.run_for(100 * MS)
    cluster.run_for(10 * SECOND)
    found = Alone()

    def hear(node: Node, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Delivered) and node.ordinal != 0:
                found.took_ns += [cluster.now - _STAMP.unpack_from(payload)[0] for payload in event.payloads]

    cluster.on_events(hear)
    tap = _Tap(cluster)
    for _ in range(count):
        cluster.nodes[0].hand_over(service, [_payload(cluster.now)])
        cluster.run_for(every_ns)
    found.datagrams = tap.datagrams / count
    return found


def beside_a_pause(kind: str, span_ns: int, seed: int, *, pauses: bool) -> float:
    """The p99 in ns of casts with label y to sites 2 and 3, while site 0 casts with label x to sites 1 and 2 too.
    `pauses`: site 1 stands still for 300 ms of each second. It is not suspected by then."""
    lab = IsisLab(4, seed=seed)
    lab.rest()
    took: list[float] = []

    def hear(site: int, event: IsisEvent) -> None:
        if isinstance(event, Received) and event.payload.endswith(b"y"):
            took.append(lab.now - _STAMP.unpack_from(event.payload)[0])

    def cast(label: str, to: Sequence[int]) -> None:
        isis, targets = lab.isis(0), [lab.processes[site] for site in to]
        payload = _payload(lab.now) + label.encode()
        if kind == "cbcast":
            isis.cbcast(lab.processes[0], targets, payload, label)
        else:
            isis.abcast(lab.processes[0], targets, payload, label)
        lab.turn(0)

    lab.hear = hear
    for turn in range(span_ns // (5 * MS)):
        if pauses and turn % 200 == 100:
            lab.cluster.pause("01")
        if pauses and turn % 200 == 160:
            lab.cluster.resume("01")
        cast("x", (1, 2))
        lab.rest(2 * MS)
        cast("y", (2, 3))
        lab.rest(3 * MS)
    return percentile(took, 99)


@dataclass(frozen=True, slots=True)
class Load:
    """All processes cast."""

    copies: float
    """Copies of a payload for each site of its destinations, but for the sender's own."""
    casts_a_packet: float
    """In packets that hold casts."""


def all_sending(sites: int, rate: int, count: int, seed: int, *, among: int | None = None) -> Load:
    """Each process casts so often a second. `among`: to so many others, drawn at random; None: to a group of all."""
    lab = IsisLab(sites, seed=seed)
    lab.join("all", range(sites))
    lab.rest()
    random = lab.cluster.stream("destinations")
    tap = _Tap(lab.cluster)
    destinations = 0

    def target(site: int) -> str | list[Process]:
        if among is None:
            return "all"
        others = [process for process in lab.processes if process.site != site]
        return random.sample(others, among)

    for _ in range(count):
        for site in random.sample(range(sites), sites):
            destinations += sites - 1 if among is None else among
            lab.isis(site).cbcast(lab.processes[site], target(site), _payload(lab.now))
            lab.turn(site)
            lab.rest(SECOND // (rate * sites))
    lab.rest(2 * SECOND)
    return Load(tap.payloads / destinations, tap.payloads / tap.packets)


def largest_pool(sites: int, window: int, span_ns: int, seed: int) -> int:
    """Each process casts 1,000 B to all as fast as a window of so many bytes lets it. Returns the bytes in the
    largest pool in the second half of the time."""
    lab = IsisLab(sites, seed=seed, limits=IsisLimits(open_bytes=window))
    lab.join("all", range(sites))
    lab.rest()
    middle, end = lab.now + span_ns // 2, lab.now + span_ns
    largest = 0
    while lab.now < end:
        for site in range(sites):
            isis = lab.isis(site)
            while isis.own.has_room:
                isis.cbcast(lab.processes[site], "all", bytes(1_000))
            lab.turn(site)
        lab.rest(MS // 2)
        if lab.now >= middle:
            largest = max(largest, *[lab.isis(site).pool.bytes for site in range(sites)])
    return largest
