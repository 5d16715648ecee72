"""Several clusters in virtual time beside one flat cluster of the same sites on the same network.

Given: how many clusters of how many sites, and what the networks in them and between them are like.
Promised: the real stacks, in virtual time, so the same seed has the same figures. Both kinds send the same messages
at the same rates, and count the same: what passes between clusters, and how long a message takes to every site.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reconvene.core.effects import Delivered, Event
from reconvene.core.options import Options
from reconvene.domains.port import Site as DomainSite
from reconvene.ids import Service
from reconvene.lab.load.simulated import MS, SECOND
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.node import Node
from reconvene.sim.wide_process import WideProcess
from reconvene.sim.wide_scenario import DomainPlan
from reconvene.sim.wide_world import WideWorld

__all__ = ["BETWEEN", "INSIDE", "Between", "Flat", "Shape", "Tree", "all_sending"]

INSIDE = Conditions()
"""In a cluster."""
BETWEEN = Changes(latency_ns=20 * MS, jitter_ns=2 * MS)
"""From cluster to cluster."""
_HEADER_BYTES = 28
"""IPv4 and UDP."""
_PATIENCE_NS = 60 * SECOND
_STEP_NS = MS


@dataclass(frozen=True, slots=True)
class Shape:
    clusters: int
    sites: int
    """Of each cluster."""
    gateways: int = 2

    @property
    def names(self) -> list[str]:
        """Of the clusters."""
        return [f"d{number:02}" for number in range(self.clusters)]

    @property
    def nodes(self) -> list[str]:
        return [f"{domain}/{site:02}" for domain in self.names for site in range(self.sites)]


@dataclass(slots=True)
class Between:
    """What passed from cluster to cluster: copies of datagrams, and their bytes with headers."""

    copies: int = 0
    bytes: int = 0


class _Lab:
    """What both have in common. A node is called DOMAIN/SITE in both."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.between = Between()
        self.took_ns: list[int] = []
        """From handing a message over to its delivery, at every site, its own too."""
        self.counts = True
        """Whether messages that are handed over now are timed."""
        self._handed: dict[tuple[str, int], int] = {}
        self._counters: dict[str, int] = dict.fromkeys(shape.nodes, 0)

    def _watch(self, cluster: Cluster, domain_of: Callable[[int], str]) -> None:
        domains = [domain_of(ordinal) for ordinal in range(len(cluster.names))]

        def see(source: int, destinations: tuple[int, ...], data: bytes) -> None:
            here = domains[source]
            copies = sum(domains[destination] != here for destination in destinations)
            self.between.copies += copies
            self.between.bytes += copies * (len(data) + _HEADER_BYTES)

        cluster.network.watch = see

    @property
    def now(self) -> int:
        raise NotImplementedError

    def run_for(self, duration_ns: int) -> None:
        raise NotImplementedError

    def is_together(self) -> bool:
        raise NotImplementedError

    def send(self, node: str, service: Service, size: int) -> None:
        raise NotImplementedError

    def meet(self) -> int:
        """Runs until all sites are together; returns the time of that."""
        while not self.is_together():
            assert self.now < _PATIENCE_NS, f"not together within {_PATIENCE_NS // SECOND} s"
            self.run_for(_STEP_NS)
        return self.now

    def measured(self, duration_ns: int) -> Between:
        """What passes between clusters in this time."""
        before = Between(self.between.copies, self.between.bytes)
        self.run_for(duration_ns)
        return Between(self.between.copies - before.copies, self.between.bytes - before.bytes)

    def _hand_over(self, node: str) -> int:
        """The message's number at its site."""
        self._counters[node] += 1
        if self.counts:
            self._handed[node, self._counters[node]] = self.now
        return self._counters[node]

    def _delivered(self, sender: str, number: int) -> None:
        handed = self._handed.get((sender, number))
        if handed is not None:
            self.took_ns.append(self.now - handed)


