"""pytest fixtures. pytest imports this file in every session, so it imports nothing that costs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reconvene.testing.cluster import Cluster

__all__ = ["cluster"]


@pytest.fixture
def cluster() -> "Callable[..., Cluster]":
    """Makes simulated clusters: `cluster(3)`, `cluster("abc", seed=7)`, as `reconvene.testing.Cluster`."""
    from reconvene.testing.cluster import Cluster

    return Cluster
