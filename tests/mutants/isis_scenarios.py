"""Families of scenarios for process groups, by seed: short, dense, and each full of one kind of situation.

The sites are at different distances from each other, so casts of different senders overtake each other everywhere.
"""

from collections.abc import Mapping
from itertools import combinations
from random import Random

from msgspec.structs import replace

from reconvene.isis.events import ALL
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.isis_scenario import Cast, Casting, Flush, Join, Kill, Leave, ProcessPlan, Rank, Watch, home
from reconvene.sim.scenario import Crash, Heal, Load, Partition, Restart, Scenario, Step, Verb

__all__ = [
    "chains",
    "crossing",
    "cut_off",
    "departures",
    "detours",
    "growing",
    "losing",
    "outsiders",
    "parting",
    "parting_amid_gbcasts",
    "takeovers",
    "transfers",
    "watching",
]

MS = 1_000_000
_NODES = ("a", "b", "c", "d")
_DURATION = 1_500 * MS
_LONG = 3_000 * MS
"""Where sites are lost: that takes more than half a second to notice."""
_SETTLE = 4_000 * MS
_LATENCIES = (1, 5, 15, 40)

Timed = tuple[int, Verb]


def _scenario(
    name: str,
    seed: int,
    processes: tuple[ProcessPlan, ...],
    loads: list[Load],
    steps: list[Timed],
    *,
    duration_ns: int = _DURATION,
    links: dict[tuple[str, str], Changes] | None = None,
) -> Scenario:
    """A site that crashes and is not restarted stays down: fewer than a quorum of the others would remember what was
    used if it came back while one of them is late."""

    ordered = sorted(steps, key=lambda step: step[0])
    return Scenario(
        name=name,
        nodes=_NODES,
        seed=seed,
        stack="isis",
        order="atop",
        duration_ns=duration_ns,
        settle_ns=_SETTLE,
        final=(_NODES,),
        final_down=_down(ordered),
        # On an even seed nothing is lost, and what one site sends to another keeps its order.
        conditions=Conditions(jitter_ns=2 * MS, loss=seed % 2 * 0.03, reorder=seed % 2 * 0.05),
        links=_links(Random(f"{name} {seed}")) if links is None else links,
        steps=tuple(Step(time, verb, f"step {place}") for place, (time, verb) in enumerate(ordered)),
        loads=tuple(loads),
        processes=processes,
        chaos=None,
    )


def _down(steps: list[Timed]) -> tuple[str, ...]:
    down: set[str] = set()
    for _, verb in steps:
        if isinstance(verb, Crash):
            down.update(verb.nodes)
        elif isinstance(verb, Restart):
            down.difference_update(verb.nodes)
    return tuple(sorted(down))


def _links(random: Random) -> dict[tuple[str, str], Changes]:
    return {pair: Changes(latency_ns=random.choice(_LATENCIES) * MS) for pair in combinations(_NODES, 2)}


def _load(processes: tuple[str, ...], rate: float, casting: Casting, until_ns: int = _DURATION) -> Load:
    return Load(
        nodes=(),
        service=None,
        rate=rate,
        size=casting.size,
        from_ns=300 * MS,
        until_ns=until_ns,
        processes=processes,
        casting=casting,
    )


def _plans(
    groups: Mapping[str, tuple[str, ...]], *, replies: bool = False, state: bool = False
) -> tuple[ProcessPlan, ...]:
    """Groups by process."""
    return tuple(
        ProcessPlan(*home(written), groups=names, replies=replies, state=state) for written, names in groups.items()
    )


_LONE = ("a.p", "b.p", "c.p", "d.p")
_MEMBERS = {"a.p": ("g",), "b.p": ("g", "h"), "c.p": ("g", "h"), "d.p": ("h",), "d.q": ("g",), "a.q": ("h",)}


def chains(seed: int) -> Scenario:
    """No groups: four processes cast to some of the others. One link is far longer than the way around it."""
    random = Random(seed)
    to = [("a.p", ("b.p", "d.p")), ("b.p", ("c.p",)), ("c.p", ("d.p",))]
    to += [(sender, tuple(random.sample(_LONE, random.randint(1, 2)))) for sender in _LONE]
    loads = [_load((sender,), 25.0, Casting("cbcast", others, 10)) for sender, others in to]
    links = {("a", "d"): Changes(latency_ns=150 * MS)}
    return _scenario("chains", seed, _plans(dict.fromkeys(_LONE, ())), loads, [], links=links)


