"""Processes of the ISIS layer in a simulated cluster: a benchmark casts by hand, and is told what they receive.

Given: how many sites, and what the network is like.
Promised: the real stacks, in virtual time, so the same seed has the same figures. Each site has one process, which is
in no group until it joins one. A request takes effect in a turn of its own.
"""

from collections.abc import Callable, Sequence

from reconvene.core.groups.events import Process
from reconvene.core.options import Options
from reconvene.ids import Service
from reconvene.isis.events import IsisEvent
from reconvene.isis.isis import Isis
from reconvene.isis.limits import IsisLimits
from reconvene.lab.load.simulated import MS, SECOND
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Conditions
from reconvene.sim.isis_site import IsisSite, RealIsisCore
from reconvene.sim.node import Node

__all__ = ["NETWORK", "IsisLab", "network_delay_ns"]

NETWORK = Conditions(latency_ns=1 * MS, jitter_ns=MS // 5)
_PATIENCE_NS = 120 * SECOND


def network_delay_ns() -> int:
    """The mean."""
    return NETWORK.latency_ns + NETWORK.jitter_ns // 2


class IsisLab:
    def __init__(self, sites: int, *, seed: int, limits: IsisLimits | None = None, answers: bool = False) -> None:
        """`answers`: the processes reply themselves."""
        names = [f"{ordinal:02}" for ordinal in range(sites)]
        core = RealIsisCore(limits=limits)
        self.cluster = Cluster(names, seed=seed, options=Options(), conditions=NETWORK, core=core)
        self.hear: Callable[[int, IsisEvent], None] | None = None
        """Called with a site and what it reports, before the datagrams of that turn leave."""
        self.cluster.on_isis(self._heard)
        self.cluster.start()
        self.wait(lambda: all(self._is_member(site, sites) for site in range(sites)))
        self.processes: list[Process] = [self.isis(site).open(answers=answers) for site in range(sites)]
        self.turn(*range(sites))

    def _heard(self, node: Node, events: Sequence[IsisEvent]) -> None:
        if self.hear is not None:
            for event in events:
                self.hear(node.ordinal, event)

    def _is_member(self, site: int, sites: int) -> bool:
        view = self.isis(site).here.view
        return self.isis(site).here.open and view is not None and len(view.members) == sites

    @property
    def now(self) -> int:
        return self.cluster.now

    def isis(self, site: int) -> Isis:
        stack = self.cluster.nodes[site].site
        assert isinstance(stack, IsisSite), "the site is up"
        return stack.isis

    def turn(self, *sites: int) -> None:
        """What was asked of these sites takes effect now."""
        for site in sites:
            self.cluster.nodes[site].hand_over(Service.AGREED, ())

    def wait(self, done: Callable[[], bool], step_ns: int = MS) -> None:
        deadline = self.now + _PATIENCE_NS
        while not done():
            assert self.now < deadline, f"not done within {_PATIENCE_NS // SECOND} s"
            self.cluster.run_for(step_ns)

    def join(self, group: str, sites: Sequence[int]) -> None:
        """Their processes join the group. Returns when each of them sees all."""
        for site in sites:
            self.isis(site).join(self.processes[site], group)
            self.turn(site)
        self.wait(lambda: all(self.members(site, group) == len(sites) for site in sites))

    def members(self, site: int, group: str) -> int:
        """How many members the site's process sees in the group."""
        membership = self.isis(site).delivery.locals[self.processes[site]].groups.get(group)
        return 0 if membership is None else len(membership.ranked)

    def rest(self, duration_ns: int = SECOND) -> None:
        self.cluster.run_for(duration_ns)

    def sent_at_rest(self, duration_ns: int) -> int:
        """Datagrams that are sent while nobody casts, each copy counted."""
        before = self.cluster.network.traffic.sent
        self.cluster.run_for(duration_ns)
        return self.cluster.network.traffic.sent - before
