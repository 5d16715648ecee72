"""Random scenarios from a seed: what a campaign is made of.

A seed decides the cluster's size, the order engine, the network, the load and the faults, so that neighbouring
seeds differ in all of them and every seed can be run again by its number alone.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from reconvene.corel.replicas.sets import MAJORITY
from reconvene.errors import Rejected
from reconvene.ids import MAX_SITES, Service
from reconvene.quorum import Spec
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.far_profile import far_scenario
from reconvene.sim.isis_profile import isis_loads, isis_processes, isis_steps, isis_watches
from reconvene.sim.profile_parts import MS, SECOND, outline, storm
from reconvene.sim.scenario import FAULTS, ISIS_FAULTS, Append, Load, OperatorPlan, Scenario, Step
from reconvene.sim.wide_profile import wide_scenario, with_standing_faults

__all__ = ["LIST_STEPS", "PROFILES", "random_scenario"]

_FAULTS = tuple(kind for kind in FAULTS if kind not in ("full", "sync"))
"""Of sites without the log, which write little."""
_DYNAMIC_STEPS = tuple(f"log: {step}" for step in ("states", "attempt", "commit", "establish"))
_CHANGE = "log: change"
_LOG_STEPS = tuple(f"log: {step}" for step in ("states", "priority", "claims", "reds", "attempt", "commit"))
_ISIS_STEPS = tuple(
    f"isis: {step}"
    for step in (
        *("adopting", "change takeover", "change push", "change flushed"),
        *("gbcast announced", "gbcast ready", "gbcast concluded"),
        *("transfer", "transfer", "transfer", "change push", "change push"),
    )
)
"""The last ones are seldom entered: more faults wait for them."""
LIST_STEPS = tuple(f"list: {step}" for step in ("proposed", "chosen", "in force"))
"""Of a site's knowledge of the list: see `sim.changing`."""
_NAMES = [f"n{ordinal:02}" for ordinal in range(MAX_SITES)]


def random_scenario(seed: int, profile: str = "chaos", nodes: int | None = None) -> Scenario:
    """The scenario of this number; `nodes` fixes the size that the seed would draw."""
    make = PROFILES.get(profile)
    if make is None:
        raise Rejected(f"profile {profile!r}: expected one of {', '.join(PROFILES)}")
    random = Random(f"{profile}/{seed}")
    size = random.randint(3, 9)
    return make(seed, random, tuple(_NAMES[: nodes or size]))