def detours(seed: int) -> Scenario:
    """A cast on a long link, and what follows it around that link, by way of processes that it does not go to."""
    loads = [
        _load((sender,), rate, Casting("cbcast", to, 10), _LONG)
        for sender, rate, to in (("a.p", 5.0, ("b.p", "d.p")), ("b.p", 4.0, ("c.p",)), ("c.p", 5.0, ("d.p",)))
    ]
    links = {("a", "d"): Changes(latency_ns=250 * MS)}
    return _scenario("detours", seed, _plans(dict.fromkeys(_LONE, ())), loads, [], links=links, duration_ns=_LONG)


def takeovers(seed: int) -> Scenario:
    """A site crashes in the middle of its casts, while others cast to the same processes. One of the others has come
    later than the rest, so it is not always the first site that is the oldest."""
    random = Random(seed)
    others = _LONE[1:]
    loads = [_load(("a.p",), 60.0, Casting("abcast", others, 10, label), _LONG) for label in ("x", "y")]
    loads.append(_load(("a.p",), 20.0, Casting("abcast", others, 10, "x", causal=True), _LONG))
    loads.append(_load(("a.p",), 60.0, Casting("cbcast", others, 10), _LONG))
    loads.append(_load(others, 10.0, Casting("abcast", others, 10, "x"), _LONG))
    late = random.choice(_NODES[1:])
    steps: list[Timed] = [(0, Crash((late,))), (200 * MS, Restart((late,)))]
    time = random.randrange(1_200 * MS, 1_500 * MS)
    steps.append((time, Crash(("a",))))
    if seed % 4 > 1:  # it comes back while the others adopt the site view without it
        steps.append((time + random.randint(620, 740) * MS, Restart(("a",))))
    return _scenario("takeovers", seed, _plans(dict.fromkeys(_LONE, ())), loads, steps, duration_ns=_LONG)


def departures(seed: int) -> Scenario:
    """A site crashes that casts without pause to processes of no group, over a link that loses much."""
    loads = [_load(("a.p",), 100.0, Casting("cbcast", _LONE[1:], 10, label)) for label in ("x", "y")]
    links = {("a", "d"): Changes(loss=0.3)}
    steps: list[Timed] = [(Random(seed).randrange(700 * MS, 900 * MS), Crash(("a",)))]
    plans = _plans(dict.fromkeys(_LONE, ()))
    return _scenario("departures", seed, plans, loads, steps, duration_ns=_LONG, links=links)


def crossing(seed: int) -> Scenario:
    """Casts of members and of others to a group that has GBCASTs, and members that come and go, without pause, over
    links that lose much."""
    random = Random(seed)
    group = {"b.p": ("g",), "c.p": ("g",), "d.p": ("g",)}
    loads = [_load(("a.p",), 30.0, Casting("cbcast", tuple(random.sample(list(group), 2)), 10)) for _ in range(2)]
    loads.append(_load(("b.p",), 40.0, Casting("cbcast", "g", 10)))
    loads.append(_load(("b.p",), 20.0, Casting("abcast", "g", 10)))
    loads.append(_load(("c.p",), 10.0, Casting("gbcast", "g", 10)))
    steps: list[Timed] = []
    for time in range(400 * MS, _DURATION, 300 * MS):
        steps += [(time, Leave("d.p", "g")), (time + random.randint(50, 150) * MS, Join("d.p", "g"))]
    links = {pair: Changes(latency_ns=random.choice((1, 5)) * MS, loss=0.15) for pair in combinations(_NODES, 2)}
    return _scenario("crossing", seed, _plans({"a.p": (), **group}), loads, steps, links=links)


