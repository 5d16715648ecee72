"""Bugs planted in domains: crossings, hand-over, election, wide configurations, filters."""

from typing import Any

from tests.mutants.harness import Mutant, planting

from reconvene.domains import port
from reconvene.domains.author import Author
from reconvene.domains.gateway import Gateway
from reconvene.domains.home import Home, Waiting
from reconvene.domains.port import Site
from reconvene.domains.representing import Representing
from reconvene.domains.seen import Seen
from reconvene.domains.tree import Domain
from reconvene.ids import Service
from reconvene.lab.campaign.seeds import histories
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Scenario
from reconvene.verify.engine import verify

__all__ = ["MUTANTS", "catch_wide", "table", "wide"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)


def wide(seed: int) -> Scenario:
    """The campaign's run of this seed."""
    return random_scenario(seed, "wide")


def catch_wide(scenario: Scenario) -> set[str]:
    """Runs it with whatever is planted. Returns the checks that are violated, or `invariant`."""
    try:
        return set(verify(histories(Runner(scenario, check_every=20).run())).violated())
    except AssertionError:
        return {"invariant"}


def table() -> str:
    rows = ["## Domains", "| mutant | what it breaks | caught by | seen in |", "| --- | --- | --- | --- |"]
    for mutant in MUTANTS:
        checks = ", ".join(f"`{check}`" for check in sorted(mutant.expected))
        rows.append(f"| `{mutant.name}` | {mutant.breaks} | {checks} | {mutant.family.__name__} {mutant.seed} |")
    return "\n".join(rows) + "\n"


@plant(
    "leaves-before-the-cross-is-safe",
    Site,
    "say",
    "the representative does not wait until every site has what crosses",
    {"wide.first"},
    1,
    wide,
)
def _(say: Any) -> Any:
    def mutated(self: Site, service: Service, payload: bytes, event: Any = None) -> None:
        say(self, min(service, Service.AGREED), payload, event)

    return mutated


@plant(
    "unconfirmed-crossings-dropped",
    Representing,
    "begin",
    "the next representative does not send unconfirmed crossings again",
    {"live.wide", "wide.self", "wide.causal", "wide.fifo"},
    27,
    wide,
)
def _(begin: Any) -> Any:
    def mutated(self: Representing) -> None:
        self._site.home.crossings.clear()
        begin(self)

    return mutated


@plant(
    "seen-is-forgotten",
    Site,
    "_changed",
    "a site forgets at a change of its configuration what it has delivered",
    {"wide.once"},
    6,
    wide,
)
def _(changed: Any) -> Any:
    def mutated(self: Site, event: Any) -> None:
        self._seen = Seen()
        changed(self, event)

    return mutated


@plant(
    "standby-begins-at-its-own-end",
    Gateway,
    "find",
    "the next representative begins where its own site stands above, not at the cluster's line",
    {"wide.agree", "live.wide", "wide.causal", "wide.fifo", "wide.self"},
    24,
    wide,
)
def _(find: Any) -> Any:
    def mutated(self: Gateway, conf: str, line: tuple[int, ...]) -> int | None:
        return None if find(self, conf, line) is None else self.end

    return mutated


@plant(
    "elected-by-what-one-site-saw",
    port,
    "elect",
    "sites elect by different orders of the gateways",
    {"wide.rep"},
    10,
    wide,
)
def _(elect: Any) -> Any:
    calls = [0]

    def mutated(ports: Any, order: Any, present: Any, resigned: Any, least: int) -> Any:
        calls[0] += 1
        turned = order[::-1] if calls[0] % 3 == 0 else order
        return elect(ports, turned, present, resigned, least)

    return mutated


@plant(
    "agreed-at-home-at-once",
    Home,
    "take",
    "an agreed message that crosses is delivered at home at its local place",
    {"wide.order", "wide.causal"},
    1,
    wide,
)
def _(take: Any) -> Any:
    def mutated(self: Home, waiting: Waiting) -> bool:
        take(self, waiting)
        return True

    return mutated


@plant(
    "causal-overtakes-held-agreed",
    Home,
    "take",
    "a causal message does not wait at home for its sender's earlier agreed ones",
    {"wide.causal"},
    10,
    wide,
)
def _(take: Any) -> Any:
    def mutated(self: Home, waiting: Waiting) -> bool:
        return take(self, waiting) or waiting.wide.service == Service.CAUSAL

    return mutated


@plant("filter-ignored", Domain, "passes_in", "everything comes in, whatever the rules list", {"wide.pass"}, 3, wide)
def _(passes_in: Any) -> Any:
    def mutated(self: Domain, group: str) -> bool:
        return True

    return mutated


@plant(
    "author-gives-up",
    Author,
    "sent",
    "an author does not keep what it has sent until that comes back",
    {"wide.self", "live.wide", "wide.causal", "wide.fifo"},
    3,
    wide,
)
def _(sent: Any) -> Any:
    def mutated(self: Author) -> None:
        sent(self)
        self._own.clear()
        self._bytes = 0

    return mutated
