"""Several clusters in one virtual time, the cluster of their gateways above them, and every fault of both.

To the runner and to chaos it is what a cluster is; its nodes are named DOMAIN/SITE. A gateway is one process with two
sites, each in a network of its own.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from random import Random

from reconvene.core.options import Options
from reconvene.domains.author import Limits
from reconvene.domains.gateway import Gateway
from reconvene.domains.port import Site as DomainSite
from reconvene.domains.tree import Domain, Tree
from reconvene.quorum import Spec, full_spec
from reconvene.sim.befalling import Befalling
from reconvene.sim.cluster import Cluster, OnLog
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.isis_scenario import Kill, ProcessPlan, home
from reconvene.sim.loop import Loop
from reconvene.sim.network import Traffic
from reconvene.sim.node import Node
from reconvene.sim.wide_isis import WideIsisCore
from reconvene.sim.wide_process import WideProcess
from reconvene.sim.wide_scenario import UPPER, DomainPlan, domain_of, upper_name
from reconvene.sim.wide_site import UpperCore, WideCore
from reconvene.trace.events import Row
from reconvene.trace.wide_recorder import WideRecorder

__all__ = ["WideWorld"]

_CONFIRM = 2
"""So many times what a change above takes: then a representative that gets nothing across is voted out."""

OnWideStep = Callable[[WideProcess, str, str], None]


class _Networks:
    """Of all clusters, and between them."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._clusters = clusters

    def calm(self) -> None:
        for cluster in self._clusters:
            cluster.network.calm()

    @property
    def traffic(self) -> Traffic:
        total = Traffic()
        for cluster in self._clusters:
            for name, count in asdict(cluster.network.traffic).items():
                setattr(total, name, getattr(total, name) + count)
        return total


