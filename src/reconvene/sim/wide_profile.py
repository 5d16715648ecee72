"""Random scenarios of several clusters, for campaigns: few sites, many kinds of faults, and much that crosses."""

from dataclasses import replace
from random import Random

from reconvene.ids import Service
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.isis_scenario import Join, Leave, ProcessPlan
from reconvene.sim.profile_parts import MS, SECOND, outline, storm
from reconvene.sim.scenario import WIDE_FAULTS, Load, Scenario, Step
from reconvene.sim.wide_scenario import DomainPlan

__all__ = ["GATEWAY_STEPS", "wide_scenario"]

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
