"""Process groups under chaos: seeds, judged by an oracle of their own; planted bugs, which it has to find."""

import pytest
from tests.sim.chunks import in_chunks
from tests.sim.groups_mutants import MUTANTS, Mutant
from tests.sim.groups_oracle import judge
from tests.sim.groups_world import run_world

from reconvene.verify.engine import verify
from reconvene.verify.history import History

SEEDS = 300
_CHUNK = 20
_SEARCHED = 50
"""Seeds that a planted bug may survive."""


@pytest.mark.parametrize("start", in_chunks(SEEDS, _CHUNK))
def test_seeds(start: int) -> None:
    found = {}
    for seed in range(start, start + _CHUNK):
        world, _ = run_world(seed)
        violations = judge(world)
        if violations:
            found[seed] = violations[:3]
    assert not found


def test_traces_pass_every_check() -> None:
    """Of the sites, which have groups above them, and of virtual synchrony, for those with the filter."""
    for seed in (2, 6, 11, 28, 132):
        _, result = run_world(seed, recorded=True)
        report = verify([History.of(result.meta, result.rows)])
        assert not [check.id for check in report.checks if check.violations], seed
        assert sum(check.cases for check in report.checks if check.id.startswith("vs.")) > 100


def test_the_same_seed_gives_the_same_rows() -> None:
    (_, one), (_, two) = run_world(5, recorded=True), run_world(5, recorded=True)
    assert one.rows == two.rows
    assert any(row.layer == "vs" for rows in one.rows.values() for row in rows)


def caught(mutant: Mutant) -> str | None:
    for seed in range(mutant.seed, mutant.seed + _SEARCHED):
        with mutant.planted():
            try:
                violations = judge(run_world(seed)[0])
            except Exception as error:  # a broken layer may break anything
                return f"seed {seed}: {error!r}"
        if violations:
            return f"seed {seed}: {violations[0]}"
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert caught(mutant) is not None
