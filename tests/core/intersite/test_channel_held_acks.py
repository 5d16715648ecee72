"""An ack that nobody waits for goes with something else, or by itself a little later."""

import pytest
from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits

HOLD_NS = ChannelLimits().hold_ack_ns


def sent(count: int = 1, *, marks: bool = True) -> Network:
    """Lone records from 0 to 1, which holds their acks."""
    network = Network(2, marks=marks)
    network.holds = {1}
    for _ in range(count):
        network.send(0, 1, b"answer")
        network.turn(0)
    network.run_for(1.5)
    return network


def acks(network: Network) -> list[tuple[int, int]]:
    """When 1 sent what, in packets with an ack."""
    return [(at, len(packet.records)) for at, site, _, packet in network.datagrams if site == 1 and packet.ack]


def test_it_goes_with_the_next_record() -> None:
    network = sent()
    assert acks(network) == []
    network.send(1, 0, b"next")
    network.turn(1)
    assert acks(network) == [(network.now, 1)]
    network.run_for(1_000)
    zero = network.sites[0]
    assert (zero.queued(1), zero.arrived(1), zero.released(1)) == (0, 1, 1)
    assert network.copies(records=False) == 1, "only that record's own ack"


def test_it_goes_alone_where_nothing_else_does() -> None:
    network = sent()
    came = network.taken_at[0, 1, 1]
    network.run_for(1_000)
    assert acks(network) == [(came + HOLD_NS, 0)]
    zero = network.sites[0]
    assert (zero.queued(1), zero.arrived(1), zero.counters.resent) == (0, 1, 0)


def test_that_of_every_second_packet_leaves_at_once() -> None:
    """The peer may have two that are not full under way: it must not wait for a held ack."""
    network = sent(2)
    assert acks(network) == [(network.taken_at[0, 1, 2], 0)]


def test_a_copy_is_acknowledged_at_once() -> None:
    network = sent()
    _, _, _, packet = network.datagrams[0]
    network.sites[1].receive(packet, network.now)
    network.turn(1)
    assert acks(network) == [(network.now, 0)]


def test_a_mark_of_something_else_does_not_wait() -> None:
    network = sent(marks=False)
    network.sites[1].mark(0, 1, 0)
    network.turn(1)
    assert acks(network) == [(network.now, 0)]
    network.run_for(2)
    assert network.sites[0].arrived(1) == 1


def test_the_time_that_it_is_held_is_no_part_of_the_round_trip() -> None:
    network = sent()
    network.run_for(1_000)
    assert network.sites[0]._channels[1].sender.pace.round_trip_ns == 2 * MS


def test_the_peer_waits_longer_before_it_sends_again() -> None:
    assert ChannelLimits().resend_least_ns > 2 * HOLD_NS


@pytest.mark.parametrize("seed", range(20))
def test_all_comes_over_a_bad_network(seed: int) -> None:
    network = Network(2, seed=seed)
    network.holds = {0, 1}
    network.loss = network.doubled = 0.1
    network.delay_ns = lambda: network.random.randrange(MS, 3 * MS)
    for _ in range(100):
        source = network.random.randrange(2)
        network.send(source, 1 - source, network.random.randbytes(network.random.choice((10, 100, 20_000))))
        network.turn(source)
        network.run_for(network.random.expovariate(1 / 3))
    network.settle()
    network.run_for(1_000)
    for site in (0, 1):
        assert network.sites[site].released(1 - site) == len(network.sent[site, 1 - site])
