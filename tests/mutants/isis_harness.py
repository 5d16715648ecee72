"""Runs process groups with a bug planted in them, and reports what caught it.

Besides the checks of `verify`, these can catch it: `ledger`, members have different states at the same view;
`invariant`, an assertion of the layer; the name of an exception; `storm`, more turns than any run needs.
"""

from msgspec.structs import replace
from tests.mutants.corel_harness import Storm, counting
from tests.mutants.harness import Recorded

from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Scenario

__all__ = ["isis", "record"]

_CHECK_EVERY = 20
_MOST_TURNS = 30_000
"""For each site: more than twice what the busiest of these runs needs."""


def isis(seed: int) -> Scenario:
    """The campaign's run of this seed."""
    return random_scenario(seed, "isis")


def record(scenario: Scenario) -> Recorded:
    """Runs the scenario with whatever is planted."""
    runner = Runner(scenario, check_every=_CHECK_EVERY)
    count = counting(_MOST_TURNS * len(scenario.nodes))
    runner.cluster.on_events(lambda node, events: count(node))
    found: set[str] = set()
    settled = False
    try:
        runner.run()
        settled = True
    except AssertionError:
        found.add("invariant")
    except Storm:
        found.add("storm")
    except Exception as error:
        found.add(type(error).__name__)
    if runner.processes.ledger.problems:
        found.add("ledger")
    # After an exception, what was recorded until then is judged too, as a run that was cut short.
    result = runner._result()
    meta = replace(result.meta, settled=settled and result.settled)
    return found, meta, result.rows