class Tree(_Lab):
    """Clusters joined by gateways."""

    def __init__(
        self,
        shape: Shape,
        *,
        seed: int,
        inside: Conditions = INSIDE,
        between: Changes = BETWEEN,
        order: str = "atop",
        make: type[DomainSite] = DomainSite,
    ) -> None:
        super().__init__(shape)
        sites = tuple(f"{site:02}" for site in range(shape.sites))
        plans = [DomainPlan(name, sites, sites[: shape.gateways]) for name in shape.names]
        self.world = WideWorld(
            plans, seed=seed, options=Options(order=order), conditions=inside, between=between, make=make
        )
        self._watch(self.world.upper, self.world.tree.domain_of)
        self._read = dict.fromkeys(self.world.names, 0)
        """How many rows of each node were looked at."""
        for cluster in self.world.clusters.values():
            cluster.on_turn(self._turned)
        self.world.start()

    @property
    def now(self) -> int:
        return self.world.now

    def run_for(self, duration_ns: int) -> None:
        self.world.run_until(self.world.now + duration_ns)

    def is_together(self) -> bool:
        """All sites are in one wide configuration of all domains, in which messages flow."""
        sites = [member.domain_site for member in self.world.members]
        return (
            all(site is not None and site.is_open for site in sites)
            and len({site.wide.conf for site in sites if site is not None}) == 1
            and all(len(site.wide.domains) == self.shape.clusters for site in sites if site is not None)
        )

    def send(self, node: str, service: Service, size: int, scope: str = "wide") -> None:
        self._hand_over(node)
        self.world.node(node).say(service, [b"." * size], "all", scope)

    def _turned(self, node: Node) -> None:
        process = node.process
        assert isinstance(process, WideProcess)
        rows = self.world.rows[process.name]
        for row in rows[self._read[process.name] :]:
            if row.kind == "deliver":
                sender, _, number = str(row.msg).split(":")
                self._delivered(sender, int(number))
        self._read[process.name] = len(rows)

    def configurations(self, domain: str) -> int:
        """How many regular configurations the sites of this domain have entered, local and wide ones, and its
        gateways above."""
        plan = next(plan for plan in self.world.plans if plan.name == domain)
        rows = [row for site in plan.sites for row in self.world.clusters[domain].rows[site]]
        rows += [row for gateway in plan.gateways for row in self.world.upper.rows[f"{domain}.{gateway}"]]
        rows += [row for node in plan.nodes for row in self.world.rows[node]]
        return sum(row.kind == "conf" and row.conf_kind == "regular" for row in rows)


class Flat(_Lab):
    """One cluster of the same sites, on the same network."""

    def __init__(
        self,
        shape: Shape,
        *,
        seed: int,
        inside: Conditions = INSIDE,
        between: Changes = BETWEEN,
        order: str = "atop",
    ) -> None:
        super().__init__(shape)
        nodes = shape.nodes
        domain = {node: node.partition("/")[0] for node in nodes}
        links = {(one, two): between for one in nodes for two in nodes if one < two and domain[one] != domain[two]}
        self.cluster = Cluster(nodes, seed=seed, options=Options(order=order), conditions=inside, links=links)
        names = self.cluster.names
        self._watch(self.cluster, lambda ordinal: domain[names[ordinal]])
        self.cluster.on_events(self._heard)
        self.cluster.start()

    @property
    def now(self) -> int:
        return self.cluster.now

    def run_for(self, duration_ns: int) -> None:
        self.cluster.run_for(duration_ns)

    def is_together(self) -> bool:
        sites = [node.site for node in self.cluster.nodes]
        return (
            all(site is not None and len(site.members) == len(sites) for site in sites)
            and len({site.configuration for site in sites if site is not None}) == 1
        )

    def send(self, node: str, service: Service, size: int) -> None:
        number = self._hand_over(node)
        self.cluster.node(node).hand_over(service, [number.to_bytes(8).ljust(size, b".")])

    def _heard(self, node: Node, events: list[Event]) -> None:
        for event in events:
            if type(event) is Delivered:
                for payload in event.payloads:
                    self._delivered(self.cluster.names[event.sender], int.from_bytes(payload[:8]))

    def configurations(self, domain: str) -> int:
        """How many regular configurations the sites of this domain have entered."""
        rows = [row for node in self.shape.nodes if node.startswith(f"{domain}/") for row in self.cluster.rows[node]]
        return sum(row.kind == "conf" and row.conf_kind == "regular" for row in rows)


def all_sending(
    lab: Tree | Flat, send: Callable[[str], None], rate: float, duration_ns: int, nodes: list[str] | None = None
) -> None:
    """Has every node send this many messages a second, evenly, each at times of its own, from now on for this long.
    Returns at once."""
    loop = lab.world.loop if isinstance(lab, Tree) else lab.cluster.loop
    gap = SECOND / rate
    chosen = nodes or lab.shape.nodes
    for place, node in enumerate(chosen):
        first = gap * place / len(chosen)
        for turn in range(int(duration_ns / gap)):
            loop.at(lab.now + int(first + turn * gap), partial(_one, send), node)


def _one(send: Callable[[str], None], node: str) -> None:
    send(node)
