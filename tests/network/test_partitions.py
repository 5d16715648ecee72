"""Sites on a network with real cuts: packets between them are dropped, in one direction or both."""

import time
from pathlib import Path

import pytest
from tests.network.load import Load
from tests.network.packets import kernel_counts
from tests.network.sites import RealSites

from reconvene.lab.namespaces import Namespaces, available

WHY_NOT = available()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

MULTICAST = {"transport": {"kind": "multicast", "group": "239.192.7.7:7007"}}
MOST_CONFIGURATIONS = 3
"""Configurations for one change of the network, at each site. One is normal; on a busy machine there may be
another."""
STILL_S = 2.0
"""Longer than any back-off of the membership, after which it would retry what had failed."""


class Cut:
    """A cluster in a network, with a load, through a series of changes."""

    def __init__(self, sites: RealSites, load: Load) -> None:
        self.sites = sites
        self.load = load
        self._before = sites.configurations()

    def leads_to(self, *components: str) -> None:
        """The last change of the network leads to these configurations directly, and all clients continue."""
        self.sites.changed()
        statuses = self.sites.wait_for(*components)
        for name, status in statuses.items():
            entered = status["configurations"] - self._before.get(name, 0)
            assert 0 <= entered <= MOST_CONFIGURATIONS, f"{name} entered {entered} to come to {components}"
            self._before[name] = status["configurations"]
        self.load.until_moved(*statuses, messages=10)

    def stands(self) -> None:
        """No site leaves its present configuration, not even to try another one."""
        while True:
            before = self.sites.configurations()
            time.sleep(STILL_S)
            after = self.sites.configurations()
            if before == after:
                return
            for name, count in after.items():
                assert count - self._before[name] <= MOST_CONFIGURATIONS, f"{name} does not come to rest"


@pytest.mark.long("sites in namespaces for a quarter of a minute; tests/real has a partition")
def test_partition_one_way_cut_and_chain(tmp_path: Path) -> None:
    with Namespaces(5) as network, RealSites(tmp_path, "abcde", network=network) as sites:
        sites.start()
        sites.wait_for()
        with Load(sites.sockets, pause_s=0.02) as load:
            cut = Cut(sites, load)
            network.cut([[0, 1], [2, 3, 4]])
            cut.leads_to("ab", "cde")
            network.heal()
            cut.leads_to("abcde")
            network.cut_one_way(0, 1)  # b learns of a through the others, and c, d and e hear both
            cut.leads_to("acde", "b")
            cut.stands()
            network.heal()
            cut.leads_to("abcde")
            network.chain([0, 1, 2, 3])
            cut.leads_to("ab", "cd", "e")
            cut.stands()
            sites.crash("d")
            cut.leads_to("ab", "c", "e")
            network.heal()
            sites.start("d")
            sites.wait_for()
            load.until_moved()
            load.hold()
        assert not load.trouble
        assert kernel_counts(network, 0)["Ip:FragCreates"] == 0, "every frame has fitted a packet"
        report = sites.judge()
        assert report.events > 1_000


@pytest.mark.long("three sites in namespaces, as in the test of partitions")
def test_multicast(tmp_path: Path) -> None:
    with Namespaces(4) as network, RealSites(tmp_path, "abcd", MULTICAST, network=network) as sites:
        sites.start()
        sites.wait_for()
        with Load(sites.sockets, pause_s=0.02) as load:
            before = [kernel_counts(network, place) for place in range(4)]
            load.until_moved(messages=40)
            counted = [
                {name: count - before[place][name] for name, count in kernel_counts(network, place).items()}
                for place in range(4)
            ]
            for counts in counted:
                sent, to_group = counts["Udp:OutDatagrams"], counts["IpExt:OutMcastPkts"]
                assert to_group > 40, "each turn's messages, in one datagram for all"
                assert sent - to_group < sent / 4, f"{sent} datagrams, of which {to_group} went to the group"
                assert counts["IpExt:InMcastPkts"] > 2 * to_group, "everyone gets everyone's"
            assert sites.counter("a", "dropped_own") > 0, "its own come back from the group"

            cut = Cut(sites, load)
            network.cut([[0, 3], [1, 2]])
            cut.leads_to("ad", "bc")
            network.heal()
            cut.leads_to("abcd")
            network.cut_one_way(3, 2)
            cut.leads_to("abc", "d")
            cut.stands()
            sites.crash("b")
            cut.leads_to("ac", "d")
            network.heal()
            sites.start("b")
            sites.wait_for()
            load.until_moved()
            network.chain([2, 0, 3, 1])  # of the possible pairs, a and c come first by name; d and b remain
            sites.changed()
            sites.wait_for("ac", "bd")
            load.until_moved()
            load.hold()
        assert not load.trouble
        sites.judge("ac", "bd")  # the network stays partitioned: each pair is judged by what it promised to itself
