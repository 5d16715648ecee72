"""Every bug planted in casts between clusters is caught by a check of what it breaks. Without it, the run passes."""

from pathlib import Path

import pytest
from tests.mutants.domains import catch_wide
from tests.mutants.far import MUTANTS, far, table
from tests.mutants.harness import SEEDS, Mutant

PAGE = Path(__file__).parent.parent.parent / "docs" / "mutants.md"
CHEAP = ("piggybacks-outside", "out-of-reach-told-as-failed")


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, marks=[] if mutant.name in CHEAP else [pytest.mark.long("a run or more each")])
        for mutant in MUTANTS
    ],
    ids=lambda mutant: mutant.name,
)
def test_is_caught(mutant: Mutant) -> None:
    for seed in (mutant.seed, *range(SEEDS)):
        with mutant.planted():
            if catch_wide(mutant.family(seed)) & mutant.expected:
                return
    pytest.fail(f"none of {SEEDS} runs shows {mutant.name} by {sorted(mutant.expected)}")


@pytest.mark.long("a run each")
@pytest.mark.parametrize("seed", sorted({mutant.seed for mutant in MUTANTS}))
def test_nothing_is_caught_where_nothing_is_planted(seed: int) -> None:
    assert catch_wide(far(seed)) == set()


def test_the_page_lists_them() -> None:
    assert table() in PAGE.read_text(), "tests.mutants.far.table makes the page's table"
