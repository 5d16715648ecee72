"""One run of a campaign: the scenario of a seed is simulated, and its trace verified."""

import traceback
from collections.abc import Callable
from time import process_time

from msgspec import Struct

from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.trace.reader import Trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.load import wide_histories

__all__ = ["LEDGER", "Outcome", "histories", "run_seed"]

LEDGER = "ledger"
"""The name of the ledger among the checks: that of the log's replicas, or of the state that processes gave."""

_CHECK_EVERY = 23
"""Turns between two checks of the sites' invariants."""


class Outcome(Struct, kw_only=True):
    """The outcome of one run."""

    profile: str
    seed: int
    nodes: int
    order: str
    stack: str = "evs"
    events: int = 0
    messages: int = 0
    accepted: int = 0
    """Messages that the log accepted."""
    ordered: int = 0
    """Accepted messages that are green at a replica in the end."""
    configurations: int = 0
    faults: int = 0
    cpu_s: float = 0.0
    cases: dict[str, int] = {}
    violations: dict[str, list[str]] = {}
    """Witnesses of each violated check."""
    violated: int = 0
    """How many violations were counted."""
    coverage: list[tuple[str, str, int]] = []
    """(step of the protocol, kind of fault, how often that fault hit a site in that step)"""
    error: str | None = None
    """The exception that ended the run."""

    @property
    def ok(self) -> bool:
        return self.error is None and not self.violations


def run_seed(
    profile: str, seed: int, nodes: int | None = None, keep: Callable[[Result], None] | None = None
) -> Outcome:
    """Runs and judges one seed. `nodes` fixes the number of sites, which the seed draws otherwise. `keep` is called
    with the run before it is judged.

    What `keep` raises is raised. Any other exception is part of the outcome.
    """
    scenario = random_scenario(seed, profile, nodes)
    outcome = Outcome(
        profile=profile, seed=seed, nodes=len(scenario.nodes), order=scenario.order, stack=scenario.stack
    )
    start = process_time()
    try:
        runner = Runner(scenario, check_every=_CHECK_EVERY)
        ledger = ReplicaLedger(runner.cluster) if scenario.stack == "corel" else None
        result = runner.run()
        problems = runner.processes.ledger.problems if ledger is None else ledger.problems(scenario.quorum)
    except Exception:
        # A broken invariant is a finding like a violation: the campaign goes on, and reports the seed.
        return _failed(outcome, start)
    if keep is not None:
        keep(result)
    try:
        report = verify(histories(result))
    except Exception:
        return _failed(outcome, start)
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
    if scenario.stack == "isis":
        outcome.cases[LEDGER] = runner.processes.ledger.cases
    if problems:
        outcome.violations[LEDGER] = problems
    outcome.coverage = [(step, kind, count) for (step, kind), count in sorted(result.coverage.items())]
    return outcome


def histories(result: Result) -> list[History]:
    """What is judged together: of several clusters each of them, and what passed between them."""
    if result.levels is None:
        return [History.of(result.meta, result.rows)]
    levels = {name: History.of(run, rows) for name, (run, rows) in result.levels.traces.items()}
    return wide_histories(result.levels.domains, levels, Trace(result.meta, result.rows))


def _failed(outcome: Outcome, start: float) -> Outcome:
    """The outcome of a run that the exception being handled has ended."""
    outcome.error = traceback.format_exc(limit=-4)
    outcome.cpu_s = round(process_time() - start, 3)
    return outcome
