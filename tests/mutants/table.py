"""The mutants as tables for docs/mutants.md: `python -m tests.mutants.table`. `--run` shows what catches each."""

import sys

from tests.mutants import evs, membership, multicast, order, recovery
from tests.mutants.all import MUTANTS
from tests.mutants.harness import Mutant, catch_within, record, record_known

__all__ = ["found_row", "table"]

_LAYERS = {
    "multicast": multicast.MUTANTS,
    "order": order.MUTANTS,
    "delivery, and the end of a configuration": evs.MUTANTS,
    "recovery, and the outbox": recovery.MUTANTS,
    "membership": membership.MUTANTS,
}


def table() -> str:
    parts: list[str] = []
    for layer, mutants in _LAYERS.items():
        rows = [f"## {layer[0].upper()}{layer[1:]}", "| mutant | what it breaks | caught by | seen in |"]
        rows.append("| --- | --- | --- | --- |")
        rows += [_row(mutant) for mutant in mutants]
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _row(mutant: Mutant) -> str:
    checks = ", ".join(f"`{check}`" for check in sorted(mutant.expected))
    return f"| `{mutant.name}` | {mutant.breaks} | {checks} | {_where(mutant, mutant.seed)} |"


def _where(mutant: Mutant, seed: int) -> str:
    return f"{mutant.family.__name__.replace('random_scenario', 'chaos')} {seed}"


def found_row(mutant: Mutant, seed: int, found: set[str]) -> str:
    """What caught it, the expected ones first."""
    others = sorted(found - mutant.expected)
    caught = ", ".join(sorted(found & mutant.expected)) + (f" ({', '.join(others)})" if others else "")
    return f"{mutant.name:46} {_where(mutant, seed):18} {caught}"


if __name__ == "__main__":
    if "--run" in sys.argv:
        for mutant in MUTANTS:
            caught = catch_within(mutant, record, record_known(mutant, record))
            print(found_row(mutant, *caught) if caught else f"{mutant.name:46} NOT CAUGHT", flush=True)
    else:
        print(table(), end="")
