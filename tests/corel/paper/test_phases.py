"""The table of phases: every phase can be reached, every way ends, and a wrong one is an assertion."""

import pytest

from reconvene.corel.paper.phases import NEXT, Phase, check_next


def test_every_phase_is_in_the_table_and_can_be_reached() -> None:
    assert set(NEXT) == set(Phase)
    reached, front = {Phase.STATES}, {Phase.STATES}
    while front:
        front = {following for phase in front for following in NEXT[phase]} - reached
        reached |= front
    assert reached == set(Phase)


def test_no_way_leads_back() -> None:
    def longest(phase: Phase) -> int:
        return 1 + max((longest(following) for following in NEXT[phase]), default=0)

    assert longest(Phase.STATES) == len(["states", "priority", "claims", "reds", "attempt", "commit", "open"])


def test_a_phase_that_does_not_follow_is_an_assertion() -> None:
    assert check_next(Phase.ATTEMPT, Phase.COMMIT) is Phase.COMMIT
    with pytest.raises(AssertionError, match="no way leads from phase reds to open"):
        check_next(Phase.REDS, Phase.OPEN)
