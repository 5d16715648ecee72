"""Every bug planted in the log is caught by a check of what it breaks. Without the bug, the same runs pass."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.core.membership import test_past
from tests.corel.replicas import test_beginning, test_dynamic, test_put_back
from tests.mutants.all import MUTANTS as BELOW
from tests.mutants.corel_harness import record
from tests.mutants.corel_table import BY_HAND, MUTANTS, table
from tests.mutants.harness import SEEDS, Family, Mutant, catch, catch_within
from tests.mutants.known import known_run, without_the_bug
from tests.mutants.table import found_row
from tests.once import Once
from tests.paper import test_corel_recovery, test_corel_view_changes

_BY_HAND_IN = (test_corel_recovery, test_corel_view_changes, test_beginning, test_put_back, test_past, test_dynamic)

PAGE = Path(__file__).parent.parent.parent / "docs" / "mutants.md"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_is_caught(mutant: Mutant, once: Once) -> None:
    caught = catch_within(mutant, record, known_run(once, mutant, record))
    assert caught is not None, f"none of {SEEDS} runs shows {mutant.name} by {sorted(mutant.expected)}"
    print(found_row(mutant, *caught))


@pytest.mark.parametrize("mutant", BY_HAND, ids=lambda mutant: mutant.name)
def test_is_caught_by_hand(mutant: Mutant) -> None:
    (name,) = mutant.expected
    module = next(module for module in _BY_HAND_IN if hasattr(module, name))
    sentence: Callable[[], None] = getattr(module, name)
    with mutant.planted(), pytest.raises((AssertionError, pytest.fail.Exception)):
        sentence()
    sentence()


@pytest.mark.parametrize(("family", "seed"), without_the_bug(MUTANTS))
def test_nothing_is_caught_where_nothing_is_planted(family: Family, seed: int) -> None:
    assert catch(family(seed), record) == set()


def test_a_mutant_is_gone_when_it_is_no_longer_planted() -> None:
    for mutant in [*MUTANTS, *BY_HAND]:
        original = getattr(mutant.owner, mutant.function)
        with mutant.planted():
            assert getattr(mutant.owner, mutant.function) is not original
        assert getattr(mutant.owner, mutant.function) is original


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in [*BELOW, *MUTANTS, *BY_HAND]]
    assert len(set(names)) == len(names)


def test_the_page_lists_them() -> None:
    assert table() in PAGE.read_text(), "python -m tests.mutants.corel_table prints the page's table"
