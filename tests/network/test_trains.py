"""Trains between network namespaces with an MTU of 1,500, whose links carry true packets."""

import subprocess
from pathlib import Path

import pytest
from tests.network.load import Load
from tests.network.packets import Recorder, kernel_counts
from tests.network.sites import RealSites, until

from reconvene.lab.namespaces import Namespaces, available

WHY_NOT = available()
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.long("sites in namespaces; tests/runtime/net/test_trains.py has trains on the loopback"),
]
PACKET = 1_500 - 28


def lose(network: Namespaces, place: int, percent: int) -> None:
    """From now on this share of the packets that arrive at a site is dropped there."""
    rules = (
        "add table ip loss; flush table ip loss; "
        "add chain ip loss in { type filter hook input priority 0; }; "
        f"add rule ip loss in meta l4proto udp numgen random mod 100 < {percent} drop"
    )
    subprocess.run(["ip", "netns", "exec", network.names[place], "nft", rules], check=True, timeout=20)


def sent(sites: RealSites, counter: str) -> int:
    return sum(sites.counter(name, counter) for name in sites.names)


def test_trains_are_packets_on_the_wire(tmp_path: Path) -> None:
    with Namespaces(2, mtu=1500, true_packets=True) as network, RealSites(tmp_path, "ab", network=network) as sites:
        sites.start()
        sites.wait_for()
        recorder = Recorder(network, 1)
        with Load(sites.sockets, size=30_000) as load:
            until(lambda: sites.counter("a", "sent_trains") > 20, "trains")
            load.until_moved(messages=20)
            load.hold()
            load.until_delivered(load.accepted(), *"ab")
        assert not load.trouble
        lengths = [len(packet.data) for packet in recorder.take()]
        recorder.close()
        assert max(lengths) <= PACKET
        assert lengths.count(PACKET) > 100, "full packets"
        for place in (0, 1):
            assert kernel_counts(network, place)["Ip:FragCreates"] == 0
        for name in "ab":
            assert sites.counter(name, "received_trains") > 0
            assert sites.counter(name, "malformed") == 0
        sites.judge()


def test_loss_makes_trains_short_and_nothing_else(tmp_path: Path) -> None:
    """A path that was good loses one packet in twenty: the sites stay together, and go on."""
    with Namespaces(3, mtu=1500, true_packets=True) as network, RealSites(tmp_path, "abc", network=network) as sites:
        sites.start()
        sites.wait_for()
        with Load(sites.sockets, size=30_000) as load:
            until(lambda: sent(sites, "sent_trains") > 100, "trains")
            before = sites.configurations()
            for place in range(3):
                lose(network, place, 5)
            load.until_moved(messages=50)
            trains, datagrams = sent(sites, "sent_trains"), sent(sites, "sent_datagrams")
            load.until_moved(messages=50)
            trains, datagrams = sent(sites, "sent_trains") - trains, sent(sites, "sent_datagrams") - datagrams
            assert trains * 5 < datagrams, "frames fit a packet again, but for a few"
            for place in range(3):
                lose(network, place, 0)
            load.until_moved(messages=20)
            load.hold()
            load.until_delivered(load.accepted(), *"abc")
        assert not load.trouble
        assert sites.configurations() == before, "nobody was suspected"
        sites.judge()
