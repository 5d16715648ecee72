"""Odd mixes of faults and requests in process groups, as scenario files: each runs, settles, and holds."""

from pathlib import Path

import pytest

from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import Runner
from reconvene.verify.engine import verify
from reconvene.verify.history import History

FILES = sorted((Path(__file__).parent / "isis_mixes").glob("*.toml"))


@pytest.mark.long("twenty runs of seconds each; the shipped scenarios are shorter")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_holds(file: Path) -> None:
    runner = Runner(load_scenario(file), seed=7)
    result = runner.run()
    assert result.settled
    assert result.messages
    report = verify([History.of(result.meta, result.rows)])
    assert report.violated() == []
    assert runner.processes.ledger.problems == []
