"""Bugs planted in casts between clusters: what ISIS asks of them in 4.6."""

from pathlib import Path
from typing import Any

from tests.mutants.harness import Mutant, planting
from tests.sim.two_clusters import load, process, step, two_clusters

from reconvene.ids import Service
from reconvene.isis.casting import Casting
from reconvene.isis.far_casting import FarCasting
from reconvene.isis.far_marks import Marks
from reconvene.isis.far_messages import PREFIX
from reconvene.isis.far_watches import FarWatches
from reconvene.sim.parse import parse_scenario
from reconvene.sim.scenario import Scenario

__all__ = ["MUTANTS", "table"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

_TOP = """
seed = {seed}
duration = "2.5s"
settle = "1s"
final = [["berlin"], ["paris"]]
[network]
latency = "1ms"
jitter = "8ms"
[between]
latency = "5ms"
jitter = "1ms"
"""
_AT_HOME = ("berlin/a.x", "berlin/b.x", "berlin/c.x")


def far(seed: int) -> Scenario:
    """Two clusters whose processes cast within them and between them, on lines of uneven speed, until these part."""
    everyone = (*_AT_HOME, "paris/q.x")
    text = (
        two_clusters(_TOP.format(seed=seed))
        + load(everyone, "cbcast", 25, "2s")
        + load(_AT_HOME, "cbcast", 25, "2s", 'scope = "cluster"')
        + step("1.2s", 'watch = { process = "paris/q.x", watched = "berlin/c.x" }')
        + step("2s", 'split = [["berlin"], ["paris"]]')
        + "".join(process(name, "bank") for name in everyone)
    )
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
    FarCasting,
    "_try",
    "a cast to other clusters takes along what precedes it within its own",
    {"wide.cast-direct"},
    0,
    far,
)
def _(attempt: Any) -> Any:
    def mutated(self: FarCasting, local: Any, wish: Any) -> bool:
        for entry in local.past.values():
            self._reach.send(Service.CAUSAL, PREFIX + wish.to, entry.copy.payload)
        return bool(attempt(self, local, wish))

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
    Marks,
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
    FarCasting,
    "send",
    "a cast leaves before what precedes it has arrived within its cluster",
    {"wide.cast-causal"},
    1,
    far,
)
def _(send: Any) -> Any:
    def mutated(self: FarCasting) -> None:
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
