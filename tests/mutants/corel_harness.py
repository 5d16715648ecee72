"""Running the log with a bug planted in it, and telling what caught it.

Besides the checks of `verify`: `ledger`, what replicas hold in the end is not what was appended, or not the same
everywhere; `invariant`, a replica's own assertion; an exception, by its name; `storm`, more turns than any run needs.
"""

from collections.abc import Callable

from msgspec.structs import replace
from tests.mutants.harness import SEEDS, Mutant

from reconvene.corel.replicas.sets import MAJORITY
from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.conditions import Conditions
from reconvene.sim.node import Node
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Load, Scenario
from reconvene.trace.events import Row, Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History

__all__ = ["catch", "catch_within", "log_aborted", "log_ambushed", "log_busy", "log_lone", "log_of_four", "record"]

_CHECK_EVERY = 20
_MOST_TURNS = 15_000
"""For each site: more than twice what the busiest of these runs needs."""


def log_of_four(seed: int) -> Scenario:
    """The campaign's own run of this seed, among four sites."""
    return random_scenario(seed, "log", 4)


def log_ambushed(seed: int) -> Scenario:
    """Three sites that crash and part while they recover and establish, again and again."""
    scenario = random_scenario(seed, "log", 3)
    assert scenario.chaos is not None
    chaos = replace(scenario.chaos, faults=("crash", "partition", "sync"), mean_gap_ns=70_000_000, ambush=0.8)
    return replace(scenario, chaos=chaos, conditions=Conditions(), links={}, quorum=MAJORITY)


def log_aborted(seed: int) -> Scenario:
    """Four sites that part or crash whenever one of them has committed: zones are left yellow, in any order."""
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
    """Three sites that append without pause over slow links, part and meet again: much is under way at a change."""
    scenario = random_scenario(seed, "log", 3)
    assert scenario.chaos is not None
    chaos = replace(scenario.chaos, faults=("cut", "partition"), mean_gap_ns=200_000_000, ambush=0.2)
    loads = (Load(scenario.nodes, None, 40.0, 10, 0, scenario.duration_ns),)
    conditions = Conditions(latency_ns=8_000_000, jitter_ns=8_000_000)
    return replace(scenario, chaos=chaos, conditions=conditions, links={}, quorum=MAJORITY, loads=loads)


def log_lone(seed: int) -> Scenario:
    """Four sites, of which one at a time appends: its own messages are ordered at once, and under way to the others
    when these part from it, in the midst of recovery too."""
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


class Storm(Exception):
    """Without it a mutant could run for ever."""


def _counting(most: int) -> Callable[[Node], None]:
    turns = 0

    def turned(node: Node) -> None:
        nonlocal turns
        turns += 1
        if turns > most:
            raise Storm

    return turned


def record(scenario: Scenario) -> tuple[set[str], Run, dict[str, list[Row]]]:
    """Runs the scenario with whatever is planted: what found fault with it, the checks apart, and its trace."""
    runner = Runner(scenario, check_every=_CHECK_EVERY)
    cluster = runner.cluster
    ledger = ReplicaLedger(cluster)
    found: set[str] = set()
    settled = False
    count = _counting(_MOST_TURNS * len(scenario.nodes))
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
    # What was recorded until an exception is judged too, as a run that was cut short.
    result = runner._result()
    meta = replace(result.meta, settled=settled and result.settled)
    return found, meta, result.rows


def catch(scenario: Scenario) -> set[str]:
    """Runs the scenario with whatever is planted, and gives what found fault with it."""
    found, meta, rows = record(scenario)
    return found.union(verify([History.of(meta, rows)]).violated())


def catch_within(mutant: Mutant, seeds: int = SEEDS) -> tuple[int, set[str]] | None:
    """The first seed, from the known one on, whose run one of the expected ones finds fault with; and all that do."""
    with mutant.planted():
        for step in range(seeds):
            seed = (mutant.seed + step) % seeds
            found = catch(mutant.family(seed))
            if found & mutant.expected:
                return seed, found
    return None
