"""Only the two incarnations that a channel is between talk over it (paper 002, 4.1: "you are dead")."""

import pytest
from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits
from reconvene.wire.messages import Packet

LIMITS = ChannelLimits()


def dead(network: Network) -> list[tuple[int, int, int]]:
    """(from, to, the dead incarnation) of all such packets."""
    return [(source, to, packet.there) for _, source, to, packet in network.datagrams if packet.dead]


def test_a_dead_incarnation_is_told_so_and_sends_no_more() -> None:
    network = Network(2)
    network.sites[1].disconnect(0)
    network.send(0, 1, b"late")
    network.turn(0)
    network.run_for(10_000)
    assert dead(network) == [(1, 0, 1)]
    assert network.taken[0, 1] == []
    zero = network.sites[0]
    assert zero.dead() == [1]
    assert zero.queued(1) == 0
    assert zero.deadline() is None
    assert zero.send(1, b"more") == 2
    network.turn(0)
    assert network.copies() == 1
    assert zero.queued(1) == 0
    assert zero.stalled(network.now + 60_000 * MS) == []


def test_it_is_told_so_at_most_every_100_ms() -> None:
    network = Network(2)
    network.sites[1].disconnect(0)
    late = Packet(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, [b"late"])
    for _ in range(1_000):
        network.sites[1].receive(late, network.now)
        network.turn(1)
        network.now += MS
    assert 9 <= len(dead(network)) <= 11
    assert network.sites[1].counters.stale == 1_000


def test_an_older_incarnation_is_dead_where_a_newer_one_has_a_channel() -> None:
    network = Network(2)
    network.send(0, 1, b"old")
    network.turn(0)
    network.connect(1, 0, here=1, there=7)
    network.run_for(5)
    assert dead(network) == [(1, 0, 1)]
    network.connect(0, 1, here=7, there=1)
    assert network.sites[0].dead() == []
    network.sent.clear()
    network.send(0, 1, b"new")
    network.turn(0)
    network.settle()
    assert network.taken[0, 1] == [b"new"]


def test_what_says_that_an_earlier_incarnation_is_dead_does_not_harm_a_later_one() -> None:
    network = Network(2)
    network.connect(1, 0, here=1, there=7)
    network.connect(0, 1, here=7, there=1)
    told = Packet(1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, dead=True)
    network.sites[0].receive(told, network.now)
    assert network.sites[0].dead() == []
    assert network.sites[0].counters.stale == 1


def test_a_packet_for_an_earlier_incarnation_of_this_site_is_dropped() -> None:
    """The sender lives, and will learn of this site's new incarnation."""
    network = Network(2)
    network.send(0, 1, b"for the old one")
    network.turn(0)
    network.connect(1, 0, here=9, there=1)
    network.run_for(50)
    assert network.taken[0, 1] == []
    assert [packet for _, source, _, packet in network.datagrams if source == 1] == []


def test_a_newcomers_packets_are_neither_delivered_nor_answered_before_its_channel() -> None:
    """… and are asked for at once when the channel begins: no timer passes."""
    network = Network(2)
    network.connect(0, 1, here=5, there=1)
    for record in (b"early", b"bird"):
        network.send(0, 1, record)
        network.turn(0)
    network.run_for(3_000)
    assert network.taken[0, 1] == []
    assert {source for _, source, _, _ in network.datagrams} == {0}
    assert network.sites[0].stalled(network.now) == [1], "the peer has not begun for very long"
    network.connect(1, 0, here=1, there=5)
    begun_at = network.now
    network.turn(1)
    network.settle()
    assert network.taken_at[0, 1, 2] == begun_at + 2 * MS


def test_nothing_is_asked_for_where_nothing_was_missed() -> None:
    network = Network(2)
    network.connect(0, 1, here=5, there=1)
    network.connect(1, 0, here=1, there=5)
    network.turn(1)
    assert network.datagrams == []


def test_the_same_incarnations_again_change_nothing() -> None:
    network = Network(2)
    network.send(0, 1, b"one")
    network.turn(0)
    network.connect(0, 1)
    network.connect(1, 0)
    assert network.send(0, 1, b"two") == 2
    network.turn(0)
    network.settle()


def test_a_channel_that_was_given_up_is_not_taken_up_again() -> None:
    network = Network(2)
    network.sites[0].disconnect(1)
    with pytest.raises(AssertionError, match="given up"):
        network.connect(0, 1)
    network.connect(0, 1, here=1, there=2)
    assert network.sites[0].arrived(1) == network.sites[0].released(1) == network.sites[0].floor_of(1) == 0


def test_what_is_not_connected_knows_nothing() -> None:
    network = Network(3)
    zero = network.sites[0]
    zero.disconnect(1)
    zero.disconnect(1)
    assert zero.peers == [2]
    assert (zero.queued(1), zero.arrived(1), zero.released(1), zero.floor_of(1)) == (0, 0, 0, 0)
