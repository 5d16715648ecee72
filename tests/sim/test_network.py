"""The network's promises, one link at a time."""

from random import Random

import pytest

from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.loop import Loop
from reconvene.sim.network import Network

MS = 1_000_000


class Net:
    """Three ends that write down what reaches them, and when."""

    def __init__(self, conditions: Conditions, links: dict[tuple[int, int], Changes] | None = None) -> None:
        self.loop = Loop()
        self.arrived: list[list[tuple[int, bytes]]] = [[], [], []]
        receivers = [self._receiver(end) for end in range(3)]
        self.network = Network(self.loop, receivers, Random("net"), conditions, links)

    def _receiver(self, end: int):  # type: ignore[no-untyped-def]
        return lambda data: self.arrived[end].append((self.loop.now, data))

    def send(self, source: int, *destinations: int, data: bytes = b"x") -> None:
        self.network.transmit(source, [(destinations, data)])

    def count(self, end: int) -> int:
        return len(self.arrived[end])


STEADY = Conditions(latency_ns=5 * MS, jitter_ns=0)


def test_latency() -> None:
    net = Net(STEADY)
    net.send(0, 1, 2)
    net.loop.run(20 * MS)
    assert net.arrived == [[], [(5 * MS, b"x")], [(5 * MS, b"x")]]


def test_jitter_spreads_and_does_not_reorder() -> None:
    net = Net(Conditions(latency_ns=MS, jitter_ns=10 * MS))
    for number in range(100):
        net.loop.run(number * MS)
        net.send(0, 1, data=b"%d" % number)
    net.loop.run(500 * MS)
    assert [data for _, data in net.arrived[1]] == [b"%d" % number for number in range(100)]
    delays = [at - number * MS for number, (at, _) in enumerate(net.arrived[1])]
    assert min(delays) >= MS
    assert max(delays) <= 11 * MS
    assert len(set(delays)) > 50


def test_loss() -> None:
    net = Net(Conditions(loss=0.25))
    for _ in range(4000):
        net.send(0, 1)
    net.loop.run(100 * MS)
    assert 2850 < net.count(1) < 3150
    assert net.network.traffic.lost == 4000 - net.count(1)


def test_duplicates() -> None:
    net = Net(Conditions(duplicate=0.5))
    for _ in range(1000):
        net.send(0, 1)
    net.loop.run(100 * MS)
    assert 1400 < net.count(1) < 1600


def test_reordering() -> None:
    net = Net(Conditions(latency_ns=10 * MS, jitter_ns=0, reorder=0.2))
    for number in range(200):
        net.loop.run(number * MS)
        net.send(0, 1, data=b"%03d" % number)
    net.loop.run(1000 * MS)
    order = [data for _, data in net.arrived[1]]
    assert len(order) == 200
    assert order != sorted(order)


def test_a_partition_replaces_all_connectivity() -> None:
    net = Net(STEADY)
    net.network.cut(0, 1)
    net.network.partition([[0, 1]])
    net.send(0, 1, 2)
    net.send(2, 0, 1)
    net.loop.run(20 * MS)
    assert (net.count(0), net.count(1), net.count(2)) == (0, 1, 0)
    assert net.network.components() == [[0, 1], [2]]
    net.network.heal()
    net.send(0, 1, 2)
    net.loop.run(40 * MS)
    assert (net.count(1), net.count(2)) == (2, 1)


def test_what_is_under_way_when_the_network_parts_does_not_arrive() -> None:
    net = Net(STEADY)
    net.send(0, 1)
    net.loop.run(4 * MS)
    net.network.partition([[0], [1, 2]])
    net.loop.run(20 * MS)
    assert net.count(1) == 0
    assert net.network.traffic.parted == 1


def test_a_cut_is_one_way() -> None:
    net = Net(STEADY)
    net.network.cut(0, 1)
    net.send(0, 1, 2)
    net.send(1, 0)
    net.loop.run(20 * MS)
    assert (net.count(0), net.count(1), net.count(2)) == (1, 0, 1)
    net.network.mend(0, 1)
    net.send(0, 1)
    net.loop.run(40 * MS)
    assert net.count(1) == 1


def test_mtu() -> None:
    net = Net(STEADY, {(1, 0): Changes(mtu=100)})
    net.send(0, 1, 2, data=bytes(101))
    net.send(0, 1, data=bytes(100))
    net.loop.run(20 * MS)
    assert (net.count(1), net.count(2)) == (1, 1)
    assert net.network.traffic.oversize == 1


def test_bandwidth_of_a_nodes_way_out() -> None:
    net = Net(Conditions(latency_ns=0, jitter_ns=0, bandwidth_bps=8_000_000))
    for _ in range(10):
        net.send(0, 1, 2, data=bytes(972))
    net.loop.run(1000 * MS)
    assert net.arrived[2][-1][0] == 20 * MS, "twenty copies of 1,000 bytes with their headers, at 1 MB a second"


def test_bandwidth_of_a_link() -> None:
    net = Net(Conditions(latency_ns=0, jitter_ns=0), {(0, 1): Changes(bandwidth_bps=8_000_000)})
    for _ in range(10):
        net.send(0, 1, 2, data=bytes(972))
    net.loop.run(1000 * MS)
    assert net.arrived[1][-1][0] == 10 * MS
    assert net.arrived[2][-1][0] == 0


def test_a_narrow_link_has_a_bounded_queue() -> None:
    net = Net(Conditions(jitter_ns=0, bandwidth_bps=1_000_000))
    for _ in range(1000):
        net.send(0, 1, data=bytes(972))
    net.loop.run(10_000 * MS)
    assert 60 < net.count(1) < 80
    assert net.network.traffic.overflow == 1000 - net.count(1)


def test_changes_keep_what_a_link_has_of_its_own() -> None:
    net = Net(STEADY, {(0, 1): Changes(latency_ns=50 * MS)})
    net.network.change(Changes(latency_ns=7 * MS))
    net.send(0, 1, 2)
    net.loop.run(100 * MS)
    assert (net.arrived[1][0][0], net.arrived[2][0][0]) == (50 * MS, 7 * MS)


def test_overlays_come_and_go() -> None:
    net = Net(STEADY)
    one = net.network.overlay(Changes(loss=1.0), [(0, 1)])
    net.send(0, 1, 2)
    net.network.lift(one)
    net.send(0, 1)
    net.loop.run(20 * MS)
    assert (net.count(1), net.count(2)) == (1, 1)


def test_calm() -> None:
    net = Net(Conditions(loss=1.0), {(0, 2): Changes(mtu=1, duplicate=1.0, reorder=1.0)})
    net.network.overlay(Changes(loss=1.0))
    net.network.calm()
    net.send(0, 1, 2, data=b"large")
    net.loop.run(20 * MS)
    assert (net.count(1), net.count(2)) == (1, 1)


def test_nothing_is_sent_to_oneself() -> None:
    with pytest.raises(AssertionError):
        Net(STEADY).send(0, 0)


def test_the_loop_keeps_the_order_of_what_happens_at_one_time() -> None:
    loop, seen = Loop(), list[str]()
    loop.at(5, seen.append, "b")
    loop.at(3, seen.append, "a")
    loop.at(5, seen.append, "c")
    loop.run(4)
    assert (seen, loop.now) == (["a"], 4)
    assert loop.step(9)
    assert loop.step(9)
    assert not loop.step(9)
    assert (seen, loop.now) == (["a", "b", "c"], 9)
