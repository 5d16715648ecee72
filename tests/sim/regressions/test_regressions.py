"""Bugs that were found by seeds and by attack, each as small as it could be made."""

from pathlib import Path

import pytest

from reconvene.core.site import Site
from reconvene.ids import Service
from reconvene.lab.campaign.seeds import histories
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Conditions
from reconvene.sim.core import EvsSite
from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import run_scenario
from reconvene.verify.engine import verify

SECOND = 1_000_000_000
SCENARIOS = sorted(Path(__file__).parent.glob("*.toml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = load_scenario(path)
    result = run_scenario(scenario, check_every=1)
    assert verify(histories(result)).violated() == []
    sending = {"cbcast", "abcast", "gbcast"} if scenario.stack == "isis" else {"send"}
    ended = scenario.duration_ns
    assert [row for rows in result.rows.values() for row in rows if row.kind in sending and row.t > ended] == []


def sites(cluster: Cluster) -> list[Site]:
    return [node.site.site for node in cluster.nodes if isinstance(node.site, EvsSite)]


@pytest.mark.parametrize("size", [5, 10, 20])
def test_a_lost_ack_is_no_storm(size: int) -> None:
    """Every member asked, and every answer went to all: n³ datagrams for one lost ack."""
    cluster = Cluster([f"n{i:02}" for i in range(size)], seed=5, conditions=Conditions(loss=0.05))
    cluster.start()
    cluster.run_until(2 * SECOND)
    messages = 5

    def copies(send: bool) -> int:
        before = cluster.network.traffic.sent
        for _ in range(messages):
            if send:
                cluster.send(cluster.names[0], Service.FIFO, b"lone")
            cluster.run_for(SECOND)
        return cluster.network.traffic.sent - before

    idle = copies(False)
    # Without loss each member acknowledges once to all, which is n² copies.
    assert copies(True) - idle <= 4 * messages * size * size


def test_small_frames_overflow_no_buffer() -> None:
    """The window counted payload alone, so thousands of tiny frames were under way at once."""
    cluster = Cluster("abc", seed=1)
    cluster.start()
    cluster.run_until(SECOND)
    for i in range(3_000):
        cluster.send("a", Service.FIFO if i % 2 else Service.CAUSAL, b"")
    cluster.run_for(2 * SECOND)
    assert cluster.network.traffic.overflow == 0
    assert sum(site.counters.resent for site in sites(cluster)) == 0
    assert all(sum(row.kind == "deliver" for row in cluster.rows[name]) == 3_000 for name in "abc")


def test_who_is_heard_through_others_only_is_not_heard() -> None:
    """Frames relayed in answer to nacks kept a member that nobody could hear in the configuration."""
    cluster = Cluster("abc", seed=1)
    cluster.start()
    cluster.run_until(SECOND)
    cluster.cut("a", "b")
    while cluster.now < 4 * SECOND:
        for name in cluster.names:
            cluster.send(name, Service.AGREED, b"load")
        cluster.run_for(SECOND // 20)
    assert [site.members for site in sites(cluster)] == [(0, 2), (1,), (0, 2)]
