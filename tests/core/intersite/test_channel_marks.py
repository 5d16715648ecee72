"""Marks and the floor are told with what goes anyway, else by a packet of their own."""

import pytest
from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits

LIMITS = ChannelLimits()


def exchanged(sites: int = 2) -> Network:
    """One record from 0 to 1, acknowledged and not marked."""
    network = Network(sites, marks=False)
    network.send(0, 1, b"x")
    network.turn(0)
    network.run_for(10)
    assert len(network.datagrams) == 2
    network.datagrams.clear()
    return network


def test_a_mark_that_comes_later_is_told_at_once() -> None:
    network = exchanged()
    zero, one = network.sites
    assert zero.arrived(1) == 0
    one.mark(0, 1, 0)
    network.turn(1)
    network.run_for(2)
    assert (zero.arrived(1), zero.released(1)) == (1, 0)
    one.mark(0, 1, 1)
    network.turn(1)
    network.run_for(1_000)
    assert (zero.arrived(1), zero.released(1)) == (1, 1)
    assert len(network.datagrams) == 4, "each of them and its ack"


def test_a_mark_goes_with_a_record() -> None:
    network = exchanged()
    network.sites[1].mark(0, 1, 1)
    network.send(1, 0, b"back")
    network.turn(1)
    network.run_for(1_000)
    assert network.sites[0].released(1) == 1
    assert len(network.datagrams) == 2


def test_the_same_mark_again_is_not_told() -> None:
    network = exchanged()
    for _ in range(3):
        network.sites[1].mark(0, 1, 1)
        network.turn(1)
        network.run_for(100)
    assert len(network.datagrams) == 2


def test_only_what_came_can_be_marked() -> None:
    network = exchanged()
    for mark in ((2, 0), (1, 2)):
        with pytest.raises(AssertionError, match="only what was received"):
            network.sites[1].mark(0, *mark)


def test_a_new_floor_is_told_soon_where_records_were_exchanged() -> None:
    network = exchanged()
    zero, one = network.sites
    zero.floor = 2
    network.turn(0)
    assert network.datagrams == []
    network.run_for(LIMITS.tell_after_ns // MS + 5)
    assert one.floor_of(0) == 2
    assert len(network.datagrams) == 2


def test_a_new_floor_is_told_late_where_none_were() -> None:
    network = exchanged(3)
    zero, _, two = network.sites
    zero.floor = 2
    network.turn(0)
    network.run_for(LIMITS.tell_idle_ns // MS - 5)
    assert two.floor_of(0) == 0
    network.run_for(10)
    assert two.floor_of(0) == 2
    network.run_for(100_000)
    assert len(network.datagrams) == 4, "it is told once to each peer"


def test_a_floor_that_is_much_higher_is_told_soon_to_everyone() -> None:
    network = exchanged(3)
    zero, _, two = network.sites
    zero.floor = 2
    network.turn(0)
    network.run_for(200)
    zero.floor = 2 + LIMITS.tell_casts
    network.turn(0)
    network.run_for(LIMITS.tell_after_ns // MS + 5)
    assert two.floor_of(0) == 2 + LIMITS.tell_casts


def test_a_new_floor_goes_with_records_and_acks() -> None:
    network = exchanged()
    zero, one = network.sites
    zero.floor = 2
    network.send(0, 1, b"y")
    network.turn(0)
    network.run_for(2)
    assert one.floor_of(0) == 2
    zero.floor = 3
    network.send(1, 0, b"z")
    network.turn(1)
    network.run_for(1_000)
    assert one.floor_of(0) == 3
    assert len(network.datagrams) == 4
    assert zero.deadline() is None
