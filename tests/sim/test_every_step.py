"""A fault at every step of a configuration change, at the site that proposes and at another one.

The network parts and mends under traffic; the first time that the chosen site enters the chosen step after that, it
is struck. What follows has to hold, and the sites have to come together again.
"""

import pytest
from tests.sim.core_cluster import SimCluster

from reconvene.sim.node import Node

STEPS = ("gathering", "forming: sync", "forming: states", "recovering: exchange", "recovering: wait", "operational")
FAULTS = ("crash", "amid sending", "pause", "partition", "cut")


class Striker:
    """Waits for a site to enter a step, and strikes once."""

    def __init__(self, cluster: SimCluster, site: str, step: str, fault: str) -> None:
        self.cluster, self.site, self.step, self.fault = cluster, site, step, fault
        self.struck = False
        cluster.sim.on_step(self._watch)

    def _watch(self, node: Node, before: str, now: str) -> None:
        if self.struck or node.name != self.site or now != self.step or self.cluster.now_ns < 10**9:
            return
        self.struck = True
        match self.fault:
            case "crash":
                self.cluster.crash(self.site)
            case "amid sending":
                self.cluster.sim.doom(self.site, 2)
            case "pause":
                self.cluster.pause(self.site)
            case "partition":
                self.cluster.partition([self.site, "b"], ["d"])
            case _:
                for other in ("b", "d"):
                    self.cluster.cut(self.site, other)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("site", ["a", "c"])
def test_a_fault_at(site: str, step: str, fault: str) -> None:
    cluster = SimCluster(4, seed=1, jitter="1ms")
    cluster.wait_together()
    cluster.run_for(1)
    striker = Striker(cluster, site, step, fault)
    for service in ("causal", "agreed", "safe"):
        for node in cluster.nodes:
            cluster.send(node, b"before", service)
    cluster.partition(["a", "c"], ["b", "d"])
    cluster.run_for("1s")
    for node in cluster.nodes:
        if cluster.sim.node(node).up:
            cluster.send(node, b"between", "safe")
    if not striker.struck:
        cluster.heal()
    cluster.run_for("1s")
    cluster.settle("5s")
    assert striker.struck or step == "recovering: exchange", "a step that is passed through each time"
    assert cluster.together()
    cluster.verify()
