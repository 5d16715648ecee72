"""What is under way fits the receive buffer, whoever sends; what waits is bounded."""

from collections import defaultdict
from random import Random

import pytest
from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import AHEAD, ChannelLimits
from reconvene.core.multicast.window import weight
from reconvene.errors import Rejected, Unavailable

LIMITS = ChannelLimits(packet_bytes=500, buffer_bytes=60_000)


def most_under_way(network: Network, to: int) -> int:
    """The highest weight of packets that were on their way to a site at the same time, where each took the same
    time."""
    delay = network.delay_ns()
    changes: defaultdict[int, int] = defaultdict(int)
    for at, _, receiver, packet in network.datagrams:
        if receiver == to and packet.records:
            size = weight(sum(map(len, packet.records)))
            changes[at] += size
            changes[at + delay] -= size
    most = total = 0
    for at in sorted(changes):
        total += changes[at]
        most = max(most, total)
    return most


@pytest.mark.parametrize("senders", [1, 2, 5])
def test_what_is_under_way_fits_the_receive_buffer(senders: int) -> None:
    network = Network(6, LIMITS)
    for sender in range(1, senders + 1):
        for _ in range(400):
            network.send(sender, 0, bytes(400))
        network.turn(sender)
    network.settle()
    assert LIMITS.buffer_bytes // 2 < most_under_way(network, 0) <= LIMITS.buffer_bytes


def test_a_peer_that_begins_later_fits_too() -> None:
    network = Network(6, LIMITS)
    for sender in range(1, 6):
        for _ in range(800):
            network.send(sender, 0, bytes(400))
        network.turn(sender)
        network.run_for(15)
    network.settle()
    # The share of those that sent before shrinks a round trip later.
    assert most_under_way(network, 0) <= LIMITS.buffer_bytes * 5 // 4


def test_one_packet_may_always_be_under_way() -> None:
    network = Network(2, ChannelLimits(buffer_bytes=1))
    for _ in range(5):
        network.send(0, 1, bytes(8_000))
    network.turn(0)
    assert network.copies() == 1
    network.settle()


def test_the_window_shrinks_where_a_queue_builds_up() -> None:
    network = Network(2, LIMITS)
    busy_until = [0]

    def one_by_one() -> int:
        """A link that passes a packet each 10 ms."""
        busy_until[0] = max(busy_until[0], network.now) + 10 * MS
        return busy_until[0] - network.now

    network.send(0, 1, b"first")
    network.turn(0)
    network.settle()
    network.delay_ns = one_by_one
    for _ in range(300):
        network.send(0, 1, bytes(400))
    network.turn(0)
    network.run_for(3_000)
    before, packets = network.sites[0].counters.resent, network.copies()
    network.settle()
    assert network.copies() - packets > 100
    assert network.sites[0].counters.resent - before <= 5, "the queue on the way is short enough to be no loss"


def test_no_more_packets_are_under_way_than_gaps_can_name() -> None:
    network = Network(2, ChannelLimits(packet_bytes=100, buffer_bytes=1 << 20))
    for _ in range(500):
        network.send(0, 1, bytes(80))
    network.turn(0)
    assert network.copies() == AHEAD
    network.settle()


def test_all_that_came_beyond_a_gap_is_told() -> None:
    """The first of 64 packets is lost: it alone is sent again."""
    network = Network(2, ChannelLimits(packet_bytes=100, buffer_bytes=1 << 20))
    for _ in range(AHEAD):
        network.send(0, 1, bytes(80))
    for (to,), data in network.sites[0].flush(network.now)[1:]:
        network.put(to, data, network.now + MS)
    network.settle()
    assert network.sites[0].counters.resent == 1
    assert network.sites[1].counters.duplicates == 0


def test_a_record_that_is_too_long_is_rejected() -> None:
    network = Network(2, ChannelLimits(record_bytes=1_000))
    with pytest.raises(Rejected, match="1001 bytes"):
        network.sites[0].send(1, bytes(1_001))
    network.send(0, 1, bytes(1_000))
    network.turn(0)
    network.settle()


@pytest.mark.parametrize("limits", [ChannelLimits(queue_bytes=10_000), ChannelLimits(queue_records=100)])
def test_what_waits_is_bounded(limits: ChannelLimits) -> None:
    network = Network(2, limits)
    for _ in range(100):
        network.send(0, 1, bytes(95))
    with pytest.raises(Unavailable):
        network.send(0, 1, bytes(95))
    assert network.sites[0].queued(1) >= 9_500
    network.turn(0)
    network.settle()


@pytest.mark.parametrize("size", [8_895, 8_896, 100_000, 16 << 20])
def test_long_records_go_in_fragments(size: int) -> None:
    network = Network(2)
    network.send(0, 1, b"before")
    network.send(0, 1, network.random.randbytes(size))
    network.send(0, 1, b"after")
    network.turn(0)
    network.settle()
    assert network.sites[0].counters.records == 3
    assert network.sites[0].counters.resent == 0


def _to_a_far_site(delay_ms: int) -> Network:
    """Six sites have 200 KB each for one that is far away."""
    network = Network(7)
    network.delay_ns = lambda: delay_ms * MS
    for sender in range(1, 7):
        network.send(sender, 0, b"first")
        network.turn(sender)
    network.settle()
    network.run_for(1_000)
    network.datagrams.clear()
    for sender in range(1, 7):
        for _ in range(17):
            network.send(sender, 0, bytes(12_000))
        network.turn(sender)
    return network


def test_a_long_link_is_filled_though_shares_are_small() -> None:
    """A packet of 8,900 bytes takes 16,640 of the receive buffer, and the share of each is 15,974."""
    network = _to_a_far_site(60)
    began = network.now
    network.settle()
    assert most_under_way(network, 0) <= ChannelLimits().buffer_bytes
    took = max(at for (_, to, _), at in network.taken_at.items() if to == 0) - began
    assert took < 2_500 * MS, "one packet of up to 8,900 bytes a round trip took 34 round trips"


def test_packets_are_large_where_the_link_is_short() -> None:
    network = Network(3)
    network.delay_ns = lambda: MS // 5
    for _ in range(100):
        network.send(0, 1, bytes(3_000))
    network.turn(0)
    network.settle()
    sizes = [sum(map(len, packet.records)) for _, _, receiver, packet in network.datagrams if receiver == 1]
    assert max(sizes) > 5_000


@pytest.mark.parametrize("seed", range(20))
def test_records_come_whole_where_packets_become_larger_and_smaller(seed: int) -> None:
    """Round trips change all the time, and with them the size of packets."""
    random = Random(seed)
    network = Network(4)
    network.delay_ns = lambda: MS // 5
    sent = [random.randbytes(random.choice((10, 3_000, 9_000, 12_000, 60_000))) for _ in range(60)]
    for record in sent:
        network.delay_ns = lambda: random.choice((1, 1, 30, 80)) * MS // 5
        network.send(1, 0, record)
        network.turn(1)
        network.run_for(random.choice((0, 1, 30)))
    network.settle()
    assert network.taken[1, 0] == sent


def test_a_link_that_becomes_longer_is_filled_again() -> None:
    """The shortest round trip was remembered for ever: all later ones looked as if a queue had built up."""
    network = Network(2)
    network.send(0, 1, b"first")
    network.turn(0)
    network.settle()
    network.delay_ns = lambda: 60 * MS
    began = network.now
    for _ in range(100):
        network.send(0, 1, bytes(12_000))
    network.turn(0)
    network.settle()
    took = network.taken_at[0, 1, 101] - began
    assert took < 10_000 * MS, "at one small packet a round trip it took half a minute"
