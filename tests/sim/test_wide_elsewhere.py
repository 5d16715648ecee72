"""Sites that have delivered messages in one wide configuration go on in another, where these may get a place."""

import pytest
from tests.mutants.domains import catch_wide, elsewhere


@pytest.mark.parametrize("seed", [0, 2])
def test_what_was_delivered_in_another_component_gets_no_place_in_the_one_that_is_entered(seed: int) -> None:
    """It did: others delivered it there, and those that had come from the other component did not."""
    assert catch_wide(elsewhere(seed)) == set()
