"""Ordered and lossless, whatever the network does: by seeds, against lists of what was sent."""

from random import Random

import pytest
from tests.core.intersite.network import MS, Network
from tests.sim.chunks import few

from reconvene.core.intersite.limits import ChannelLimits

SMALL = ChannelLimits(packet_bytes=300, record_bytes=5_000, buffer_bytes=20_000)


def jitter(network: Network, most_ms: int) -> None:
    network.delay_ns = lambda: network.random.randrange(1, most_ms * MS)


@pytest.mark.parametrize("seed", few(range(60), 20))
def test_everything_arrives_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    network = Network(3, SMALL, seed)
    network.loss = random.choice([0, 0.02, 0.1, 0.3])
    network.doubled = random.choice([0, 0.2])
    jitter(network, random.choice([2, 20, 200]))
    for _ in range(random.randrange(20, 200)):
        site, peer = random.sample(range(3), 2)
        size = random.choice([0, 1, 20, 100, 294, 295, 296, 900, 5_000])
        if site not in network.paused:
            network.send(site, peer, random.randbytes(size))
            if random.random() < 0.5:
                network.turn(site)
        if random.random() < 0.05 and not network.paused:
            network.pause(random.randrange(3))
        elif random.random() < 0.1 and network.paused:
            network.resume(network.paused.copy().pop())
        if random.random() < 0.7:
            network.run_for(random.choice([0.1, 3, 50]))
    for site in sorted(network.paused):
        network.resume(site)
    for site in range(3):
        network.turn(site)
    network.settle()
    for channels in network.sites:
        assert channels.counters.malformed == 0
        assert channels.counters.overflow == 0
        assert channels.counters.stale == 0


@pytest.mark.parametrize("seed", range(20))
def test_marks_and_floors_arrive_though_nothing_else_is_sent(seed: int) -> None:
    """The layer above marks what it received later, step by step, over a network that loses much."""
    random = Random(seed)
    network = Network(2, SMALL, seed, marks=False)
    network.loss = random.choice([0, 0.5])
    jitter(network, 5)
    for _ in range(10):
        network.send(0, 1, b"x")
    network.turn(0)
    network.settle()
    zero, one = network.sites
    arrived = released = 0
    while released < 10:
        arrived = random.randint(arrived, 10)
        released = random.randint(released, arrived)
        one.mark(0, arrived, released)
        one.floor = released
        network.turn(1)
        network.run_for(random.choice([0, 1, 1_000]))
        assert zero.arrived(1) <= arrived
        assert zero.released(1) <= released
    network.run_for(20_000)
    assert (zero.arrived(1), zero.released(1), zero.floor_of(1)) == (10, 10, 10)
    assert zero.deadline() is None
    assert one.deadline() is None
