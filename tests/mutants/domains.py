"""Bugs planted in domains: crossings, hand-over, election, wide configurations, filters."""

from random import Random
from typing import Any

from msgspec.structs import replace
from tests.mutants.harness import Mutant, planting

from reconvene.core.effects import Changed, ConfKind
from reconvene.domains import meeting, representing
from reconvene.domains.author import Author
from reconvene.domains.events import Lost, Unreachable
from reconvene.domains.flow import Flow
from reconvene.domains.gateway import Gateway, Launch
from reconvene.domains.home import Home, Waiting
from reconvene.domains.messages import CROSSING, Crossing, In
from reconvene.domains.port import Site
from reconvene.domains.representing import Representing
from reconvene.domains.seen import Seen
from reconvene.domains.tree import Domain
from reconvene.domains.views import Views
from reconvene.ids import Service
from reconvene.lab.campaign.seeds import histories
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Crash, Cut, Heal, Load, Mend, Partition, Scenario, Step
from reconvene.sim.wide_scenario import DomainPlan, Handover, Split
from reconvene.verify.engine import verify

__all__ = ["MUTANTS", "catch_wide", "elsewhere", "table", "wide"]

SECOND = 1_000_000_000
MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)


def wide(seed: int) -> Scenario:
    """The campaign's run of this seed."""
    return random_scenario(seed, "wide")


