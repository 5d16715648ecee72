"""Runs the log with a bug planted in it, and reports what caught it.

Besides the checks of `verify`, these can catch it: `ledger`, the replicas hold at the end something else than was
appended, or not all the same; `invariant`, an assertion of a replica; the name of an exception; `storm`, more turns
than any run needs.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace
from tests.mutants.harness import Recorded

from reconvene.corel.replicas.sets import MAJORITY
from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.conditions import Conditions
from reconvene.sim.node import Node
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Load, OperatorPlan, Scenario

__all__ = [
    "Storm",
    "counting",
    "log_aborted",
    "log_ambushed",
    "log_busy",
    "log_forced",
    "log_halved",
    "log_lone",
    "log_lost",
    "log_of_four",
    "log_renumbered",
    "log_shrinking",
    "record",
]

_CHECK_EVERY = 20
_MOST_TURNS = 15_000
"""For each site: more than twice what the busiest of these runs needs."""


def log_of_four(seed: int) -> Scenario:
    """The campaign's run of this seed, with four sites."""
    return random_scenario(seed, "log", 4)


def log_ambushed(seed: int) -> Scenario:
    """Three sites that crash and are partitioned again and again while they recover and establish."""
    scenario = random_scenario(seed, "log", 3)
    assert scenario.chaos is not None
    chaos = replace(scenario.chaos, faults=("crash", "partition", "sync"), mean_gap_ns=70_000_000, ambush=0.8)
    return replace(scenario, chaos=chaos, conditions=Conditions(), links={}, quorum=MAJORITY)


def log_aborted(seed: int) -> Scenario:
    """Four sites. Whenever one of them has committed, the network is partitioned or a site crashes, and zones stay
    yellow, in any order."""
    scenario = random_scenario(seed, "log", 4)
    assert scenario.chaos is not None
    chaos = replace(
        scenario.chaos,
        faults=("partition", "crash"),
        mean_gap_ns=30_000_000,
        ambush=0.9,
        ambush_steps=("log: commit",),
    )
    return replace(
        scenario,
        chaos=chaos,
        conditions=Conditions(latency_ns=3_000_000, jitter_ns=3_000_000),
        links={},
        quorum=MAJORITY,
        loads=(Load(scenario.nodes, None, 10.0, 10, 0, scenario.duration_ns),),
    )


def log_busy(seed: int) -> Scenario:
    """Three sites append without pause over slow links while partitions come and heal: much is in
    flight at a change."""
    scenario = random_scenario(seed, "log", 3)
    assert scenario.chaos is not None
    chaos = replace(scenario.chaos, faults=("cut", "partition"), mean_gap_ns=200_000_000, ambush=0.2)
    loads = (Load(scenario.nodes, None, 40.0, 10, 0, scenario.duration_ns),)
    conditions = Conditions(latency_ns=8_000_000, jitter_ns=8_000_000)
    return replace(scenario, chaos=chaos, conditions=conditions, links={}, quorum=MAJORITY, loads=loads)


def log_lone(seed: int) -> Scenario:
    """Four sites, of which one at a time appends. It orders its own messages at once. They are still on their way
    to the others when a partition comes, sometimes during recovery."""
    scenario = random_scenario(seed, "log", 4)
    assert scenario.chaos is not None
    chaos = replace(scenario.chaos, faults=("crash", "partition", "partition"), mean_gap_ns=60_000_000, ambush=0.5)
    share = scenario.duration_ns // 8
    loads = tuple(
        Load((scenario.nodes[turn % 4],), None, 40.0, 10, turn * share, (turn + 1) * share) for turn in range(8)
    )
    return replace(
        scenario,
        order="atop",
        chaos=chaos,
        conditions=Conditions(latency_ns=5_000_000, jitter_ns=5_000_000),
        links={},
        quorum=MAJORITY,
        loads=loads,
        final=(scenario.nodes[:2], scenario.nodes[2:]) if seed % 4 == 0 else (scenario.nodes,),
    )


