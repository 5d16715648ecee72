"""Channels over a network that loses, doubles, delays and reorders, checked against lists of what was sent."""

from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from reconvene.core.intersite.channels import Channels
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.wire.codec import decode
from reconvene.wire.messages import Packet

__all__ = ["MS", "Network"]

MS = 1_000_000


class Network:
    """Sites with nothing above their channels but a list of what came, which is marked at once unless `marks` is
    False. Every delivery is checked: the next record of its sender, and nothing else."""

    def __init__(self, sites: int, limits: ChannelLimits | None = None, seed: int = 0, *, marks: bool = True) -> None:
        self.random = Random(seed)
        self.limits = ChannelLimits() if limits is None else limits
        self.now = 1
        self.loss = 0.0
        self.doubled = 0.0
        self.delay_ns: Callable[[], int] = lambda: MS
        self.marks = marks
        self.holds: set[int] = set()
        """Sites that hold the acks of all that brings records."""
        self.sites = [Channels(site, self.limits) for site in range(sites)]
        self.paused: set[int] = set()
        self.sent: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.taken: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        """(from, to)."""
        self.taken_at: dict[tuple[int, int, int], int] = {}
        """(from, to, number): when it came."""
        self.datagrams: list[tuple[int, int, int, Packet]] = []
        """(when, from, to, packet): all that were sent."""
        self._wire: list[tuple[int, int, int, bytes]] = []
        self._order = 0
        self._waiting: defaultdict[int, list[bytes]] = defaultdict(list)
        """What came for paused sites."""
        for site in range(sites):
            for peer in range(sites):
                if site != peer:
                    self.connect(site, peer)

    def connect(self, site: int, peer: int, here: int = 1, there: int = 1) -> None:
        self.sites[site].connect(peer, here, there, self.now)

    def send(self, site: int, peer: int, record: bytes) -> int:
        number = self.sites[site].send(peer, record)
        self.sent[site, peer].append(record)
        assert number == len(self.sent[site, peer])
        return number

    def turn(self, site: int) -> None:
        """Flushes, and puts the datagrams on the wire."""
        channels = self.sites[site]
        for (to,), data in channels.flush(self.now):
            packet = decode(data)
            assert isinstance(packet, Packet)
            self.datagrams.append((self.now, site, to, packet))
            for _ in range(2 if self.random.random() < self.doubled else 1):
                if self.random.random() >= self.loss:
                    self.put(to, data, self.now + self.delay_ns())
        channels.invariants()
        deadline = channels.deadline()
        assert deadline is None or deadline > self.now, "what was due is done"

    def put(self, to: int, data: bytes, at: int) -> None:
        self._order += 1
        heappush(self._wire, (at, self._order, to, data))

    def receive(self, to: int, data: bytes) -> None:
        packet = decode(data)
        assert isinstance(packet, Packet)
        source = packet.site
        taken, sent = self.taken[source, to], self.sent[source, to]
        records = self.sites[to].receive(packet, self.now)
        for number, record in records:
            assert number == len(taken) + 1, "in order, nothing twice, nothing left out"
            assert record == sent[number - 1]
            taken.append(record)
            self.taken_at[source, to, number] = self.now
        if self.marks and taken:
            self.sites[to].mark(source, len(taken), len(taken))
        if records and to in self.holds:
            self.sites[to].hold(source, self.now)

    def pause(self, site: int) -> None:
        self.paused.add(site)

    def resume(self, site: int) -> None:
        self.paused.discard(site)
        for data in self._waiting.pop(site, []):
            self.receive(site, data)
        self.turn(site)

    def run(self, until: int) -> None:
        """Lets the time pass: what is due first happens first."""
        while True:
            at = min([self._wire[0][0]] if self._wire else [until], default=until)
            due = [
                (deadline, site)
                for site, channels in enumerate(self.sites)
                if site not in self.paused and (deadline := channels.deadline()) is not None
            ]
            first = min(due, default=(until, -1))
            if min(at, first[0]) >= until:
                self.now = max(self.now, until)
                return
            if first[0] < at or not self._wire:
                self.now = max(self.now, first[0])
                self.turn(first[1])
                continue
            self.now = max(self.now, at)
            _, _, to, data = heappop(self._wire)
            if to in self.paused:
                self._waiting[to].append(data)
                continue
            self.receive(to, data)
            self.turn(to)

    def run_for(self, ms: float) -> None:
        self.run(self.now + int(ms * MS))

    def settle(self, ms: int = 60_000) -> None:
        """Lets the time pass until all that was sent has come and is acknowledged."""
        end = self.now + ms * MS
        while self.now < end and not self.settled():
            self.run_for(10)
        assert self.settled(), {pair: (len(self.taken[pair]), len(sent)) for pair, sent in self.sent.items()}

    def settled(self) -> bool:
        return all(
            self.taken[pair] == sent and self.sites[pair[0]].queued(pair[1]) == 0 for pair, sent in self.sent.items()
        )

    def copies(self, *, records: bool = True) -> int:
        """How many datagrams with records (or without) were sent."""
        return sum(bool(packet.records) is records for _, _, _, packet in self.datagrams)
