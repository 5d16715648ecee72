"""Random scenarios of several clusters, for campaigns: few sites, many kinds of faults, and much that crosses."""

from dataclasses import replace
from random import Random

from msgspec import structs

from reconvene.ids import Service
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.isis_scenario import Join, Leave, ProcessPlan
from reconvene.sim.profile_parts import MS, SECOND, outline, storm
from reconvene.sim.scenario import WIDE_FAULTS, Load, Scenario, Step
from reconvene.sim.wide_scenario import DomainPlan

__all__ = ["GATEWAY_STEPS", "wide_scenario", "with_standing_faults"]

_CHANGES = ("gathering", "forming: sync", "forming: states", "recovering: exchange", "recovering: wait")
_REPRESENTING = ("meeting", "catching up", "standby", "crossing", "unconfirmed", "idle")
GATEWAY_STEPS = (
    *(f"gateway: {step}" for step in (*_CHANGES, *_REPRESENTING)),
    *(f"upper: {step}" for step in (*_CHANGES, "seeing")),
)
"""What a gateway can be in the midst of, in its cluster and above: faults lie in wait for each of them."""
_RARE = tuple(step for step in GATEWAY_STEPS if step.endswith("recovering: exchange"))
"""Only where frames were lost: more faults lie in wait for these."""
_LOSS = 0.2
"""In some runs so many datagrams are lost that sites have different frames when a configuration changes."""
_STANDING_EVERY = 5
_STANDING = 16
"""So many pairs of step and fault wait in every fifth run. In 75 seeds each pair has its turn."""
_BAD = Conditions(latency_ns=5 * MS, jitter_ns=3 * MS, loss=0.4)
_CHANGING = ("crash", "gateway", "partition", "pause")
"""Faults that change configurations."""
_NAMES = ("berlin", "oslo", "paris", "rome")
_GROUPS = ("all", "news", "bank")


def wide_scenario(seed: int, random: Random, names: tuple[str, ...], conditions: Conditions) -> Scenario:
    """Five seconds of everything at once, six to settle. `names`: of each cluster's sites, at most so many."""
    duration_ns = 5 * SECOND
    plans = tuple(_plan(random, name, names) for name in _NAMES[: random.choice((2, 2, 3, 3, 4))])
    nodes = tuple(node for plan in plans for node in plan.nodes)
    between_ns = random.choice((2, 10, 30)) * MS
    kinds = {"gateway", *random.sample(WIDE_FAULTS, random.randint(2, len(WIDE_FAULTS)))}
    down = (random.choice(nodes),) if random.random() < 0.15 else ()
    extra = Random(f"groups {seed}")
    processes = tuple(_process(extra, node) for node in nodes if extra.random() < 0.5)
    return Scenario(
        **outline("wide", "wide", seed, nodes, duration_ns, 6 * SECOND),
        final=_final(random, plans),
        final_down=down,
        conditions=replace(conditions, loss=_LOSS) if extra.random() < 0.4 else conditions,
        links={},
        steps=_joins(extra, processes, duration_ns),
        processes=processes,
        loads=tuple(_load(random, plan, duration_ns) for plan in plans for _ in range(random.randint(1, 3))),
        chaos=storm(random, kinds, duration_ns, 0.6, (*GATEWAY_STEPS, *3 * _RARE), 150),
        domains=plans,
        patience_ns=extra.choice((None, None, 1_500 * MS, 3_000 * MS)),
        between=Changes(latency_ns=between_ns, jitter_ns=random.choice((0, between_ns // 4))),
    )


def with_standing_faults(scenario: Scenario) -> Scenario:
    """In every fifth seed faults wait for some of a gateway's steps until one enters them. For the exchange of frames
    in its cluster all kinds wait. That is entered only where frames get lost while many are under way: so the network
    is bad, and all sites of one busy cluster are gateways."""
    number, rest = divmod(scenario.seed, _STANDING_EVERY)
    chaos = scenario.chaos
    if rest != _STANDING_EVERY - 2 or chaos is None:
        return scenario
    exchange = _RARE[0]
    turn = number % len(WIDE_FAULTS)
    every = [(kind, exchange) for kind in (*WIDE_FAULTS[turn:], *WIDE_FAULTS[:turn])]
    pairs = [(kind, step) for step in GATEWAY_STEPS for kind in WIDE_FAULTS if step != exchange]
    first = number * _STANDING % len(pairs)
    busy = max(scenario.domains, key=lambda plan: len(plan.nodes))
    load = Load(busy.nodes, Service.CAUSAL, 100.0, 16, 0, scenario.duration_ns, group=_GROUPS[0], scope="cluster")
    return structs.replace(
        scenario,
        conditions=_BAD,
        domains=tuple(structs.replace(p, gateways=p.sites) if p is busy else p for p in scenario.domains),
        loads=(*scenario.loads, load),
        chaos=structs.replace(
            chaos,
            faults=tuple(sorted({*chaos.faults, *_CHANGING})),
            mean_gap_ns=150 * MS,
            standing=(*every, *(2 * pairs)[first : first + _STANDING]),
        ),
    )


def _plan(random: Random, name: str, names: tuple[str, ...]) -> DomainPlan:
    sites = names[: random.randint(2, max(2, min(5, len(names))))]
    gateways = tuple(random.sample(sites, min(len(sites), random.choice((1, 2, 2, 3)))))
    passes = ("*",) if random.random() < 0.7 else ("all", "b*")
    return DomainPlan(name, sites, gateways, passes, ("*",) if random.random() < 0.7 else ("all", "news"))


def _process(random: Random, node: str) -> ProcessPlan:
    return ProcessPlan(node, "x", tuple(random.sample(_GROUPS, random.randint(0, len(_GROUPS)))))


def _joins(random: Random, processes: tuple[ProcessPlan, ...], duration_ns: int) -> tuple[Step, ...]:
    """Processes join and leave wide groups all the time."""
    steps: list[Step] = []
    for _ in range(4 * len(processes)):
        process, group = random.choice(processes).written, random.choice(_GROUPS)
        verb = Join(process, group) if random.random() < 0.5 else Leave(process, group)
        steps.append(Step(random.randrange(duration_ns), verb, "profile"))
    return tuple(sorted(steps, key=lambda step: step.time_ns))


def _load(random: Random, plan: DomainPlan, duration_ns: int) -> Load:
    from_ns = random.randrange(duration_ns // 2)
    return Load(
        nodes=tuple(sorted(random.sample(plan.nodes, random.randint(1, len(plan.nodes))))),
        service=random.choice(tuple(Service)),
        rate=random.choice((5.0, 20.0, 60.0)),
        size=random.choice((16, 100, 1_000)),
        from_ns=from_ns,
        until_ns=random.randrange(from_ns, duration_ns),
        group=random.choice(_GROUPS),
        scope=random.choice(("wide", "wide", "wide", "cluster")),
    )


def _final(random: Random, plans: tuple[DomainPlan, ...]) -> tuple[tuple[str, ...], ...]:
    """Mostly all clusters are together in the end."""
    if random.random() < 0.8:
        return (tuple(node for plan in plans for node in plan.nodes),)
    cut = random.randint(1, len(plans) - 1)
    shuffled = random.sample(plans, len(plans))
    return tuple(tuple(node for plan in part for node in plan.nodes) for part in (shuffled[:cut], shuffled[cut:]))
