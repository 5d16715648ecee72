"""The log's mutants as a table for docs/mutants.md: `python -m tests.mutants.corel_table`. With `--run` it runs them,
and prints what catches each."""

import sys

from tests.mutants import corel, corel_voting
from tests.mutants.corel_harness import record
from tests.mutants.harness import Mutant, catch_within, record_known
from tests.mutants.table import found_row

__all__ = ["BY_HAND", "MUTANTS", "table"]

MUTANTS = [*corel.MUTANTS, *corel_voting.MUTANTS]
BY_HAND = corel.BY_HAND


def table() -> str:
    rows = ["## The log", "| mutant | what it breaks | caught by | seen in |", "| --- | --- | --- | --- |"]
    return "\n".join([*rows, *map(_row, MUTANTS), *map(_row, BY_HAND)]) + "\n"


def _row(mutant: Mutant) -> str:
    checks = ", ".join(f"`{check}`" for check in sorted(mutant.expected))
    where = "tests/paper, tests/corel" if mutant in BY_HAND else f"{mutant.family.__name__} {mutant.seed}"
    return f"| `{mutant.name}` | {mutant.breaks} | {checks} | {where} |"


if __name__ == "__main__":
    if "--run" in sys.argv:
        for mutant in MUTANTS:
            caught = catch_within(mutant, record, record_known(mutant, record))
            print(found_row(mutant, *caught) if caught else f"{mutant.name:46} NOT CAUGHT", flush=True)
    else:
        print(table(), end="")
