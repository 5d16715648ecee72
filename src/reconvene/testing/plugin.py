"""pytest fixtures. pytest imports this file in every session, so it imports nothing that costs."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reconvene.testing.cluster import SimCluster

__all__ = ["cluster"]


@pytest.fixture
def cluster() -> "Iterator[Callable[..., SimCluster]]":
    """Makes simulated clusters: `cluster(3)`, `cluster(["a", "b"], seed=7)`, as `reconvene.testing.SimCluster`.

    When the test is over, the history of each is verified; not of one made with `verify=False`.
    """
    made: list[SimCluster] = []

    def make(*arguments: Any, verify: bool = True, **keywords: Any) -> "SimCluster":
        from reconvene.testing.cluster import SimCluster

        one = SimCluster(*arguments, **keywords)
        if verify:
            made.append(one)
        return one

    yield make
    for one in made:
        one.verify()
