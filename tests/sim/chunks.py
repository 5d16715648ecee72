"""Many seeds as parameters: the first are in `make test`, and the others in `make test-all` alone."""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

__all__ = ["few", "in_chunks"]

_REST = pytest.mark.long("more of the same seeds")


def few(seeds: Iterable[object], first: int) -> list[ParameterSet]:
    """All of them. So many are in `make test`."""
    return [pytest.param(seed, marks=[] if place < first else [_REST]) for place, seed in enumerate(seeds)]


def in_chunks(seeds: int, chunk: int) -> list[ParameterSet]:
    """The first seed of each chunk. The first chunk is in `make test`."""
    return few(range(0, seeds, chunk), 1)
