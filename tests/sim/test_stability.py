"""One-way and non-transitive connectivity ends in stable configurations.

The bound: after a change of the topology each site installs at most two regular configurations, and none in the
minute that follows, whatever links are cut; with a tenth of all datagrams lost besides, at most four in that minute.
"""

from collections.abc import Iterable
from random import Random

import pytest
from tests.sim.chunks import few

from reconvene.core.membership.cliques import partition, two_way
from reconvene.ids import Service
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.core import EvsSite

SECOND = 1_000_000_000
MOST_AFTER_A_CHANGE = 2
MOST_IN_A_LOSSY_MINUTE = 4

Pair = tuple[int, int]


def all_but(size: int, links: Iterable[Pair]) -> list[Pair]:
    """Everything is cut but these links, which work both ways."""
    kept = {pair for one, two in links for pair in ((one, two), (two, one))}
    return [(one, two) for one in range(size) for two in range(size) if one != two and (one, two) not in kept]


def some_of(size: int, share: float, seed: int) -> list[Pair]:
    random = Random(seed)
    pairs = [(one, two) for one in range(size) for two in range(size) if one != two]
    return [pair for pair in pairs if random.random() < share]


TOPOLOGIES: dict[str, tuple[int, list[Pair]]] = {
    "one way": (3, [(0, 1)]),
    "one way, twice": (4, [(0, 1), (2, 3)]),
    "chain of three": (3, all_but(3, [(0, 1), (1, 2)])),
    "chain of four": (4, all_but(4, [(0, 1), (1, 2), (2, 3)])),
    "chain of five": (5, all_but(5, [(0, 1), (1, 2), (2, 3), (3, 4)])),
    "star": (5, all_but(5, [(0, 1), (0, 2), (0, 3), (0, 4)])),
    "ring": (5, all_but(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])),
    **{f"random {seed}": (6, some_of(6, 0.3, seed)) for seed in range(8)},
}


def run(size: int, cuts: list[Pair], conditions: Conditions) -> tuple[Cluster, list[int], list[int]]:
    """Installed by each site in the five seconds after the cuts, and in the minute after that, under load."""
    cluster = Cluster([chr(ord("a") + i) for i in range(size)], seed=size, conditions=conditions)
    cluster.start()
    cluster.run_until(1 * SECOND)
    for one, two in cuts:
        cluster.cut(cluster.names[one], cluster.names[two])
    while cluster.now < 66 * SECOND:
        for name in cluster.names:
            cluster.send(name, Service.SAFE, b"x" * 50)
        cluster.run_for(SECOND)

    def installed(since: int, until: int) -> list[int]:
        return [
            sum(row.conf_kind == "regular" and since < row.t <= until for row in cluster.rows[name])
            for name in cluster.names
        ]

    return cluster, installed(1 * SECOND, 6 * SECOND), installed(6 * SECOND, 66 * SECOND)


@pytest.mark.parametrize("name", few(TOPOLOGIES, len(TOPOLOGIES) - 6))
def test_it_settles_into_cliques_and_stays(name: str) -> None:
    size, cuts = TOPOLOGIES[name]
    cluster, first, after = run(size, cuts, Conditions())
    assert max(first) <= MOST_AFTER_A_CHANGE
    assert after == [0] * size
    hears = {site: sum(1 << other for other in range(size) if (other, site) not in cuts) for site in range(size)}
    cliques = partition(two_way(hears), (1 << size) - 1)
    for node in cluster.nodes:
        assert node.site is not None
        assert sum(1 << member for member in node.site.members) in cliques


@pytest.mark.parametrize("name", ["one way", "chain of four", "random 1"])
def test_it_stays_with_loss_besides(name: str) -> None:
    size, cuts = TOPOLOGIES[name]
    _, _, after = run(size, cuts, Conditions(loss=0.1))
    assert max(after) <= MOST_IN_A_LOSSY_MINUTE


@pytest.mark.parametrize(("every_ms", "size"), [(100, 100), (10, 100), (500, 20_000)])
def test_a_slow_lossy_link_keeps_its_configuration_and_sees_no_storm(every_ms: int, size: int) -> None:
    """300 ms, 5 % loss, 1 Mbit/s between two halves; up to several times of what the link can carry."""
    slow = Changes(latency_ns=300_000_000, loss=0.05, bandwidth_bps=1_000_000)
    cluster = Cluster("abcd", seed=3, links={(one, two): slow for one in "ab" for two in "cd"})
    cluster.start()
    cluster.run_until(5 * SECOND)
    while cluster.now < 25 * SECOND:
        cluster.run_for(every_ms * 1_000_000)
        for name in cluster.names:
            cluster.send(name, Service.AGREED, bytes(size))
    cluster.run_for(20 * SECOND)
    assert all(row.t < 4 * SECOND for rows in cluster.rows.values() for row in rows if row.kind == "conf")
    sites = [node.site.site for node in cluster.nodes if isinstance(node.site, EvsSite)]
    frames = sum(site.current.multicast.received[site.current.rank] for site in sites)
    resent = sum(site.counters.resent for site in sites)
    # Each frame takes the slow link twice, and one copy in twenty is lost.
    assert resent <= frames * 0.2
    assert sum(site.counters.duplicates for site in sites) <= frames * 0.1
