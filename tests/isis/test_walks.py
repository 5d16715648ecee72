"""Random walks of ISIS layers hold all checks, and nothing stands still at their end."""

import pytest
from tests.isis.walks import walk


@pytest.mark.parametrize("seed", range(25))
def test_a_walk(seed: int) -> None:
    assert walk(seed) == []


@pytest.mark.long("the first 25 walks are in every run")
@pytest.mark.parametrize("hundred", range(20))
def test_many_walks(hundred: int) -> None:
    failed = {seed: found for seed in range(100 * hundred, 100 * hundred + 100) if (found := walk(seed))}
    assert failed == {}
