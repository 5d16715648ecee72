"""Random processes and what they do: the part of the profile `isis` that other profiles do not have.

Groups overlap, some processes are in none and cast from outside, and labels are few, so that casts meet.
"""

from random import Random

from reconvene.isis.events import ALL
from reconvene.sim.isis_scenario import (
    Cast,
    Casting,
    Flush,
    IsisVerb,
    Join,
    Kill,
    Label,
    Leave,
    ProcessPlan,
    Rank,
    Watch,
)
from reconvene.sim.scenario import Load, Step

__all__ = ["isis_loads", "isis_processes", "isis_steps", "isis_watches"]

MS = 1_000_000
_GROUPS = ("bank", "till", "fleet", "tap")
_LABELS: tuple[Label, ...] = (None, None, None, "x", "y", {"x": 5}, {"x": 5, "y": 7}, {})
_QUEUES = ("", "x", "y")
_KINDS = ("cbcast", "cbcast", "abcast", "abcast", "gbcast")

Processes = tuple[ProcessPlan, ...]


def isis_processes(random: Random, names: tuple[str, ...]) -> Processes:
    groups = _GROUPS[: random.randint(1, len(_GROUPS))]
    most = 3 if len(names) <= 4 else 2
    stateful = random.choice((0.3, 0.7, 1.0))
    return tuple(
        ProcessPlan(
            node=name,
            name=f"p{number}",
            groups=() if random.random() < 0.2 else tuple(random.sample(groups, random.randint(1, len(groups)))),
            replies=random.random() < 0.5,
            state=random.random() < stateful,
        )
        for name in names
        for number in range(random.randint(1, most))
    )


def isis_loads(random: Random, processes: Processes, duration_ns: int) -> tuple[Load, ...]:
    # The whole's rate is bounded, so that a run with many processes costs about what one with few costs.
    rate = random.choice((10.0, 25.0, 50.0))
    loads: list[Load] = []
    for kind in ("cbcast", "cbcast", "abcast", "abcast", "gbcast"):
        senders = random.sample(processes, random.randint(1, len(processes)))
        casting = _casting(random, processes, kind)
        share = rate * (0.1 if kind == "gbcast" else 0.4) / len(senders)
        loads.append(
            Load(
                nodes=(),
                service=None,
                rate=share,
                size=casting.size,
                from_ns=0,
                until_ns=duration_ns,
                processes=tuple(sender.written for sender in senders),
                casting=casting,
            )
        )
    return tuple(loads)


def isis_steps(random: Random, processes: Processes, duration_ns: int) -> tuple[Step, ...]:
    verbs = [_verb(random, processes) for _ in range(random.randint(10, 40))]
    times = sorted(random.randrange(200 * MS, duration_ns) for _ in verbs)
    return tuple(
        Step(time, verb, f"step {place}") for place, (time, verb) in enumerate(zip(times, verbs, strict=True))
    )


def isis_watches(random: Random, processes: Processes, duration_ns: int) -> tuple[Step, ...]:
    """Processes that watch others, of all sites, and some that were over before."""
    count = random.randint(0, 3 * len(processes))
    pairs = [random.sample(processes, 2) for _ in range(count)] if len(processes) > 1 else []
    return tuple(
        Step(random.randrange(duration_ns), Watch(one.written, other.written), f"watch {place}")
        for place, (one, other) in enumerate(pairs)
    )


def _verb(random: Random, processes: Processes) -> IsisVerb:
    plan = random.choice(processes)
    process, group = plan.written, random.choice(plan.groups or _GROUPS[:1])
    match random.choice(("join", "join", "leave", "leave", "rank", "flush", "kill", "cast", "cast", "cast", "burst")):
        case "join":
            return Join(process, random.choice((group, random.choice(_GROUPS))))
        case "leave":
            return Leave(process, group)
        case "rank":
            # By luck those who are in the group now.
            members = [other.written for other in processes if group in other.groups]
            return Rank(process, group, tuple(random.sample(members, len(members))))
        case "flush":
            return Flush(process)
        case "kill":
            return Kill((process,))
        case "cast":
            return Cast(process, _casting(random, processes, random.choice(_KINDS)))
        case _:
            return Cast(process, _casting(random, processes, random.choice(_KINDS[:4])), random.choice((5, 20)))


def _casting(random: Random, processes: Processes, kind: str) -> Casting:
    known = sorted({group for plan in processes for group in plan.groups}) or list(_GROUPS[:1])
    to: str | tuple[str, ...] = random.choice(known)
    if kind != "gbcast" and random.random() < 0.3:
        some = random.sample(processes, min(len(processes), random.randint(1, 3)))
        to = tuple(plan.written for plan in some)
    size = random.choice((10, 64, 64, 700, 12_000)) if kind != "gbcast" else 10
    if kind == "gbcast":
        return Casting(kind, to, size)
    replies = random.choice((0, 0, 1, ALL))
    if kind == "cbcast":
        return Casting(kind, to, size, random.choice(_LABELS), replies=replies)
    return Casting(kind, to, size, random.choice(_QUEUES), causal=random.random() < 0.4, replies=replies)
