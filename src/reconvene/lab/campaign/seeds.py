"""One seed of a campaign: its scenario run and its trace verified."""

import traceback
from collections.abc import Callable
from time import process_time

from msgspec import Struct

from reconvene.lab.ledger.replicas import Ledger
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.verify.engine import verify
from reconvene.verify.history import History

__all__ = ["LEDGER", "Outcome", "run_seed"]

LEDGER = "ledger"
"""Under which the ledger stands among the checks, where there is a log."""

_CHECK_EVERY = 23
"""Turns between two looks at the sites' invariants."""


class Outcome(Struct, kw_only=True):
    """What came of a seed; a line of a campaign's results."""

    profile: str
    seed: int
    nodes: int
    order: str
    stack: str = "evs"
    events: int = 0
    messages: int = 0
    accepted: int = 0
    """By the log, where there is one …"""
    ordered: int = 0
    """… and of those, green at a replica in the end."""
    configurations: int = 0
    faults: int = 0
    cpu_s: float = 0.0
    cases: dict[str, int] = {}
    violations: dict[str, list[str]] = {}
    """Witnesses of each check that does not hold …"""
    violated: int = 0
    """… and how many violations were counted."""
    coverage: list[tuple[str, str, int]] = []
    """Step of the protocol, kind of fault, how often one met the other."""
    error: str | None = None
    """The exception that ended the run."""

    @property
    def ok(self) -> bool:
        return self.error is None and not self.violations


def run_seed(
    profile: str, seed: int, nodes: int | None = None, keep: Callable[[Result], None] | None = None
) -> Outcome:
    """Runs and judges one seed; `nodes` fixes the size that it would draw. `keep` gets the run before it is judged.

    What `keep` raises is raised; anything else that goes wrong is what came of the seed.
    """
    scenario = random_scenario(seed, profile, nodes)
    outcome = Outcome(
        profile=profile, seed=seed, nodes=len(scenario.nodes), order=scenario.order, stack=scenario.stack
    )
    start = process_time()
    try:
        runner = Runner(scenario, check_every=_CHECK_EVERY)
        ledger = Ledger(runner.cluster) if scenario.stack == "corel" else None
        result = runner.run()
        problems = [] if ledger is None else ledger.problems(scenario.quorum)
    except Exception:
        # A broken invariant is a finding like a violation: the campaign goes on and names the seed.
        return _ended(outcome, start)
    if keep is not None:
        keep(result)
    try:
        report = verify([History.of(result.meta, result.rows)])
    except Exception:
        return _ended(outcome, start)
    outcome.cpu_s = round(process_time() - start, 3)
    outcome.events = result.events
    outcome.messages = result.messages
    outcome.configurations = result.configurations
    outcome.faults = result.faults
    outcome.cases = {check.id: check.cases for check in report.checks}
    outcome.violations = {
        check.id: [f"{w.node} n {w.n}: {w.detail}" for w in check.witnesses]
        for check in report.checks
        if check.violations
    }
    outcome.violated = sum(check.violations for check in report.checks) + len(problems)
    if ledger is not None:
        outcome.accepted, outcome.ordered = ledger.accepted, ledger.ordered
        outcome.cases[LEDGER] = ledger.cases
        if problems:
            outcome.violations[LEDGER] = problems
    outcome.coverage = [(step, kind, count) for (step, kind), count in sorted(result.coverage.items())]
    return outcome


def _ended(outcome: Outcome, start: float) -> Outcome:
    """By the exception that is being handled."""
    outcome.error = traceback.format_exc(limit=-4)
    outcome.cpu_s = round(process_time() - start, 3)
    return outcome
