"""Every bug planted in process groups is caught by a check of what it breaks. Without the bug, the same runs pass."""

from pathlib import Path

import pytest
from tests.mutants.all import MUTANTS as BELOW
from tests.mutants.corel import BY_HAND
from tests.mutants.corel import MUTANTS as OF_THE_LOG
from tests.mutants.harness import SEEDS, Family, Mutant, catch, catch_within
from tests.mutants.isis_harness import record
from tests.mutants.isis_table import MUTANTS, table
from tests.mutants.known import known_run, without_the_bug
from tests.mutants.table import found_row
from tests.once import Once

from reconvene.verify.checks import CHECKS

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
    names = [mutant.name for mutant in [*BELOW, *OF_THE_LOG, *BY_HAND, *MUTANTS]]
    assert len(set(names)) == len(names)


def test_every_check_of_process_groups_has_a_mutant() -> None:
    checks = {check.id for check in CHECKS if check.layer == "isis"}
    assert checks - {name for mutant in MUTANTS for name in mutant.expected} == set()


def test_the_page_lists_them() -> None:
    assert table() in PAGE.read_text(), "python -m tests.mutants.isis_table prints the page's table"
