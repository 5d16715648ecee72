"""Random scenarios of several clusters whose processes cast within their clusters and between them."""

from random import Random

from msgspec import structs

from reconvene.isis.events import ALL
from reconvene.sim.conditions import Conditions
from reconvene.sim.isis_scenario import Cast, Casting, Join, Kill, Label, Leave, ProcessPlan, Watch
from reconvene.sim.scenario import Load, Scenario, Step
from reconvene.sim.wide_profile import wide_scenario
from reconvene.sim.wide_scenario import DomainPlan

__all__ = ["far_scenario"]

_GROUPS = ("bank", "news")
_LABELS: tuple[Label, ...] = (None, None, "x", "y")


def far_scenario(seed: int, random: Random, names: tuple[str, ...], conditions: Conditions) -> Scenario:
    """The clusters, faults and times of profile wide, with few messages of applications."""
    base = wide_scenario(seed, random, names, conditions)
    random = Random(f"far {seed}")
    plans = tuple(_open(random, plan) for plan in base.domains)
    asking = Random(f"far replies {seed}")
    processes = tuple(
        ProcessPlan(node, "x", tuple(random.sample(_GROUPS, random.randint(1, len(_GROUPS)))), asking.random() < 0.5)
        for node in base.nodes
        if random.random() < 0.7
    )
    if not processes:
        processes = (ProcessPlan(base.nodes[0], "x", _GROUPS),)
    loads = tuple(_load(random, processes, base.duration_ns) for _ in range(random.randint(2, 5)))
    steps = tuple(_ask(asking, step) for step in _steps(random, processes, base.duration_ns))
    return structs.replace(
        base, name="wide-isis", isis=True, domains=plans, processes=processes, loads=(*base.loads[:1], *loads),
        steps=steps,
    )  # fmt: skip


def _ask(random: Random, step: Step) -> Step:
    """Some casts to several clusters ask for replies."""
    verb = step.verb
    if not isinstance(verb, Cast) or verb.casting.scope != "wide" or random.random() < 0.5:
        return step
    casting = structs.replace(verb.casting, replies=random.choice((1, ALL)))
    return structs.replace(step, verb=structs.replace(verb, casting=casting))


def _open(random: Random, plan: DomainPlan) -> DomainPlan:
    """Rules that let some casts pass."""
    more = [
        () if "*" in rules else (random.choice(("isis*", "isis*", "isis:bank")),) for rules in (plan.out, plan.into)
    ]
    return structs.replace(plan, out=(*plan.out, *more[0]), into=(*plan.into, *more[1]))


def _to(random: Random, processes: tuple[ProcessPlan, ...], domain: str | None) -> str | tuple[str, ...]:
    """`domain`: of all destinations; None: of any."""
    if random.random() < 0.7:
        return random.choice(_GROUPS)
    known = [plan.written for plan in processes if domain in (None, plan.node.partition("/")[0])]
    return tuple(random.sample(known, random.randint(1, min(3, len(known)))))


def _casting(random: Random, processes: tuple[ProcessPlan, ...], process: ProcessPlan) -> Casting:
    scope = random.choice(("wide", "wide", "cluster"))
    kind = random.choice(("cbcast", "cbcast", "cbcast", "abcast"))
    label = random.choice(_LABELS)
    to = _to(random, processes, None if scope == "wide" else process.node.partition("/")[0])
    return Casting(kind, to, random.choice((16, 100, 1_000)), label, scope=scope)


def _load(random: Random, processes: tuple[ProcessPlan, ...], duration_ns: int) -> Load:
    """Of processes of one cluster: those can name each other."""
    first = random.choice(processes)
    domain = first.node.partition("/")[0]
    near = [plan.written for plan in processes if plan.node.partition("/")[0] == domain]
    casting = _casting(random, processes, first)
    from_ns = random.randrange(duration_ns // 2)
    return Load(
        nodes=(),
        service=None,
        rate=random.choice((5.0, 20.0, 60.0)),
        size=casting.size,
        from_ns=from_ns,
        until_ns=random.randrange(from_ns, duration_ns),
        processes=tuple(sorted(near)),
        casting=casting,
    )


def _steps(random: Random, processes: tuple[ProcessPlan, ...], duration_ns: int) -> tuple[Step, ...]:
    """Processes watch each other, join, leave, cast now and then, and die."""
    steps: list[Step] = []
    for _ in range(8 * len(processes)):
        one, other = random.choice(processes), random.choice(processes)
        verb: Watch | Join | Leave | Kill | Cast
        match random.choice(("watch", "watch", "watch", "join", "leave", "kill", "cast", "cast", "cast", "cast")):
            case "watch":
                if one.node.partition("/")[0] == other.node.partition("/")[0]:
                    continue
                verb = Watch(one.written, other.written)
            case "join":
                verb = Join(one.written, random.choice(_GROUPS))
            case "leave":
                verb = Leave(one.written, random.choice(_GROUPS))
            case "kill":
                if random.random() < 0.7:
                    continue  # one that is dead is watched by nobody
                verb = Kill((one.written,))
            case _:
                verb = Cast(one.written, _casting(random, processes, one), random.choice((1, 1, 5)))
        steps.append(Step(random.randrange(duration_ns), verb, "profile"))
    return tuple(sorted(steps, key=lambda step: step.time_ns))
