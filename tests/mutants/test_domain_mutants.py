"""Every bug planted in domains, and in casts between clusters, is caught by a check of what it breaks. Without it,
the same runs pass."""

from pathlib import Path
from types import ModuleType

import pytest
from tests.mutants import domains, far
from tests.mutants.domains import catch_wide
from tests.mutants.harness import SEEDS, Mutant

PAGE = Path(__file__).parent.parent.parent / "docs" / "mutants.md"
MUTANTS = (*domains.MUTANTS, *far.MUTANTS)
CHEAP = (
    "leaves-before-the-cross-is-safe",
    "filter-ignored",
    "piggybacks-outside",
    "out-of-reach-told-as-failed",
)


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
@pytest.mark.parametrize(
    ("planted", "seed"),
    [(module, seed) for module in (domains, far) for seed in sorted({mutant.seed for mutant in module.MUTANTS})],
)
def test_nothing_is_caught_where_nothing_is_planted(planted: ModuleType, seed: int) -> None:
    assert catch_wide(planted.MUTANTS[0].family(seed)) == set()


@pytest.mark.parametrize("planted", [domains, far])
def test_the_page_lists_them(planted: ModuleType) -> None:
    assert planted.table() in PAGE.read_text(), f"{planted.__name__}.table makes the page's table"