def unheard(seed: int) -> Scenario:
    """Again and again nothing that one cluster says reaches the other, which goes on speaking."""
    random = Random(seed)
    plans = DomainPlan("berlin", ("a", "b"), ("a", "b")), DomainPlan("paris", ("p",), ("p",))
    nodes = tuple(node for plan in plans for node in plan.nodes)
    pairs = ("berlin/a", "paris/p"), ("berlin/b", "paris/p")
    steps: list[Step] = []
    for count in range(3):
        at = 2 * SECOND + 3 * SECOND * count + random.randrange(SECOND // 2)
        steps += [Step(at, Cut(pairs), "mutant"), Step(at + 3 * SECOND // 2, Mend(pairs), "mutant")]
    load = Load(nodes, Service.SAFE, 50.0, 16, 0, 10 * SECOND, group="all", scope="wide")
    return replace(
        wide(seed), nodes=nodes, domains=plans, steps=tuple(steps), loads=(load,), chaos=None,
        conditions=Conditions(), between=Changes(latency_ns=20_000_000), duration_ns=11 * SECOND,
        processes=(), final=(nodes,), final_down=(), patience_ns=None,
    )  # fmt: skip


def apart(seed: int) -> Scenario:
    """Again and again the representative's component above is the smaller one, while its cluster is whole and the
    lines are bad: a standby in the larger one takes over."""
    random = Random(seed)
    plans = (
        DomainPlan("berlin", ("a", "b", "c"), ("a", "b")),
        *(DomainPlan(name, (site,), (site,)) for name, site in (("oslo", "o"), ("paris", "p"), ("rome", "r"))),
    )
    nodes = tuple(node for plan in plans for node in plan.nodes)
    steps: list[Step] = []
    for count in range(3):
        here, there = ("a", "b") if count % 2 == 0 else ("b", "a")
        at = SECOND + 3 * SECOND * count + random.randrange(SECOND // 2)
        parts = (f"berlin/{here}", "paris"), (f"berlin/{there}", "oslo", "rome")
        steps += [Step(at, Split(parts), "mutant"), Step(at + 3 * SECOND // 2, Heal(), "mutant")]
    load = Load(nodes, Service.AGREED, 100.0, 16, 0, 10 * SECOND, group="all", scope="wide")
    between = Changes(latency_ns=20_000_000, jitter_ns=15_000_000, loss=0.25)
    return replace(
        wide(seed), nodes=nodes, domains=plans, steps=tuple(steps), loads=(load,), chaos=None, between=between,
        duration_ns=10 * SECOND, processes=(), final=(nodes,), final_down=(), patience_ns=None,
    )  # fmt: skip


def back(seed: int) -> Scenario:
    """A site loses its cluster's only gateway and comes back, while what it sent is on its way over slow lines. Later
    all change their wide configuration together."""
    random = Random(seed)
    plans = DomainPlan("berlin", ("a", "b", "c"), ("a",)), DomainPlan("paris", ("p",), ("p",))
    nodes = tuple(node for plan in plans for node in plan.nodes)
    at = 5 * SECOND + random.randrange(SECOND)
    steps = (
        Step(at, Partition((("berlin/a", "berlin/b", "paris/p"), ("berlin/c",))), "mutant"),
        Step(at + SECOND, Heal(), "mutant"),
        Step(11 * SECOND, Split((("berlin",), ("paris",))), "mutant"),
    )
    load = Load(nodes, Service.AGREED, 20.0, 16, 4 * SECOND, 10 * SECOND, group="all", scope="wide")
    return replace(
        wide(seed), nodes=nodes, domains=plans, steps=steps, loads=(load,), chaos=None,
        between=Changes(latency_ns=400_000_000), duration_ns=12 * SECOND, settle_ns=8 * SECOND,
        processes=(), final=(nodes,), final_down=(), patience_ns=None,
    )  # fmt: skip


def elsewhere(seed: int) -> Scenario:
    """A cluster and the level above part in two. One part of the cluster gets its messages back soon, over near
    lines. The other one still has them on their way, over slow lines to more clusters, when the cluster is whole
    again and goes on there."""
    random = Random(seed)
    plans = (
        DomainPlan("berlin", ("a", "b", "c"), ("a", "b")),
        *(DomainPlan(name, (site,), (site,)) for name, site in (("oslo", "o"), ("paris", "p"), ("rome", "r"))),
    )
    nodes = tuple(node for plan in plans for node in plan.nodes)
    at = 5 * SECOND
    again = at + 5 * SECOND // 2 + random.randrange(SECOND // 4)
    steps = (
        Step(at, Partition((("berlin/a", "berlin/c", "paris/p"), ("berlin/b", "oslo/o", "rome/r"))), "mutant"),
        Step(again, Heal(), "mutant"),
        Step(again, Split((("berlin/a", "paris"), ("berlin/b", "oslo", "rome"))), "mutant"),
        Step(at + 12 * SECOND, Heal(), "mutant"),
    )
    load = Load(("berlin/c",), Service.AGREED, 50.0, 16, at - SECOND // 3, at, group="all", scope="wide")
    far = Changes(latency_ns=300_000_000)
    return replace(
        wide(seed), nodes=nodes, domains=plans, steps=steps, loads=(load,), chaos=None, order="atop",
        links={("berlin/b", "oslo/o"): far, ("berlin/b", "rome/r"): far, ("oslo/o", "rome/r"): far},
        conditions=Conditions(), between=Changes(latency_ns=20_000_000), duration_ns=20 * SECOND,
        settle_ns=8 * SECOND, processes=(), final=(nodes,), final_down=(), patience_ns=None,
    )  # fmt: skip


def slower(seed: int) -> Scenario:
    """A cluster parts for a moment, and the cluster above does not. When the parts meet, the gateway that is elected
    is behind the other one above, since its line to the other cluster is slow."""
    random = Random(seed)
    plans = DomainPlan("berlin", ("a",), ("a",)), DomainPlan("paris", ("p", "q"), ("q", "p"))
    nodes = tuple(node for plan in plans for node in plan.nodes)
    steps = (
        Step(3 * SECOND // 2, Handover(("paris",)), "mutant"),
        Step(2 * SECOND, Cut((("paris/p", "paris/q"),)), "mutant"),
        Step(3 * SECOND + random.randrange(SECOND // 10), Heal(), "mutant"),
    )
    load = Load(("berlin/a", "paris/p"), Service.SAFE, 50.0, 16, 0, 3 * SECOND, group="all", scope="wide")
    return replace(
        wide(seed), nodes=nodes, domains=plans, steps=steps, loads=(load,), chaos=None, order="atop",
        links={("berlin/a", "paris/q"): Changes(latency_ns=100_000_000)}, conditions=Conditions(),
        between=Changes(latency_ns=10_000_000), duration_ns=4 * SECOND,
        processes=(), final=(nodes,), final_down=(), patience_ns=None,
    )  # fmt: skip


def orphaned(seed: int) -> Scenario:
    """As `slower`, but both gateways crash when the parts of the cluster meet, each of which has other sites, too."""
    plans = DomainPlan("berlin", ("a",), ("a",)), DomainPlan("paris", ("p", "q", "r", "s"), ("q", "p"))
    nodes = tuple(node for plan in plans for node in plan.nodes)
    scenario = slower(seed)
    handover, _, heal = scenario.steps
    steps = (
        handover,
        Step(2 * SECOND, Cut(tuple((f"paris/{one}", f"paris/{two}") for one in "pr" for two in "qs")), "mutant"),
        Step(heal.time_ns, Crash(("paris/p", "paris/q")), "mutant"),
        heal,
    )
    load = Load(nodes, Service.SAFE, 50.0, 16, 0, 7 * SECOND // 2, group="all", scope="wide")
    return replace(
        scenario, nodes=nodes, domains=plans, steps=steps, loads=(load,), duration_ns=4 * SECOND, final=(nodes,)
    )


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
    4,
    wide,
)
def _(begin: Any) -> Any:
    def mutated(self: Representing) -> None:
        self._site.home.crossings.clear()
        begin(self)

    return mutated


@plant(
    "seen-is-forgotten",
    Flow,
    "restart",
    "a site forgets at a change of its configuration what it has delivered",
    {"wide.once"},
    6,
    wide,
)
def _(restart: Any) -> Any:
    def mutated(self: Flow, *, was_open: bool) -> Any:
        self._seen = Seen()
        return restart(self, was_open=was_open)

    return mutated


@plant(
    "standby-begins-at-its-own-end",
    Gateway,
    "find",
    "the next representative begins where its own site stands above, not at the cluster's line",
    {"wide.agree", "live.wide", "wide.causal", "wide.fifo", "wide.self"},
    14,
    wide,
)
def _(find: Any) -> Any:
    def mutated(self: Gateway, conf: str, line: tuple[int, ...]) -> int | None:
        return None if find(self, conf, line) is None else self.end

    return mutated


@plant(
    "elected-by-what-one-site-saw",
    meeting,
    "elect",
    "sites elect by different orders of the gateways",
    {"wide.rep"},
    0,
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
    2,
    wide,
)
def _(take: Any) -> Any:
    def mutated(self: Home, waiting: Waiting) -> bool:
        return take(self, waiting) or waiting.wide.service == Service.CAUSAL

    return mutated


@plant("filter-ignored", Domain, "passes_in", "everything comes in, whatever the rules list", {"wide.pass"}, 2, wide)
def _(passes_in: Any) -> Any:
    def mutated(self: Domain, group: str) -> bool:
        return True

    return mutated


@plant(
    "author-gives-up",
    Author,
    "sent",
    "what has not come back is not kept, neither by its author nor for the next local configuration",
    {"wide.self", "live.wide", "wide.causal", "wide.fifo"},
    3,
    wide,
    also=((Home, "carried", lambda _: lambda self: []),),
)
def _(sent: Any) -> Any:
    def mutated(self: Author) -> None:
        sent(self)
        self._own.clear()
        self._bytes = 0

    return mutated


@plant(
    "an-older-term-counts",
    Representing,
    "end",
    "a representative goes on after its term, and what it brings in counts",
    {"wide.rep"},
    0,
    wide,
    also=((meeting.Meeting, "is_current", lambda _: lambda self, sender, term: True),),
)
def _(end: Any) -> Any:
    def mutated(self: Representing) -> None:
        if self._site.term == 0:
            end(self)  # a local configuration begins

    return mutated


@plant(
    "transitional-brought-in-at-once",
    Gateway,
    "_changed",
    "a gateway brings in what comes in a transitional configuration above as if it came in the regular one",
    {"wide.agree"},
    2,
    apart,
)
def _(changed: Any) -> Any:
    def mutated(self: Gateway, event: Changed) -> None:
        if event.kind is not ConfKind.TRANSITIONAL:
            changed(self, event)
        elif self._forming is not None:
            self._formed(self._forming)

    return mutated


@plant("agreed-above", Gateway, "service", "crossings are agreed above, not safe", {"wide.safe"}, 0, unheard)
def _(_service: Any) -> Any:
    return Service.AGREED


@plant(
    "exported-again",
    Flow,
    "take_in",
    "the representative sends above again what came in from another domain",
    {"wide.once", "wide.first"},
    0,
    wide,
)
def _(take_in: Any) -> Any:
    def mutated(self: Flow, brought: In) -> None:
        take_in(self, brought)
        site = self._site
        if site.representing is not None and site.representing.active and brought.domain != site.domain.name:
            crossing = Crossing(site.domain.name, site.local, 1, site.term, False, brought.messages)
            if site.gateway is not None and brought.messages:
                site.gateway.launch(Launch(crossing, (site.name, site.incarnation, 1)))

    return mutated


@plant(
    "roster-not-told-after-a-merge",
    Representing,
    "_tell",
    "a representative tells its cluster's roster when that changes, and not to those who have come since",
    {"wide.views"},
    1,
    wide,
    also=((Views, "enter", lambda _: lambda self, number: setattr(self, "_told", (number,))),),
)
def _(tell: Any) -> Any:
    def mutated(self: Representing) -> None:
        if self._told is None or self._told[0] != self._site.views.version:
            tell(self)

    return mutated


@plant(
    "unreachable-told-as-failed",
    Site,
    "_enter",
    "a domain that is out of reach counts as failed",
    {"wide.lost"},
    0,
    wide,
)
def _(enter: Any) -> Any:
    def mutated(self: Site, wide: Any, reg: str | None = None) -> None:
        enter(self, wide, reg)
        self.events = [
            Lost(event.conf, event.domain, self.tree.domains[event.domain].sites[0], self.local)
            if isinstance(event, Unreachable)
            else event
            for event in self.events
        ]

    return mutated


def _lies(crossing: Any) -> Any:
    """One gateway says that its crossings are berlin's."""
    return lambda domain, *rest: crossing("berlin" if domain == "oslo" else domain, *rest)


@plant(
    "another-domains-name-accepted",
    Gateway,
    "_speaks_for",
    "a gateway may speak for any domain, and one does",
    {"wide.once"},
    1,
    wide,
    also=((representing, "Crossing", _lies),),
)
def _(_speaks_for: Any) -> Any:
    return lambda self, sender, domain: True


@plant(
    "delivered-alone-is-not-told",
    Gateway,
    "has_been_told",
    "what a part without a gateway has delivered crosses all the same, after it has come back",
    {"wide.agree"},
    0,
    back,
)
def _(_has_been_told: Any) -> Any:
    return lambda self, seen: True


@plant(
    "crossings-of-an-earlier-term-go-on",
    Gateway,
    "take_back",
    "a crossing that was not sent before a local change is sent after it, though an earlier one was dropped",
    {"wide.self"},
    5,
    back,
)
def _(_take_back: Any) -> Any:
    def mutated(self: Gateway, unsent: Any) -> None:
        self._again.extend(payload for _, payload in unsent if payload[0] == CROSSING)

    return mutated


@plant(
    "seen-elsewhere-is-not-told",
    Gateway,
    "has_been_told",
    "sites enter a configuration above where what they delivered in another one may yet get a place",
    {"wide.agree"},
    0,
    elsewhere,
)
def _(_has_been_told: Any) -> Any:
    return lambda self, seen: True


def _at_the_furthest(let_in: Any) -> Any:
    """All enter where the part is that has come furthest."""

    def mutated(self: Representing) -> None:
        site = self._site
        line = site.line
        site.line = max(line, *(tuple(told.line) for told in site.meeting.lines))
        let_in(self)
        site.line = line

    return mutated


@plant(
    "lets-in-while-behind",
    Representing,
    "_is_behind",
    "a representative that is behind a part of its cluster above lets all sites enter where that part is",
    {"live.wide", "wide.agree", "wide.causal"},
    0,
    slower,
    also=((Representing, "_let_in", _at_the_furthest),),
)
def _(_is_behind: Any) -> Any:
    return lambda self: False


@plant(
    "behind-and-not-apart",
    Site,
    "_leave",
    "parts that meet without a gateway go on as if all of them had delivered the same",
    {"wide.agree"},
    0,
    orphaned,
)
def _(leave: Any) -> Any:
    def mutated(self: Site, number: int, seen: Any, *, is_apart: bool) -> None:
        if self.phase is not meeting.Phase.MEETING:
            leave(self, number, seen, is_apart=is_apart)

    return mutated


@plant(
    "sent-again-though-seen-at-home",
    Site,
    "_leave",
    "where parts meet without a gateway, authors send again what has come back to another part",
    {"wide.agree"},
    0,
    orphaned,
)
def _(leave: Any) -> Any:
    def mutated(self: Site, number: int, seen: Any, *, is_apart: bool) -> None:
        leave(self, number, [] if self.phase is meeting.Phase.MEETING else seen, is_apart=is_apart)

    return mutated
