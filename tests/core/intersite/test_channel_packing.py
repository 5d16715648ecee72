"""A lone record leaves at once; under load records share packets. Datagrams are counted, and no clock is read."""

import pytest
from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits


def test_a_lone_record_takes_one_delay_and_two_datagrams() -> None:
    network = Network(2)
    sent_at = network.now
    network.send(0, 1, b"lone")
    network.turn(0)
    network.run_for(1_000)
    assert network.taken_at[0, 1, 1] == sent_at + MS, "no timer delays it"
    assert [(source, packet.records) for _, source, _, packet in network.datagrams] == [(0, [b"lone"]), (1, [])]
    assert network.sites[0].queued(1) == 0
    assert (network.sites[0].arrived(1), network.sites[0].released(1)) == (1, 1), "the marks came with the ack"


def test_nothing_is_sent_where_nothing_happens() -> None:
    network = Network(3)
    for site in range(3):
        network.turn(site)
    assert network.datagrams == []
    assert [channels.deadline() for channels in network.sites] == [None] * 3


def test_acks_leave_with_records_that_go_anyway() -> None:
    network = Network(2)
    network.send(0, 1, b"there")
    network.turn(0)
    network.run_for(0.5)
    network.send(1, 0, b"back")
    network.run_for(10)
    assert network.copies() == 2
    assert network.copies(records=False) == 1, "the first record's ack went with the second record"


def load(every_us: int, size: int = 100, count: int = 600) -> float:
    """Records a packet, where one record is sent each so many µs and a round trip takes 2 ms."""
    network = Network(2)
    for _ in range(count):
        network.send(0, 1, bytes(size))
        network.turn(0)
        network.run_for(every_us / 1_000)
    network.settle()
    counters = network.sites[0].counters
    assert counters.records == count
    assert counters.resent == 0
    assert counters.packets == network.copies()
    return counters.records / counters.packets


def test_packing_grows_with_the_load() -> None:
    light, heavy = load(every_us=5_000), load(every_us=50)
    assert light == 1
    assert heavy >= 3 * light
    assert load(every_us=5) > 2 * heavy


def test_at_most_two_packets_that_are_not_full_are_unacknowledged() -> None:
    network = Network(2)
    for record in (b"one", b"two", b"three", b"four"):
        network.send(0, 1, record)
        network.turn(0)
    assert [packet.records for *_, packet in network.datagrams] == [[b"one"], [b"two"]]
    network.settle()
    assert network.datagrams[-2][3].records == [b"three", b"four"]


def test_a_full_packet_need_not_wait() -> None:
    limits = ChannelLimits(packet_bytes=1_000)
    network = Network(2, limits)
    for _ in range(3):
        network.send(0, 1, b"small")
        network.turn(0)
    assert network.copies() == 2
    for _ in range(12):
        network.send(0, 1, bytes(95))
    network.turn(0)
    assert network.copies() == 3
    last = network.datagrams[-1][3].records
    assert 850 < sum(map(len, last)) <= limits.packet_bytes


@pytest.mark.parametrize("size", [1, 994, 995, 996, 2_000])
def test_no_packet_is_longer_than_the_limit(size: int) -> None:
    limits = ChannelLimits(packet_bytes=1_000)
    network = Network(2, limits)
    for _ in range(50):
        network.send(0, 1, bytes(size))
    network.turn(0)
    network.settle()
    assert max(sum(map(len, packet.records)) for *_, packet in network.datagrams) <= limits.packet_bytes


def datagrams(sites: int, every_ms: int) -> int:
    """All datagrams where site 0 sends a record to each of two peers, again and again, and tells its floor."""
    network = Network(sites)
    zero = network.sites[0]
    for _ in range(400):
        for peer in (1, 2):
            network.send(0, peer, b"x")
        zero.floor = min(zero.released(1), zero.released(2)) + 1
        network.turn(0)
        network.run_for(every_ms)
    return len(network.datagrams)


@pytest.mark.parametrize("every_ms", [1, 20])
def test_peers_that_take_no_part_cost_nearly_nothing(every_ms: int) -> None:
    assert datagrams(16, every_ms) / datagrams(3, every_ms) <= 1.1
