"""What a run of several clusters leaves: a trace of each of them, of the one above, and domains.json."""

from dataclasses import dataclass

from reconvene.sim.cluster import Cluster
from reconvene.sim.scenario import Scenario
from reconvene.sim.wide_scenario import UPPER, domain_of
from reconvene.sim.wide_world import WideWorld
from reconvene.trace.domains import Domain, Domains, Pass
from reconvene.trace.events import SCHEMA, Row, Run

__all__ = ["Levels", "levels_of"]


@dataclass(slots=True)
class Levels:
    domains: Domains
    traces: dict[str, tuple[Run, dict[str, list[Row]]]]
    """By domain, the one above too."""

    @property
    def events(self) -> int:
        return sum(len(rows) for _, by_node in self.traces.values() for rows in by_node.values())


def levels_of(world: WideWorld, scenario: Scenario, run: str) -> Levels:
    settled = scenario.settle_ns > 0
    clusters = {**world.clusters, UPPER: world.upper}
    traces = {
        name: (_run(cluster, f"{run}/{name}", _stack(world, name), scenario.order, world.seed, settled), cluster.rows)
        for name, cluster in clusters.items()
    }
    entries = [
        Domain(
            name=plan.name,
            nodes=list(plan.sites),
            gateways=list(plan.gateways),
            upper=UPPER,
            passes=Pass(out=list(plan.out), into=list(plan.into)),
        )
        for plan in world.plans
    ]
    entries.append(
        Domain(name=UPPER, nodes=list(world.upper.names), gateways=[], upper=None, passes=Pass(out=["*"], into=["*"]))
    )
    components = [list(dict.fromkeys(domain_of(node)[0] for node in component)) for component in scenario.final]
    domains = Domains(
        schema=SCHEMA,
        run=run,
        seed=world.seed,
        settled=settled,
        components=components,
        down=[member.name for member in world.members if not member.up],
        domains=entries,
    )
    return Levels(domains, traces)


def _stack(world: WideWorld, name: str) -> str:
    return "isis" if world.isis and name != UPPER else "evs"


def _run(cluster: Cluster, run: str, stack: str, order: str, seed: int, settled: bool) -> Run:
    return Run(
        schema=SCHEMA,
        run=run,
        nodes=list(cluster.names),
        stack=stack,
        order=order,
        seed=seed,
        settled=settled,
        components=cluster.components(),
        down=[node.name for node in cluster.nodes if not node.up],
        quorum=cluster.run_quorum({"kind": "majority"}),
    )
