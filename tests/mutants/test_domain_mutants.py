"""Every bug planted in domains is caught by a check of what it breaks. Without the bug, the same runs pass."""

from pathlib import Path

import pytest
from tests.mutants.domains import MUTANTS, catch_wide, table
from tests.mutants.harness import SEEDS, Mutant

PAGE = Path(__file__).parent.parent.parent / "docs" / "mutants.md"
CHEAP = ("leaves-before-the-cross-is-safe", "filter-ignored")


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
    assert catch_wide(MUTANTS[0].family(seed)) == set()


def test_the_page_lists_them() -> None:
    assert table() in PAGE.read_text(), "tests.mutants.domains.table makes the page's table"