class WideWorld(Befalling):
    def __init__(
        self,
        plans: Sequence[DomainPlan],
        *,
        seed: int = 0,
        options: Options | None = None,
        conditions: Conditions | None = None,
        between: Changes | None = None,
        patience_ns: int | None = None,
        processes: Sequence[ProcessPlan] = (),
        isis: bool = False,
        links: dict[tuple[str, str], Changes] | None = None,
        check_every: int = 0,
        make: type[DomainSite] = DomainSite,
        gateway: type[Gateway] = Gateway,
    ) -> None:
        """`patience_ns`: with a silent gateway above, where it is not as in a cluster.
        `isis`: the processes are those of ISIS, which join groups themselves.
        `make`, `gateway`: what a site's part in the tree, and a gateway's, is made of."""
        self.seed = seed
        self.plans = tuple(plans)
        self.isis = isis
        self.loop = Loop()
        self.options = options or Options()
        self.tree = Tree([Domain(plan.name, plan.sites, plan.gateways, plan.out, plan.into) for plan in plans])
        self.coverage: Counter[tuple[str, str]] = Counter()
        self.faults = 0
        self._conditions = conditions or Conditions()
        self._between = between or Changes()
        self._links = links or {}
        self._gateways: dict[str, Gateway] = {}
        self._gateway = gateway
        timing = self.options.timing
        if patience_ns is not None:
            timing = replace(timing, suspect_base_ns=patience_ns, suspect_per_site_ns=0)
        above = replace(self.options, timing=timing)
        self._limits = Limits(
            message_bytes=self.options.limits.message_bytes,
            confirm_ns=_CONFIRM * (timing.suspect_base_ns + timing.round_patience_ns),
        )
        self.clusters = {plan.name: self._cluster(plan, check_every, make) for plan in plans}
        self.upper = Cluster(
            self.tree.upper,
            seed=seed,
            options=above,
            check_every=check_every,
            core=UpperCore(self.tree, self._gateways),
            loop=self.loop,
            label=f"{UPPER}/",
        )
        self._reset_upper()
        self.network = _Networks([*self.clusters.values(), self.upper])
        self.names = tuple(node for plan in plans for node in plan.nodes)
        self.everyone = self.names
        self.rows: dict[str, list[Row]] = {name: [] for name in self.names}
        """Of layer `wide`."""
        self._on_step: list[OnWideStep] = []
        self._steps: dict[str, list[str]] = {name: [] for name in self.names}
        self.members = [self._process(name) for name in self.names]
        self.nodes = self.members
        self._members = {member.name: member for member in self.members}
        for process in () if isis else processes:
            self.node(process.node).joins += tuple((group, process.name) for group in process.groups)
        for cluster in (*self.clusters.values(), self.upper):
            cluster.on_turn(self._turned)

    def _cluster(self, plan: DomainPlan, check_every: int, make: type[DomainSite]) -> Cluster:
        links = {
            (domain_of(one)[1], domain_of(two)[1]): changes
            for (one, two), changes in self._links.items()
            if domain_of(one)[0] == domain_of(two)[0] == plan.name
        }
        return Cluster(
            plan.sites,
            seed=self.seed,
            options=self.options,
            conditions=self._conditions,
            links=links,
            check_every=check_every,
            core=(WideIsisCore if self.isis else WideCore)(self.tree, plan.name, self._gateways, self._limits, make),
            loop=self.loop,
            label=f"{plan.name}/",
        )

    def _process(self, name: str) -> WideProcess:
        domain, site = domain_of(name)
        cluster = self.clusters[domain]
        above = upper_name(domain, site)
        upper = self.upper.node(above) if above in self.tree.upper else None
        process = WideProcess(name, cluster.node(site), upper)
        recorder = WideRecorder(domain, cluster.recorder(site), self.rows[name].append)
        process.join(recorder)
        if upper is not None:

            def begin() -> None:
                self._gateways[above] = self._gateway(self.tree, domain)

            process.before_start = begin
        return process

    def _reset_upper(self) -> None:
        """Between clusters by [between], where gateways of one cluster meet as in that cluster."""
        near = Changes(*(getattr(self._conditions, name) for name in Conditions.__slots__))
        upper = self.tree.upper
        links: dict[tuple[int, int], Changes] = {}
        for one, name in enumerate(upper):
            for two in range(one + 1, len(upper)):
                inside = self.tree.domain_of(one) == self.tree.domain_of(two)
                own = self._links.get(self._pair(name, upper[two]))
                if inside or own is not None:
                    links[one, two] = (near if inside else Changes()).then(own or Changes())
        self.upper.network.reset(self._between.over(self._conditions), links)

    def _pair(self, one: str, two: str) -> tuple[str, str]:
        first, second = (name.replace(".", "/", 1) for name in (one, two))
        return (first, second) if first < second else (second, first)

    # -- what a cluster is asked

    def stream(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    @property
    def now(self) -> int:
        return self.loop.now

    def run_until(self, time: int) -> None:
        self.loop.run(time)

    def node(self, name: str) -> WideProcess:
        return self._members[name]

    def member(self, name: str) -> WideProcess:
        return self._members[name]

    def representative(self, domain: str) -> str | None:
        """Who represents the domain, as most of its sites that are up see it."""
        counts: Counter[str] = Counter()
        for member in self.members:
            site = member.domain_site
            if member.domain == domain and site is not None and site.representative is not None:
                counts[site.representative] += 1
        return f"{domain}/{counts.most_common(1)[0][0]}" if counts else None

    def on_step(self, callback: OnWideStep) -> Callable[[], None]:
        self._on_step.append(callback)
        return lambda: self._on_step.remove(callback)

    def on_log(self, callback: OnLog) -> Callable[[], None]:
        """There is no log."""
        return lambda: None

    def _turned(self, node: Node) -> None:
        process = node.process
        assert isinstance(process, WideProcess)
        process.exchange(node)
        if self._on_step and not process.starting:
            before, now = self._steps[process.name], process.steps
            if before != now:
                self._steps[process.name] = now
                for was, step in zip(before or ["down"] * len(now), now, strict=True):
                    for callback in self._on_step if was != step and process.up else ():
                        callback(process, was, step)

    def run_quorum(self, first: Spec) -> dict[str, object]:
        return full_spec(first, self.names)

    def record_fault(self, kind: str, befallen: Iterable[str]) -> None:
        self.faults += 1
        for name in befallen:
            member = self.member(name)
            if member.up:
                for step in member.steps:
                    self.coverage[(step, kind)] += 1

    # -- processes

    def crash(self, name: str, kind: str = "crash") -> None:
        self.record_fault(kind, [name])
        self.member(name).crash()

    def stall(self, name: str, for_ns: int) -> None:
        self.record_fault("disk", [name])
        self.member(name).stall(for_ns)

    def refuse(self, name: str, for_ns: int) -> None:
        self.record_fault("full", [name])
        self.member(name).refuse(for_ns)

    def kill(self, process: str) -> None:
        node = self.node(home(process)[0])
        self.record_fault("kill", [node.name])
        node.node.ask(Kill((process,)))

    def hand_over(self, domain: str) -> bool:
        """Returns whether there was a representative to give way."""
        name = self.representative(domain)
        process = None if name is None else self.member(name)
        if process is None or not process.up or process.paused:
            return False
        self.record_fault("handover", [process.name])
        process.hand_over()
        return True

    # -- the network

    def partition(self, components: Iterable[Iterable[str]]) -> None:
        self.record_fault("partition", self.everyone)
        self.connect(components)

    def connect(self, components: Iterable[Iterable[str]]) -> None:
        """A partition that is no fault."""
        parts = [[domain_of(name) for name in component] for component in components]
        for domain, cluster in self.clusters.items():
            cluster.network.partition(
                [cluster.ordinals(site for own, site in part if own == domain) for part in parts]
            )
        self.upper.network.partition([self.upper.ordinals(upper_name(*name) for name in part) for part in parts])

    def split(self, components: Iterable[Iterable[str]]) -> None:
        """Between clusters only, by domain or by gateway. A gateway of a domain that is in no component is alone with
        the others of its domain."""
        self.record_fault("split", self.everyone)
        parts = {name: place for place, part in enumerate(components) for name in part}
        found: dict[int | str, list[int]] = {}
        for site, name in enumerate(self.tree.upper):
            domain = self.tree.domain_of(site)
            place = parts.get(name.replace(".", "/", 1), parts.get(domain, domain))
            found.setdefault(place, []).append(site)
        self.upper.network.partition(found.values())

    def heal(self) -> None:
        for cluster in (*self.clusters.values(), self.upper):
            cluster.network.heal()

    def components(self) -> list[list[str]]:
        """Connected in their own clusters."""
        return [
            [f"{domain}/{cluster.names[site]}" for site in component]
            for domain, cluster in self.clusters.items()
            for component in cluster.network.components()
        ]

    def _ends(self, one: str, two: str) -> list[tuple[Cluster, int, int]]:
        """Where these two have a link: in their cluster, above, both or nowhere."""
        (here, first), (there, second) = domain_of(one), domain_of(two)
        found: list[tuple[Cluster, int, int]] = []
        if here == there:
            cluster = self.clusters[here]
            found.append((cluster, *cluster.ordinals((first, second))))  # type: ignore[arg-type]  # two of them
        above = self.upper.ordinals((upper_name(here, first), upper_name(there, second)))
        if len(above) == 2:
            found.append((self.upper, *above))  # type: ignore[arg-type]
        return found

    def cut(self, source: str, destination: str) -> None:
        self.record_fault("cut", [source, destination])
        for cluster, one, two in self._ends(source, destination):
            cluster.network.cut(one, two)

    def mend(self, source: str, destination: str) -> None:
        for cluster, one, two in self._ends(source, destination):
            cluster.network.mend(one, two)

    def change_network(self, changes: Changes) -> None:
        self.record_fault("network", self.everyone)
        self._conditions = changes.over(self._conditions)
        for cluster in self.clusters.values():
            cluster.network.change(changes)
        self._reset_upper()

    def worsen(self, kind: str, changes: Changes, pairs: Sequence[tuple[str, str]] | None) -> Callable[[], None]:
        """Worse conditions of these directed pairs, or of all, until what is returned is called."""
        befallen = self.everyone if pairs is None else sorted({name for pair in pairs for name in pair})
        self.record_fault(kind, befallen)
        clusters = [*self.clusters.values(), self.upper]
        found: list[tuple[Cluster, int]] = []
        ends = [end for pair in pairs or () for end in self._ends(*pair)]
        for cluster in clusters:
            own = None if pairs is None else [(one, two) for where, one, two in ends if where is cluster]
            if own is None or own:
                found.append((cluster, cluster.network.overlay(changes, own)))

        def lift() -> None:
            for cluster, number in found:
                cluster.network.lift(number)

        return lift
