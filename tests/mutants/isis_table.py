"""The mutants of process groups as a table for docs/mutants.md: `python -m tests.mutants.isis_table`. With `--run` it
runs them, and prints what catches each."""

import sys

from tests.mutants import isis_casts, isis_groups
from tests.mutants.harness import Mutant, catch_within, record_known
from tests.mutants.isis_harness import record
from tests.mutants.table import found_row

__all__ = ["MUTANTS", "table"]

MUTANTS = [*isis_casts.MUTANTS, *isis_groups.MUTANTS]


def table() -> str:
    rows = ["## Process groups", "| mutant | what it breaks | caught by | seen in |", "| --- | --- | --- | --- |"]
    return "\n".join([*rows, *map(_row, MUTANTS)]) + "\n"


def _row(mutant: Mutant) -> str:
    checks = ", ".join(f"`{check}`" for check in sorted(mutant.expected))
    return f"| `{mutant.name}` | {mutant.breaks} | {checks} | {mutant.family.__name__} {mutant.seed} |"


if __name__ == "__main__":
    if "--run" in sys.argv:
        for mutant in MUTANTS:
            caught = catch_within(mutant, record, record_known(mutant, record))
            print(found_row(mutant, *caught) if caught else f"{mutant.name:46} NOT CAUGHT", flush=True)
    else:
        print(table(), end="")
