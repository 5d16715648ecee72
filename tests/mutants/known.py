"""The runs that are known to show planted bugs: with the bug, recorded once in a run of the tests and judged by both
engines; and without it."""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet
from tests.mutants.harness import Mutant, Record, Recorded, record_known
from tests.once import Once

__all__ = ["known_run", "without_the_bug"]

_MORE = pytest.mark.long("one run of each family is in make test")


def known_run(once: Once, mutant: Mutant, record: Record) -> Recorded:
    return once(f"planted {mutant.name}", lambda: record_known(mutant, record))


def without_the_bug(mutants: Iterable[Mutant]) -> list[ParameterSet]:
    """The family and the seed of each run that is known to show one of these mutants."""
    runs = list(dict.fromkeys((mutant.family, mutant.seed) for mutant in mutants))
    families = [family for family, _ in runs]
    return [
        pytest.param(
            family, seed, marks=[_MORE] if family in families[:place] else [], id=f"{family.__name__}-{seed}"
        )
        for place, (family, seed) in enumerate(runs)
    ]