def log_shrinking(seed: int) -> Scenario:
    """Five sites that vote dynamically. Components are divided further and further while they establish, and those
    that are put off meet the others."""
    return _dynamic(seed, _ESTABLISHING, gap_ns=60_000_000)


def log_halved(seed: int) -> Scenario:
    """The same with four sites, which are often divided in halves."""
    return _dynamic(seed, _ESTABLISHING, gap_ns=60_000_000, sites=4)


def log_renumbered(seed: int) -> Scenario:
    """Five sites, while an operator removes replicas and adds them again, under other numbers and often with another
    quorum. A component is divided in the moment in which a change is green at the first of its sites."""
    plan = OperatorPlan(500_000_000, _LONG_NS, 40_000_000, changes=("add", "remove"))
    return _dynamic(seed, ("log: change",), gap_ns=150_000_000, operator=plan)


def log_lost(seed: int) -> Scenario:
    """One of the sites loses the disk of its log, and comes back with an empty one, after it was in a primary
    component of which another one does not know whether it was established."""
    lost = (_SITES[seed % 5],)
    plan = OperatorPlan(0, 0, 1, lost=lost, lost_ns=600_000_000, torn=True)
    return _dynamic(seed, _ESTABLISHING, gap_ns=60_000_000, operator=plan)


def log_forced(seed: int) -> Scenario:
    """Three of the five lose their disks, and the others go on without them by force."""
    lost = tuple(sorted(Random(seed).sample(_SITES, 3)))
    plan = OperatorPlan(0, 0, 1, lost=lost, lost_ns=2_000_000_000, force=True)
    return _dynamic(seed, ("log: commit",), gap_ns=500_000_000, operator=plan)


_ESTABLISHING = ("log: attempt", *(2 * ("log: commit", "log: primary")), "log: establish")
_LONG_NS = 15_000_000_000
_SITES = ("n00", "n01", "n02", "n03", "n04")


def _dynamic(
    seed: int, steps: tuple[str, ...], *, gap_ns: int, sites: int = 5, operator: OperatorPlan | None = None
) -> Scenario:
    scenario = random_scenario(seed, "dynamic", sites)
    assert scenario.chaos is not None
    chaos = replace(
        scenario.chaos,
        faults=("crash", *(5 * ("partition",))),
        until_ns=_LONG_NS,
        mean_gap_ns=gap_ns,
        ambush=0.95,
        ambush_steps=steps,
        shrink=0.9,
    )
    lost = () if operator is None else operator.lost
    return replace(
        scenario,
        duration_ns=_LONG_NS,
        chaos=chaos,
        conditions=Conditions(latency_ns=1_000_000, jitter_ns=2_000_000),
        links={},
        loads=(Load(scenario.nodes, None, 3.0, 10, 0, scenario.duration_ns),),
        quorum={"kind": "dynamic", "minimum": 2},
        operator=operator,
        final=(scenario.nodes,),
        final_down=lost,
    )


class Storm(Exception):
    """The run took more turns than any run needs. Without this limit a mutant could run forever."""


def counting(most: int) -> Callable[[Node], None]:
    turns = 0

    def turned(node: Node) -> None:
        nonlocal turns
        turns += 1
        if turns > most:
            raise Storm

    return turned


def record(scenario: Scenario) -> Recorded:
    """Runs the scenario with whatever is planted."""
    runner = Runner(scenario, check_every=_CHECK_EVERY)
    cluster = runner.cluster
    ledger = ReplicaLedger(cluster)
    found: set[str] = set()
    settled = False
    count = counting(_MOST_TURNS * len(scenario.nodes))
    cluster.on_events(lambda node, events: count(node))
    try:
        runner.run()
        settled = True
        if ledger.problems(scenario.quorum):
            found.add("ledger")
    except AssertionError:
        found.add("invariant")
    except Storm:
        found.add("storm")
    except Exception as error:
        found.add(type(error).__name__)
    # After an exception, what was recorded until then is judged too, as a run that was cut short.
    result = runner._result()
    meta = replace(result.meta, settled=settled and result.settled)
    return found, meta, result.rows
