"""Every planted bug is caught by a check of what it breaks. Without the bug, the same runs pass."""

from pathlib import Path

import pytest
from tests.mutants.all import MUTANTS
from tests.mutants.harness import SEEDS, Family, Mutant, catch, catch_within, record
from tests.mutants.known import known_run, without_the_bug
from tests.mutants.table import found_row, table
from tests.once import Once

PAGE = Path(__file__).parent.parent.parent / "docs" / "mutants.md"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_is_caught(mutant: Mutant, once: Once) -> None:
    caught = catch_within(mutant, record, known_run(once, mutant, record))
    assert caught is not None, f"none of {SEEDS} runs shows {mutant.name} by {sorted(mutant.expected)}"
    print(found_row(mutant, *caught))


@pytest.mark.parametrize(("family", "seed"), without_the_bug(MUTANTS))
def test_nothing_is_caught_where_nothing_is_planted(family: Family, seed: int) -> None:
    assert catch(family(seed), record) == set()


def test_a_mutant_is_gone_when_it_is_no_longer_planted() -> None:
    for mutant in MUTANTS:
        original = getattr(mutant.owner, mutant.function)
        with mutant.planted():
            assert getattr(mutant.owner, mutant.function) is not original
        assert getattr(mutant.owner, mutant.function) is original


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_page_lists_them() -> None:
    assert table() in PAGE.read_text(), "python -m tests.mutants.table prints the page's tables"
