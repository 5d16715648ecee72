"""The scenarios in scenarios/, each run once in a run of the tests, whatever number of tests look at it."""

from pathlib import Path

from tests.once import Once

from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import Result, Runner

__all__ = ["FOLDER", "play"]

FOLDER = Path(__file__).parents[2] / "scenarios"


def play(once: Once, name: str, seed: int | None = None) -> Result:
    """Runs the scenario, with its own seed or this one. Invariants hold after each turn. Where there is a log,
    every replica has what was appended; processes have the state that was given to them."""
    scenario = load_scenario(FOLDER / f"{name}.toml")
    seed = scenario.seed if seed is None else seed

    def run() -> tuple[Result, list[str]]:
        # Invariants of twenty sites after each turn would take most of a minute.
        runner = Runner(scenario, seed, check_every=1 if len(scenario.nodes) < 10 else 50)
        ledger = ReplicaLedger(runner.cluster) if scenario.stack == "corel" else None
        result = runner.run()
        return result, ledger.problems(scenario.quorum) if ledger else runner.processes.ledger.problems

    result, problems = once(f"scenario {name} {seed}", run)
    assert problems == []
    return result