def cut_off(seed: int) -> Scenario:
    """A site that is far from the others is cut off while ranks change without pause and processes flush; then it
    comes back."""
    random = Random(seed)
    loads = [
        _load((one,), 10.0, Casting("cbcast", tuple(other for other in _LONE if other != one), 10)) for one in _LONE
    ]
    steps: list[Timed] = []
    for time in range(400 * MS, _DURATION, 30 * MS):
        steps.append((time, Rank(random.choice(_LONE), "g", tuple(random.sample(_LONE, 4)))))
        steps += [(time, Flush(random.choice(_LONE))), (time, Flush("d.p"))]
    time = random.randrange(600 * MS, 800 * MS)
    steps += [(time, Partition((_NODES[:3], _NODES[3:]))), (time + 900 * MS, Heal())]
    links = {(node, "d"): Changes(latency_ns=40 * MS) for node in _NODES[:3]}
    plans = _plans(dict.fromkeys(_LONE, ("g",)))
    return _scenario("cut-off", seed, plans, loads, steps, duration_ns=_LONG, links=links)


def _casts(
    random: Random,
    senders: tuple[str, ...],
    rate: float,
    to: tuple[str | tuple[str, ...], ...],
    until_ns: int = _DURATION,
) -> list[Load]:
    """Of all kinds."""
    loads = []
    for place, target in enumerate(to):
        some = tuple(random.sample(senders, max(len(senders) // 2, 1)))
        loads.append(_load(some, rate, Casting("cbcast", target, 10, random.choice((None, None, "x"))), until_ns))
        loads.append(_load(some, rate, Casting("abcast", target, 10, ("x", "y", "")[place % 3]), until_ns))
        loads.append(_load(some, rate / 4, Casting("abcast", target, 10, "x", causal=True), until_ns))
    return loads


def growing(seed: int) -> Scenario:
    """Two groups that overlap, which processes join and leave all the time; GBCASTs and changes of rank."""
    random = Random(seed)
    names = tuple(_MEMBERS)
    pairs: tuple[str | tuple[str, ...], ...] = tuple(tuple(random.sample(names, 2)) for _ in range(2))
    loads = _casts(random, names, 12.0, ("g", "h", *pairs))
    loads.append(_load(names, 2.0, Casting("gbcast", random.choice("gh"), 10)))
    steps: list[Timed] = []
    for process, groups in _MEMBERS.items():
        for time in range(400 * MS, _DURATION, 250 * MS):
            group = random.choice(groups)
            verb = random.choice(
                (Leave(process, group), Join(process, group), Rank(process, group, _ranks(random, group)))
            )
            steps.append((time + random.randrange(200 * MS), verb))
    return _scenario("growing", seed, _plans(_MEMBERS), loads, steps)


def _ranks(random: Random, group: str) -> tuple[str, ...]:
    members = [process for process, groups in _MEMBERS.items() if group in groups]
    return tuple(random.sample(members, len(members)))


def outsiders(seed: int) -> Scenario:
    """One group that loses and gains members all the time, and processes outside of it that cast to it, and to each
    other."""
    random = Random(seed)
    inside = {"b.p": ("g",), "c.p": ("g",), "d.p": ("g",)}
    plans = _plans({**inside, "a.x": (), "b.x": (), "c.x": ()})
    outside = ("a.x", "b.x", "c.x")
    loads = [_load((one,), 25.0, Casting("cbcast", "g", 10)) for one in outside]
    loads += [
        _load((one,), 20.0, Casting("cbcast", tuple(random.sample((*outside, *inside), 2)), 10)) for one in outside
    ]
    loads.append(_load(outside, 6.0, Casting("abcast", "g", 10, "x", causal=bool(seed % 2))))
    steps: list[Timed] = []
    for process in inside:
        for time in range(350 * MS, _DURATION, 200 * MS):
            at = time + random.randrange(100 * MS)
            steps += [(at, Leave(process, "g")), (at + random.randint(20, 120) * MS, Join(process, "g"))]
    return _scenario("outsiders", seed, plans, loads, steps)


def losing(seed: int) -> Scenario:
    """Sites crash while they cast, and come back; processes die; all ask for replies, and flush."""
    random = Random(seed)
    names = tuple(_MEMBERS)
    pairs: tuple[str | tuple[str, ...], ...] = tuple(tuple(random.sample(names, 2)) for _ in range(3))
    loads = _casts(random, names, 8.0, ("g", "h", *pairs), _LONG)
    loads += [_load(names, 3.0, Casting(kind, "g", 10, replies=ALL), _LONG) for kind in ("cbcast", "abcast")]
    steps: list[Timed] = [(random.randrange(400 * MS, _LONG), Flush(random.choice(names))) for _ in range(12)]
    steps += [(random.randrange(600 * MS, _LONG), Kill((name,))) for name in random.sample(names, 2)]
    one, other = random.sample(_NODES, 2)
    time = random.randrange(600 * MS, 900 * MS)
    steps += [(time, Crash((one,))), (time + 900 * MS, Restart((one,)))]
    steps.append((time + random.randint(1_000, 1_600) * MS, Crash((other,))))
    return _scenario("losing", seed, _plans(_MEMBERS, replies=True), loads, steps, duration_ns=_LONG)


def watching(seed: int) -> Scenario:
    """The same with GBCASTs, more processes that die, and processes that watch others, also those of a site that is
    just coming back."""
    random = Random(f"watching {seed}")
    scenario = losing(seed)
    pairs = [(one, other) for one in _MEMBERS for other in _MEMBERS if home(one)[0] != home(other)[0]]
    watches = tuple(
        Step(random.randrange(300 * MS, _LONG), Watch(one, other), f"watch {place}")
        for place, (one, other) in enumerate(random.choices(pairs, k=60))
    )
    kills = tuple(
        Step(random.randrange(600 * MS, _LONG), Kill((name,)), f"kill {place}")
        for place, name in enumerate(random.sample(tuple(_MEMBERS), 3))
    )
    loads = (*scenario.loads, _load(tuple(_MEMBERS), 8.0, Casting("gbcast", "g", 10), _LONG))
    steps = tuple(sorted((*scenario.steps, *watches, *kills), key=lambda step: step.time_ns))
    return replace(scenario, name="watching", loads=loads, steps=steps)


def parting(seed: int, casts: float = 8.0, gbcasts: float = 3.0) -> Scenario:
    """One site after the other is cut off, often in the middle of a GBCAST, and killed when it comes back.
    `casts`, `gbcasts`: so many a second of each member."""
    random = Random(seed)
    names = tuple(_MEMBERS)
    loads = _casts(random, names, casts, ("g", "h", tuple(random.sample(names, 2))), _LONG)
    loads.append(_load(names, gbcasts, Casting("gbcast", "g", 10), _LONG))
    steps: list[Timed] = [(random.randrange(400 * MS, _LONG), Flush(name)) for name in names for _ in range(4)]
    for time in (600 * MS, 1_900 * MS):
        one = random.choice(_NODES)
        rest = tuple(node for node in _NODES if node != one)
        at = time + random.randrange(200 * MS)
        steps += [(at, Partition(((one,), rest))), (at + random.randint(700, 1_000) * MS, Heal())]
    for process, groups in _MEMBERS.items():
        at = random.randrange(500 * MS, _LONG)
        steps.append((at, Rank(process, groups[0], _ranks(random, groups[0]))))
        steps.append((at + 50 * MS, random.choice((Leave, Join))(process, random.choice("gh"))))
    return _scenario("parting", seed, _plans(_MEMBERS), loads, steps, duration_ns=_LONG)


def parting_amid_gbcasts(seed: int) -> Scenario:
    """The same with so many casts and GBCASTs that some of each are always under way."""
    return parting(seed, casts=40.0, gbcasts=12.0)


def transfers(seed: int) -> Scenario:
    """Processes that give and take state join a busy group, and who gives it dies or is lost."""
    random = Random(seed)
    members = {"a.p": ("g",), "b.p": ("g",), "c.p": ("g",), "d.p": ("g",)}
    loads = [_load(tuple(members), 30.0, Casting("cbcast", "g", 10))]
    loads.append(_load(tuple(members), 10.0, Casting("abcast", "g", 10)))
    steps: list[Timed] = []
    joining = random.sample(list(members), 2)
    for process in joining:
        # To leave takes a while: all that the process has cast comes first.
        time = random.randrange(700 * MS, 900 * MS)
        steps += [(time, Leave(process, "g")), (time + 700 * MS, Join(process, "g"))]
        steps.append((time + 800 * MS, Cast(process, Casting("cbcast", "g", 10), 5)))
    time += 750 * MS + random.randrange(200 * MS)
    first = next(node for node in _NODES if f"{node}.p" not in joining)  # it may be asked for the state
    steps.append((time, Kill((f"{first}.p",)) if seed % 2 else Crash((first,))))
    return _scenario("transfers", seed, _plans(members, state=True), loads, steps, duration_ns=_LONG)