def _chaos(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """Ten virtual seconds: six of everything at once, four to settle."""
    return _scenario("chaos", seed, random, names, duration_ns=6 * SECOND, settle_ns=4 * SECOND)


def _long(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """A quarter of a minute of faults, so that configurations follow each other many times over."""
    return _scenario("long", seed, random, names, duration_ns=15 * SECOND, settle_ns=5 * SECOND, calm=True)


def _scenario(
    profile: str,
    seed: int,
    random: Random,
    names: tuple[str, ...],
    *,
    duration_ns: int,
    settle_ns: int,
    calm: bool = False,
) -> Scenario:
    conditions = _conditions(random)
    kinds = random.sample(_FAULTS, random.randint(2, len(_FAULTS)))
    # The whole's rate is bounded, so that a run of nine sites costs about what a run of three costs.
    rate = random.choice((3.0, 8.0, 20.0) if calm else (6.0, 20.0, 45.0)) / len(names)
    loads = tuple(
        Load(
            nodes=names if random.random() < 0.7 else tuple(sorted(random.sample(names, 2))),
            service=service,
            rate=rate,
            size=random.choice((10, 64, 700)),
            from_ns=0,
            until_ns=duration_ns,
        )
        for service in Service
    )
    if random.random() < 0.4 and len(names) <= 5:
        # One busy sender among quiet ones: what an order engine has to adapt to.
        loads += (Load((random.choice(names),), Service.AGREED, 60.0, 10, 0, duration_ns),)
    big = Load(
        nodes=(random.choice(names),),
        service=random.choice(list(Service)),
        rate=0.4,
        size=random.choice((12_000, 40_000)),
        from_ns=0,
        until_ns=duration_ns,
    )
    return Scenario(
        **outline(profile, "evs", seed, names, duration_ns, settle_ns),
        final=_final(random, names),
        final_down=(random.choice(names),) if random.random() < 0.15 else (),
        conditions=conditions,
        links=_links(random, names),
        steps=(),
        loads=(*loads, big),
        chaos=storm(random, kinds, duration_ns, 0.3),
    )


def _log(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """The durable log, sized as `chaos` is."""
    return _log_scenario("log", seed, random, names, duration_ns=6 * SECOND, settle_ns=4 * SECOND)


def _log_long(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """The durable log, sized as `long` is."""
    return _log_scenario("log-long", seed, random, names, duration_ns=15 * SECOND, settle_ns=5 * SECOND)


def _log_scenario(
    profile: str, seed: int, random: Random, names: tuple[str, ...], *, duration_ns: int, settle_ns: int
) -> Scenario:
    conditions = _conditions(random)
    kinds = random.sample(FAULTS, random.randint(2, len(FAULTS)))
    rate = random.choice((4.0, 12.0, 30.0)) / len(names)
    loads = [
        Load(
            nodes=names if random.random() < 0.7 else tuple(sorted(random.sample(names, 2))),
            service=None,
            rate=rate,
            size=random.choice((10, 64, 700)),
            from_ns=0,
            until_ns=duration_ns,
        ),
        # Larger than a batch, and than a frame.
        Load((random.choice(names),), None, 0.4, random.choice((9_000, 40_000)), 0, duration_ns),
    ]
    if random.random() < 0.3:
        # Messages beside the log share its frames and its order.
        loads.append(Load(names, random.choice(list(Service)), 4.0 / len(names), 64, 0, duration_ns))
    bursts = tuple(
        Step(
            random.randrange(duration_ns), Append(random.choice(names), random.choice((5, 40)), 20), f"burst {place}"
        )
        for place in range(random.randrange(4))
    )
    return Scenario(
        **outline(profile, "corel", seed, names, duration_ns, settle_ns),
        final=_final(random, names),
        final_down=(random.choice(names),) if random.random() < 0.15 else (),
        conditions=conditions,
        links=_links(random, names),
        steps=tuple(sorted(bursts, key=lambda step: step.time_ns)),
        loads=tuple(loads),
        quorum=_quorum(random, names),
        chaos=storm(random, kinds, duration_ns, 0.6, _LOG_STEPS),
    )


def _dynamic(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """The durable log with dynamic voting: more partitions, and faults that wait for each step of establishing."""
    scenario = _log_scenario("dynamic", seed, random, names, duration_ns=6 * SECOND, settle_ns=4 * SECOND)
    spec: dict[str, object] = {"kind": "dynamic", "minimum": random.choice((1, 2, 2, 2, min(3, len(names))))}
    if random.random() < 0.25:
        spec["weights"] = {name: random.randint(1, 3) for name in names}
    final = scenario.final
    if random.random() < 0.4:
        final = _final(random, names)
    chaos = scenario.chaos
    assert chaos is not None, "a scenario of the log has chaos"
    scenario = replace(
        scenario,
        quorum=spec,
        final=final,
        chaos=replace(
            chaos,
            faults=tuple(sorted({*chaos.faults, "partition", "crash"})),
            mean_gap_ns=random.choice((80, 200, 500)) * MS,
            ambush_steps=_DYNAMIC_STEPS,
            shrink=random.choice((0.0, 0.5, 0.8)),
        ),
    )
    draw = random.random()
    if draw < 0.35:
        return _operated(scenario, random, changes=True)
    if draw < 0.6:
        return _operated(scenario, random, changes=draw < 0.4, lost=1 if draw < 0.5 else len(names) // 2)
    return scenario


def _operated(scenario: Scenario, random: Random, *, changes: bool, lost: int = 0) -> Scenario:
    """Besides, an operator changes the replicas and the kind of their quorum, and faults wait for the moment when
    that takes effect; or so many lose their disks, and more than one are given up by force. Those are down in the
    end: in the trace of their sites, their new storages would say everything again."""
    chaos = scenario.chaos
    assert chaos is not None, "a scenario of the log has chaos"
    steps = (*_DYNAMIC_STEPS, *(2 * (_CHANGE,))) if changes else _DYNAMIC_STEPS
    gone = tuple(sorted(random.sample(scenario.nodes, lost)))
    plan = OperatorPlan(
        from_ns=chaos.from_ns,
        until_ns=chaos.until_ns,
        mean_gap_ns=random.choice((100, 300, 800)) * MS,
        changes=("switch", "add", "remove") if changes else (),
        lost=gone,
        lost_ns=random.randrange(scenario.duration_ns // 2) if gone else 0,
        force=lost > 1,
    )
    return replace(
        scenario,
        operator=plan,
        chaos=replace(chaos, ambush_steps=steps),
        final=(scenario.nodes,) if gone else scenario.final,
        final_down=gone or scenario.final_down,
        settle_ns=scenario.settle_ns + (2 * SECOND if plan.force else 0),
    )


def _followers(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """The durable log with followers beside the nodes, which meet the same faults. In the end some of them may be
    in another component than most nodes, or down."""
    scenario = _log_scenario("followers", seed, random, names, duration_ns=6 * SECOND, settle_ns=5 * SECOND)
    followers = tuple(f"x{number}" for number in range(random.randint(1, 4)))
    return replace(_beside(scenario, random, followers), followers=followers)


def _outposts(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """The durable log with outposts that accept messages beside the nodes, sometimes with followers too. In the end
    some of them may be in another component than most nodes, or down: a long settle time brings the others' messages
    to the log, a few at a time."""
    duration_ns = 6 * SECOND
    scenario = _log_scenario("outposts", seed, random, names, duration_ns=duration_ns, settle_ns=8 * SECOND)
    outposts = tuple(f"o{number}" for number in range(random.randint(1, 3)))
    followers = tuple(f"x{number}" for number in range(random.choice((0, 0, 1, 2))))
    rate = random.choice((4.0, 12.0, 30.0)) / len(outposts)
    load = Load(outposts, None, rate, random.choice((10, 64, 700)), 0, duration_ns)
    bursts = tuple(
        Step(random.randrange(duration_ns), Append(random.choice(outposts), 40, 20), f"burst at an outpost {place}")
        for place in range(random.randrange(4))
    )
    return replace(
        _beside(scenario, random, (*followers, *outposts)),
        followers=followers,
        outposts=outposts,
        loads=(*scenario.loads, load),
        steps=tuple(sorted((*scenario.steps, *bursts), key=lambda step: step.time_ns)),
    )


def _beside(scenario: Scenario, random: Random, remotes: tuple[str, ...]) -> Scenario:
    """Where these processes beside the nodes are in the end; and crashes, which meet their writes too."""
    final = [list(component) for component in scenario.final]
    for name in remotes:
        random.choice(final).append(name)
    chaos = scenario.chaos
    assert chaos is not None, "a scenario of the log has chaos"
    return replace(
        scenario,
        final=tuple(tuple(component) for component in final),
        final_down=(*scenario.final_down, *(name for name in remotes if random.random() < 0.1)),
        chaos=replace(chaos, faults=tuple(sorted({*chaos.faults, "crash", "sync"}))),
    )


def _isis(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """Process groups: six seconds of everything at once, five to settle."""
    duration_ns = 6 * SECOND
    conditions = _conditions(random)
    kinds = random.sample(ISIS_FAULTS, random.randint(2, len(ISIS_FAULTS)))
    processes = isis_processes(random, names)
    final = _final(random, names)
    down = (random.choice(names),) if random.random() < 0.15 else ()
    links = _links(random, names)
    return Scenario(
        **outline("isis", "isis", seed, names, duration_ns, 5 * SECOND),
        final=final,
        final_down=down,
        conditions=conditions,
        links=links,
        steps=isis_steps(random, processes, duration_ns)
        + isis_watches(Random(f"watches {seed}"), processes, duration_ns),
        loads=isis_loads(random, processes, duration_ns),
        processes=processes,
        chaos=storm(random, kinds, duration_ns, 0.6, _ISIS_STEPS, 150),
    )


def _sites(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """Groups, while sites are added to the list and removed from it."""
    return _with_changing_list(_scenario("sites", seed, random, names, duration_ns=6 * SECOND, settle_ns=5 * SECOND))


def _log_sites(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    """The durable log, the same way: its replicas follow the list."""
    scenario = _log_scenario("log-sites", seed, random, names, duration_ns=6 * SECOND, settle_ns=6 * SECOND)
    return _with_changing_list(replace(scenario, quorum=MAJORITY))


def _with_changing_list(scenario: Scenario) -> Scenario:
    """Half of the nodes or more are sites at the start. Faults wait for each step of a change of the list, above all
    the syncs: a site that crashes before it has stored what it knows has forgotten it."""
    random = Random(f"lists {scenario.name} {scenario.seed}")
    nodes = scenario.nodes
    first = random.sample(nodes, random.randint(max(1, len(nodes) // 2), max(1, len(nodes) - 1)))
    chaos = scenario.chaos
    assert chaos is not None, "a scenario of a campaign has chaos"
    return replace(
        scenario,
        sites=tuple(sorted(first)),
        chaos=replace(
            chaos,
            faults=tuple(sorted({*chaos.faults, "partition", "crash", "sync"})) + ("sites",) * 3,
            mean_gap_ns=random.choice((120, 250, 500)) * MS,
            ambush=random.choice((0.3, 0.6)),
            ambush_steps=LIST_STEPS,
            standing=tuple(
                (kind, step) for step in LIST_STEPS for kind in ("sync", "partition") if random.random() < 0.5
            ),
        ),
    )


def _wide(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    return with_standing_faults(wide_scenario(seed, random, names, _conditions(random)))


def _wide_isis(seed: int, random: Random, names: tuple[str, ...]) -> Scenario:
    return far_scenario(seed, random, names, _conditions(random))


def _quorum(random: Random, names: tuple[str, ...]) -> Spec:
    """Mostly a majority; any quorum has to do."""
    draw = random.random()
    if draw < 0.1:
        return {"kind": "weighted", "weights": {name: random.randint(1, 3) for name in names}}
    if draw < 0.2:
        cut = random.randint(1, len(names) - 1)
        return {"kind": "grid", "rows": [list(names[:cut]), list(names[cut:])]}
    return MAJORITY


def _conditions(random: Random) -> Conditions:
    lossy = random.random() < 0.5
    return Conditions(
        latency_ns=random.choice((200_000, 1 * MS, 5 * MS)),
        jitter_ns=random.choice((0, 500_000, 3 * MS)),
        loss=random.choice((0.01, 0.05, 0.15)) if lossy else 0.0,
        duplicate=random.choice((0.0, 0.01, 0.2)) if lossy else 0.0,
        reorder=random.choice((0.0, 0.01, 0.1)) if lossy else 0.0,
    )


def _final(random: Random, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Mostly everyone is together in the end; sometimes two components remain, and each must come to rest."""
    if random.random() < 0.8:
        return (names,)
    cut = random.randint(1, len(names) - 1)
    shuffled = random.sample(names, len(names))
    return tuple(sorted(shuffled[:cut])), tuple(sorted(shuffled[cut:]))


def _links(random: Random, names: tuple[str, ...]) -> dict[tuple[str, str], Changes]:
    """Sometimes one site is far away: others then know of its frames long before it knows of theirs."""
    if random.random() < 0.7:
        return {}
    far = random.choice(names)
    latency = Changes(latency_ns=random.choice((20, 60)) * MS)
    return {(min(far, name), max(far, name)): latency for name in names if name != far}


PROFILES: dict[str, Callable[[int, Random, tuple[str, ...]], Scenario]] = {
    "chaos": _chaos,
    "long": _long,
    "log": _log,
    "log-long": _log_long,
    "dynamic": _dynamic,
    "followers": _followers,
    "outposts": _outposts,
    "isis": _isis,
    "sites": _sites,
    "log-sites": _log_sites,
    "wide": _wide,
    "wide-isis": _wide_isis,
}
