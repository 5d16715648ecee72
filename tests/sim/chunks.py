"""Many seeds as few tests: the first is in `make test`, and the others in `make test-all` alone."""

import pytest
from _pytest.mark import ParameterSet

__all__ = ["in_chunks"]


def in_chunks(seeds: int, chunk: int) -> list[ParameterSet]:
    """The first seed of each chunk, as a parameter."""
    rest = pytest.mark.long("more of the same seeds")
    return [pytest.param(start, marks=[rest] if start else []) for start in range(0, seeds, chunk)]
