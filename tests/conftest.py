"""The order of the tests: folders that take minutes come first, so that no worker is left alone with one at the end.

Workers take whole files (`--dist loadfile`, in this order), so that what a file sets up is set up once.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.sim.core_cluster import SimCluster

LONGEST = ("pipeline", "real", "network", "examples", "lab", "test_docs.py", "mutants", "sim")

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(TESTS).parts[0]
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)


@pytest.fixture
def sim_cluster() -> "Iterator[Callable[..., SimCluster]]":
    """Makes clusters of the core alone, for tests of the protocols; the history of each is verified at the end, but
    of one made with `verify=False`."""
    made: list[SimCluster] = []

    def make(*arguments: Any, verify: bool = True, **keywords: Any) -> "SimCluster":
        from tests.sim.core_cluster import SimCluster

        one = SimCluster(*arguments, **keywords)
        if verify:
            made.append(one)
        return one

    yield make
    for one in made:
        one.verify()
