"""Runs the log with a bug planted in it, and reports what caught it.

Besides the checks of `verify`, these can catch it: `ledger`, the replicas hold at the end something else than was
appended, or not all the same; `invariant`, an assertion of a replica; the name of an exception; `storm`, more turns
than any run needs.
"""

from collections.abc import Callable

from msgspec.structs import replace
from tests.mutants.harness import Recorded

from reconvene.corel.replicas.sets import MAJORITY
from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.conditions import Conditions
from reconvene.sim.node import Node
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Load, Scenario

__all__ = [
    "Storm",
    "counting",
    "log_aborted",
    "log_ambushed",
    "log_busy",
    "log_dynamic",
    "log_lone",
    "log_of_four",
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


def log_dynamic(seed: int) -> Scenario:
    """Four or five sites that vote dynamically. They are partitioned again and again while they establish."""
    scenario = random_scenario(seed, "dynamic", 4 + seed % 2)
    assert scenario.chaos is not None
    chaos = replace(
        scenario.chaos,
        faults=("crash", "partition", "partition", "partition"),
        mean_gap_ns=(60_000_000, 250_000_000)[seed % 2],
        ambush=(0.8, 0.4)[seed // 2 % 2],
        ambush_steps=("log: attempt", "log: commit", "log: establish"),
    )
    return replace(
        scenario,
        chaos=chaos,
        conditions=Conditions(latency_ns=1_000_000, jitter_ns=2_000_000),
        links={},
        quorum={"kind": "dynamic", "minimum": 2},
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
