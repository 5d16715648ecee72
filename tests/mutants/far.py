"""Bugs planted in casts between clusters: what ISIS asks of them in 4.6."""

from pathlib import Path
from typing import Any

from tests.mutants.harness import Mutant, planting

from reconvene.ids import Service
from reconvene.isis.casting import Casting
from reconvene.isis.far import Far
from reconvene.isis.far_messages import PREFIX
from reconvene.isis.far_watches import FarWatches
from reconvene.sim.parse import parse_scenario
from reconvene.sim.scenario import Scenario

__all__ = ["MUTANTS", "table"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

_SCENARIO = """
name = "far"
seed = {seed}
stack = "wide"
isis = true
duration = "2.5s"
settle = "1s"
final = [["berlin"], ["paris"]]
[network]
latency = "1ms"
jitter = "8ms"
[between]
latency = "5ms"
jitter = "1ms"
[[domain]]
name = "berlin"
nodes = ["a", "b", "c"]
gateways = ["a"]
[[domain]]
name = "paris"
nodes = ["p", "q"]
gateways = ["p"]
[[load]]
processes = ["berlin/a.x", "berlin/b.x", "berlin/c.x", "paris/q.x"]
cast = "cbcast"
to = "bank"
rate = 25
from = "1s"
until = "2s"
[[load]]
processes = ["berlin/a.x", "berlin/b.x", "berlin/c.x"]
cast = "cbcast"
scope = "cluster"
to = "bank"
rate = 25
from = "1s"
until = "2s"
[[at]]
time = "1.2s"
watch = {{ process = "paris/q.x", watched = "berlin/c.x" }}
[[at]]
time = "2s"
split = [["berlin"], ["paris"]]
"""
_PROCESS = '[[process]]\nnode = "{node}"\nname = "x"\ngroups = ["bank"]\n'


def far(seed: int) -> Scenario:
    """Two clusters whose processes cast within them and between them, on lines of uneven speed, until these part."""
    nodes = ("berlin/a", "berlin/b", "berlin/c", "paris/q")
    text = _SCENARIO.format(seed=seed) + "".join(_PROCESS.format(node=node) for node in nodes)
    return parse_scenario(text, Path("far.toml"))


def table() -> str:
    rows = [
        "## Casts between clusters",
        "| mutant | what it breaks | caught by | seen in |",
        "| --- | --- | --- | --- |",
    ]
    for mutant in MUTANTS:
        checks = ", ".join(f"`{check}`" for check in sorted(mutant.expected))
        rows.append(f"| `{mutant.name}` | {mutant.breaks} | {checks} | {mutant.family.__name__} {mutant.seed} |")
    return "\n".join(rows) + "\n"


@plant(
    "piggybacks-outside",
    Far,
    "_try",
    "a cast to other clusters takes along what precedes it within its own",
    {"wide.cast-direct"},
    0,
    far,
)
def _(attempt: Any) -> Any:
    def mutated(self: Far, local: Any, to: Any, *rest: Any) -> bool:
        for entry in local.past.values():
            self._reach.send(Service.CAUSAL, PREFIX + to, entry.copy.payload)
        return bool(attempt(self, local, to, *rest))

    return mutated


@plant(
    "out-of-reach-told-as-failed",
    FarWatches,
    "unreachable",
    "processes that a process watches count as failed where their domain is out of reach",
    {"wide.cast-failed"},
    0,
    far,
)
def _(_unreachable: Any) -> Any:
    def mutated(self: FarWatches, domain: str) -> None:
        for watched in [one for one in self._watchers if one.domain == domain]:
            self.take_over(watched)

    return mutated


@plant(
    "casts-overtake-crossings",
    Far,
    "mark",
    "a site does not say on its channels which casts of crossings it has taken",
    {"wide.cast-causal"},
    1,
    far,
)
def _(_mark: Any) -> Any:
    return lambda self, site: None


@plant(
    "crosses-before-what-precedes-it",
    Far,
    "send",
    "a cast leaves before what precedes it has arrived within its cluster",
    {"wide.cast-causal"},
    1,
    far,
)
def _(send: Any) -> Any:
    def mutated(self: Far) -> None:
        for place, out in enumerate(self._out):
            self._out[place] = out._replace(causes=())
        send(self)

    return mutated


@plant(
    "next-cast-does-not-wait",
    Casting,
    "_try",
    "a cast within the cluster goes out before the site has sent its process's last one to other clusters",
    {"wide.cast-causal"},
    0,
    far,
)
def _(attempt: Any) -> Any:
    def mutated(self: Casting, local: Any, wish: Any) -> bool:
        crossing, local.crossing = local.crossing, set()
        try:
            return bool(attempt(self, local, wish))
        finally:
            local.crossing = crossing

    return mutated
