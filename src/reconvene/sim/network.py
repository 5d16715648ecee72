"""A network that loses, delays, repeats, reorders and parts, link by link.

Given: datagrams with their destinations.
Promised: each copy arrives, whole, at most as often as the link's conditions allow, and only if the link is up
both when it leaves and when it arrives. Without `reorder` the copies of one link arrive in their order.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappush
from random import Random

from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.loop import Loop

__all__ = ["Link", "Network", "Traffic"]

_HEADER_BYTES = 28
"""IPv4 and UDP, which take their share of the bandwidth."""
_QUEUE_BYTES = 64 << 10
"""The least that waits before a narrow link; a fast one holds _QUEUE_NS of its bandwidth."""
_QUEUE_NS = 200_000_000
_HELD_BACK = 4
"""A reordered datagram is late by up to this many times its usual way, and at least by a millisecond."""

CALM = Changes(loss=0.0, duplicate=0.0, reorder=0.0, mtu=0)


@dataclass(slots=True)
class Traffic:
    """How many copies of datagrams met which end."""

    sent: int = 0
    bytes: int = 0
    parted: int = 0
    lost: int = 0
    oversize: int = 0
    overflow: int = 0
    duplicated: int = 0
    reordered: int = 0


class Pipe:
    """Something that passes a limited number of bits a second, with a bounded queue before it."""

    __slots__ = ("bandwidth_bps", "free_at", "queue_ns")

    def __init__(self) -> None:
        self.free_at = 0
        self.resize(0)

    def resize(self, bandwidth_bps: int) -> None:
        self.bandwidth_bps = bandwidth_bps
        self.queue_ns = max(_QUEUE_NS, _QUEUE_BYTES * 8_000_000_000 // bandwidth_bps) if bandwidth_bps else 0

    def through(self, now: int, size: int) -> int | None:
        """When the last bit of `size` bytes that come at `now` has passed; None where the queue is full."""
        if not self.bandwidth_bps:
            return now
        start = max(now, self.free_at)
        if start - now > self.queue_ns:
            return None
        self.free_at = start + (size + _HEADER_BYTES) * 8_000_000_000 // self.bandwidth_bps
        return self.free_at


class Link:
    """One direction between two nodes."""

    __slots__ = (
        "conditions",
        "handler",
        "jitter_ns",
        "last",
        "latency_ns",
        "pipe",
        "plain",
        "receive",
        "traffic",
        "up",
    )

    def __init__(self, traffic: Traffic, receive: Callable[[bytes], None]) -> None:
        self.traffic = traffic
        self.receive = receive
        self.handler = self._arrive
        self.conditions = Conditions()
        self.latency_ns = self.jitter_ns = 0
        self.pipe = Pipe()
        self.last = 0
        self.up = True
        self.plain = False
        """Nothing but latency and jitter: the common case, which has a fast path."""

    def set(self, conditions: Conditions, own_bandwidth_bps: int, egress_limited: bool) -> None:
        self.conditions = conditions
        self.latency_ns = conditions.latency_ns
        self.jitter_ns = conditions.jitter_ns
        self.pipe.resize(own_bandwidth_bps)
        self.plain = self.up and not (
            conditions.loss
            or conditions.duplicate
            or conditions.reorder
            or conditions.mtu
            or own_bandwidth_bps
            or egress_limited
        )

    def _arrive(self, data: bytes) -> None:
        if self.up:
            self.receive(data)
        else:
            self.traffic.parted += 1


class Network:
    def __init__(
        self,
        loop: Loop,
        receivers: Sequence[Callable[[bytes], None]],
        random: Random,
        conditions: Conditions,
        links: dict[tuple[int, int], Changes] | None = None,
    ) -> None:
        self.loop = loop
        self.size = len(receivers)
        self.conditions = conditions
        self.traffic = Traffic()
        self.watch: Callable[[int, tuple[int, ...], bytes], None] | None = None
        """Called with each datagram that is sent: its source, its destinations, its bytes."""
        self._random = random
        self._own = {_pair(*ends): changes for ends, changes in (links or {}).items()}
        self._overlays: dict[int, tuple[frozenset[tuple[int, int]] | None, Changes]] = {}
        self._next_overlay = 0
        self._calm = False
        self._component = [0] * self.size
        self._cuts: set[tuple[int, int]] = set()
        self._egress = [Pipe() for _ in range(self.size)]
        # The diagonal is never used; a link there keeps the table free of None.
        self._links = [[Link(self.traffic, receive) for receive in receivers] for _ in range(self.size)]
        self._apply()

    # -- connectivity ------------------------------------------------------------------------------------

    def partition(self, components: Iterable[Iterable[int]]) -> None:
        """Replaces all connectivity, cuts included. A node in no component is alone."""
        self._component = [-1 - node for node in range(self.size)]
        for number, component in enumerate(components):
            for node in component:
                self._component[node] = number
        self._cuts.clear()
        self._apply()

    def heal(self) -> None:
        self.partition([range(self.size)])

    def cut(self, source: int, destination: int) -> None:
        self._cuts.add((source, destination))
        self._apply()

    def mend(self, source: int, destination: int) -> None:
        self._cuts.discard((source, destination))
        self._apply()

    def components(self) -> list[list[int]]:
        """The nodes of each component; cuts are not considered."""
        found: dict[int, list[int]] = {}
        for node, number in enumerate(self._component):
            found.setdefault(number, []).append(node)
        return sorted(found.values())

    def connected(self, source: int, destination: int) -> bool:
        return self._links[source][destination].up

    def conditions_of(self, source: int, destination: int) -> Conditions:
        """Of this link, as they are now."""
        return self._links[source][destination].conditions

    # -- conditions --------------------------------------------------------------------------------------

    def change(self, changes: Changes) -> None:
        """Of the whole network; a link keeps what was set for itself."""
        self.conditions = changes.over(self.conditions)
        self._apply()

    def reset(self, conditions: Conditions, links: dict[tuple[int, int], Changes]) -> None:
        """The conditions of the whole network, and what is set for single links."""
        self.conditions = conditions
        self._own = {_pair(*ends): changes for ends, changes in links.items()}
        self._apply()

    def overlay(self, changes: Changes, pairs: Iterable[tuple[int, int]] | None = None) -> int:
        """Changes on top of everything until `lift`, of these directed pairs or of all."""
        self._next_overlay += 1
        self._overlays[self._next_overlay] = (None if pairs is None else frozenset(pairs), changes)
        self._apply()
        return self._next_overlay

    def lift(self, overlay: int) -> None:
        if self._overlays.pop(overlay, None) is not None:
            self._apply()

    def calm(self) -> None:
        """From now on nothing is lost, repeated, reordered or too large, and overlays are gone."""
        self._calm = True
        self._overlays.clear()
        self._apply()

    def _apply(self) -> None:
        limited = bool(self.conditions.bandwidth_bps)
        for pipe in self._egress:
            pipe.resize(self.conditions.bandwidth_bps)
        for source in range(self.size):
            for destination in range(self.size):
                changes = self._changes_of(source, destination)
                link = self._links[source][destination]
                link.up = (
                    self._component[source] == self._component[destination]
                    and (source, destination) not in self._cuts
                )
                link.set(changes.over(self.conditions), changes.bandwidth_bps or 0, limited)

    def _changes_of(self, source: int, destination: int) -> Changes:
        changes = self._own.get(_pair(source, destination), Changes())
        for pairs, over in self._overlays.values():
            if pairs is None or (source, destination) in pairs:
                changes = changes.then(over)
        return changes.then(CALM) if self._calm else changes

    # -- traffic -----------------------------------------------------------------------------------------

    def transmit(self, source: int, datagrams: Iterable[tuple[tuple[int, ...], bytes]]) -> None:
        loop = self.loop
        now, heap, sequence = loop.now, loop.heap, loop.sequence
        row, uniform, traffic = self._links[source], self._random.random, self.traffic
        for destinations, data in datagrams:
            traffic.sent += len(destinations)
            traffic.bytes += len(data) * len(destinations)
            if self.watch is not None:
                self.watch(source, destinations, data)
            for destination in destinations:
                assert destination != source, "a site keeps what it has to say to itself"
                link = row[destination]
                if not link.plain:
                    self._through(source, link, data)
                    continue
                at = now + link.latency_ns
                if link.jitter_ns:
                    at += int(uniform() * link.jitter_ns)
                if at < link.last:
                    at = link.last
                link.last = at
                heappush(heap, (at, next(sequence), link.handler, data))

    def _through(self, source: int, link: Link, data: bytes) -> None:
        """The long way: everything that may happen to a datagram, in the order of its journey."""
        conditions, traffic, uniform = link.conditions, self.traffic, self._random.random
        out = self._egress[source].through(self.loop.now, len(data))
        at = None if out is None else link.pipe.through(out, len(data))
        if at is None:
            traffic.overflow += 1
        elif not link.up:
            traffic.parted += 1
        elif conditions.mtu and len(data) > conditions.mtu:
            traffic.oversize += 1
        elif conditions.loss and uniform() < conditions.loss:
            traffic.lost += 1
        else:
            self._arrive(link, at, data)
            if conditions.duplicate and uniform() < conditions.duplicate:
                traffic.duplicated += 1
                self._arrive(link, at, data)

    def _arrive(self, link: Link, at: int, data: bytes) -> None:
        conditions, uniform = link.conditions, self._random.random
        way = conditions.latency_ns + int(uniform() * conditions.jitter_ns)
        if conditions.reorder and uniform() < conditions.reorder:
            self.traffic.reordered += 1
            way += int(uniform() * max(1_000_000, _HELD_BACK * way)) + 1
            at += way
        else:
            at = max(at + way, link.last)
            link.last = at
        self.loop.at(at, link.handler, data)


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
