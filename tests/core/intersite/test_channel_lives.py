"""Sites die and come back in a new incarnation, and each site learns of it at another time: by seeds, against lists.

What arrives at an incarnation is a prefix of what that incarnation's peer sent to it, and once nobody dies any more,
all of it.
"""

from collections import defaultdict
from heapq import heappop, heappush
from random import Random

import pytest
from tests.core.intersite.network import MS
from tests.sim.chunks import few

from reconvene.core.intersite.channels import Channels
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.wire.codec import decode
from reconvene.wire.messages import Packet

LIMITS = ChannelLimits(packet_bytes=300, record_bytes=5_000, buffer_bytes=20_000)
SITES = 3
Ends = tuple[int, int, int, int]
"""The sender, its born, the receiver, its born."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 1
        self.loss = self.random.choice([0, 0.1, 0.3])
        self.number = 1
        self.born = [1] * SITES
        self.sites = [Channels(site, LIMITS) for site in range(SITES)]
        self.ends: list[dict[int, tuple[int, int]]] = [{} for _ in range(SITES)]
        """What each site knows: by peer, its own born and the peer's."""
        self.sent: defaultdict[Ends, list[bytes]] = defaultdict(list)
        self.taken: defaultdict[Ends, list[bytes]] = defaultdict(list)
        self.wire: list[tuple[int, int, int, bytes]] = []
        self.order = 0
        for site in range(SITES):
            self.learn(site)

    def learn(self, site: int) -> None:
        """The site adopts the newest site view."""
        for peer in range(SITES):
            if peer != site:
                self.sites[site].connect(peer, self.born[site], self.born[peer], self.now)
                self.ends[site][peer] = (self.born[site], self.born[peer])

    def die(self, site: int) -> None:
        """It is born again. Half of the time its memory is gone too, as after a crash."""
        self.number += self.random.randint(1, 3)
        self.born[site] = self.number
        if self.random.random() < 0.5:
            self.sites[site] = Channels(site, LIMITS)
            self.ends[site] = {}

    def send(self, site: int, peer: int, record: bytes) -> None:
        ends = self.ends[site].get(peer)
        if ends is not None:
            self.sites[site].send(peer, record)
            self.sent[site, ends[0], peer, ends[1]].append(record)

    def turn(self, site: int) -> None:
        for (to,), data in self.sites[site].flush(self.now):
            if self.random.random() >= self.loss:
                for _ in range(self.random.choice([1, 1, 1, 2])):
                    self.order += 1
                    heappush(self.wire, (self.now + self.random.randrange(1, 30 * MS), self.order, to, data))
        self.sites[site].invariants()

    def receive(self, to: int, data: bytes) -> None:
        packet = decode(data)
        assert isinstance(packet, Packet)
        peer = packet.site
        for number, record in self.sites[to].receive(packet, self.now):
            here, there = self.ends[to][peer]
            ends = (peer, there, to, here)
            assert number == len(self.taken[ends]) + 1
            assert record == self.sent[ends][number - 1]
            self.taken[ends].append(record)

    def run(self, ns: int) -> None:
        end = self.now + ns
        while True:
            due = [(at, site) for site, one in enumerate(self.sites) if (at := one.deadline()) is not None]
            at, site = min(due, default=(end, -1))
            first = self.wire[0][0] if self.wire else end
            if min(at, first) >= end:
                self.now = end
                return
            self.now = max(self.now, min(at, first))
            if first <= at:
                _, _, site, data = heappop(self.wire)
                self.receive(site, data)
            self.turn(site)


@pytest.mark.parametrize("seed", few(range(60), 20))
def test_only_living_incarnations_talk(seed: int) -> None:
    world = World(seed)
    random = world.random
    for _ in range(200):
        site, peer = random.sample(range(SITES), 2)
        world.send(site, peer, random.randbytes(random.choice([1, 50, 290, 1_000])))
        if random.random() < 0.05:
            world.die(random.randrange(SITES))
        if random.random() < 0.2:
            world.learn(random.randrange(SITES))
        world.turn(site)
        world.run(random.randrange(10 * MS))
    for site in range(SITES):
        world.learn(site)
        world.turn(site)
    world.run(60_000 * MS)
    assert [one.dead() for one in world.sites] == [[]] * SITES
    for site in range(SITES):
        for peer in {0, 1, 2} - {site}:
            ends = (site, world.born[site], peer, world.born[peer])
            assert world.taken[ends] == world.sent[ends]
            assert world.sites[site].queued(peer) == 0
    assert all(one.counters.malformed == 0 for one in world.sites)
