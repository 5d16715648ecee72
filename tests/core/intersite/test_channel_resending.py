"""When a packet is sent again: by measured round trips, so that no copy is sent in vain and no loss takes long."""

from itertools import pairwise

import pytest
from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.intersite.pace import Pace

LIMITS = ChannelLimits()


def stream(network: Network, count: int, every_ms: float, size: int = 200) -> None:
    for _ in range(count):
        network.send(0, 1, bytes(size))
        network.turn(0)
        network.run_for(every_ms)
    network.settle()


@pytest.mark.parametrize(("delay_ms", "most"), [(1, 0), (10, 0), (45, 0), (300, 3)])
def test_without_losses_nothing_is_sent_again(delay_ms: int, most: int) -> None:
    """… once a round trip is measured."""
    network = Network(2)
    network.delay_ns = lambda: delay_ms * MS
    stream(network, 50, 3)
    assert network.sites[0].counters.resent <= most


def test_few_copies_where_the_network_reorders() -> None:
    network = Network(2)
    network.delay_ns = lambda: network.random.randrange(1 * MS, 20 * MS)
    stream(network, 1_000, 1)
    counters = network.sites[0].counters
    assert counters.resent <= counters.packets // 20


@pytest.mark.parametrize(("loss", "most"), [(0.01, 1.1), (0.1, 1.3)])
def test_copies_under_losses(loss: float, most: float) -> None:
    """A lost packet needs another copy, a lost ack does not where a later one comes."""
    network = Network(2)
    network.delay_ns = lambda: network.random.randrange(1 * MS, 3 * MS)
    network.loss = loss
    stream(network, 1_000, 1)
    counters = network.sites[0].counters
    assert (counters.packets + counters.resent) / counters.packets <= most


def test_a_loss_that_later_packets_show_is_repaired_in_a_round_trip() -> None:
    network = Network(2)
    network.delay_ns = lambda: 10 * MS
    stream(network, 20, 5)
    network.loss = 1.0
    lost = network.send(0, 1, b"lost")
    network.turn(0)
    sent_at = network.now
    network.loss = 0.0
    network.run_for(1)
    network.send(0, 1, b"shows it")
    network.turn(0)
    network.settle()
    assert network.taken_at[0, 1, lost] - sent_at <= 45 * MS


def test_a_loss_that_nothing_shows_is_repaired_by_the_timer() -> None:
    network = Network(2)
    stream(network, 50, 5)
    network.loss = 1.0
    lost = network.send(0, 1, b"lost")
    network.turn(0)
    sent_at = network.now
    network.loss = 0.0
    network.settle()
    assert network.taken_at[0, 1, lost] - sent_at <= 2 * MS + LIMITS.resend_least_ns + 2 * MS


def test_many_lost_at_the_end_are_repaired_together() -> None:
    """The timer repairs the oldest one, and its ack shows that the others are lost."""
    network = Network(2)
    stream(network, 50, 5)
    network.loss = 1.0
    for _ in range(6):
        network.send(0, 1, bytes(8_000))
    network.turn(0)
    assert network.sites[0].counters.packets >= 55
    sent_at = network.now
    network.loss = 0.0
    network.settle()
    assert max(network.taken_at.values()) - sent_at <= 25 * MS


def test_the_time_doubles_and_is_bounded() -> None:
    network = Network(2)
    network.loss = 1.0
    network.send(0, 1, b"x")
    network.turn(0)
    network.run_for(5_000)
    times = [at for at, *_ in network.datagrams]
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps[:3] == [LIMITS.resend_first_ns * factor for factor in (1, 2, 4)]
    assert set(gaps[2:]) == {LIMITS.resend_most_ns}


def test_a_round_trip_is_measured_also_where_every_packet_is_sent_again() -> None:
    """Each copy has its own stamp: an ack that answers the first copy is not taken for an answer to the second."""
    network = Network(2)
    network.delay_ns = lambda: 200 * MS
    network.send(0, 1, b"x")
    network.turn(0)
    network.settle()
    assert network.sites[0].counters.resent > 0
    pace = network.sites[0]._channels[1].sender.pace
    assert pace.round_trip_ns == 400 * MS


def test_a_pause_of_the_peer_does_not_make_the_channel_slow() -> None:
    pace = Pace(LIMITS)
    now = 0
    for _ in range(20):
        now += 10 * MS
        pace.sample(now - 2 * MS, now)
    before = pace.resend_after_ns(0)
    now += 5_000 * MS
    pace.sample(now - 5_000 * MS, now)
    assert pace.resend_after_ns(0) < 200 * MS
    for _ in range(30):
        now += 10 * MS
        pace.sample(now - 2 * MS, now)
    assert pace.resend_after_ns(0) < 2 * before


@pytest.mark.parametrize("stamp", [0, 999, 2_001, 2**62])
def test_stamps_of_another_time_are_ignored(stamp: int) -> None:
    pace = Pace(LIMITS)
    pace.valid_from = 1_000
    pace.sample(stamp, 2_000)
    assert pace.round_trip_ns == 0
