"""Turns in which the site, its groups and the other layers take no part: nothing changes by leaving them out."""

import pytest
from tests.sim.shipped import FOLDER

from reconvene.sim.isis_site import IsisSite
from reconvene.sim.parse import load_scenario
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Result, run_scenario
from reconvene.sim.scenario import Scenario
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn


def run(scenario: Scenario, monkeypatch: pytest.MonkeyPatch, *, whole: bool) -> tuple[Result, int, int]:
    """Also how many turns there were, and how many of them were apart."""
    turns: list[bool] = []

    def flush(stack: IsisSite, now: int, time: int) -> Turn:
        turn = Stack.flush(stack, now, time, asked=whole)
        turns.append(turn.apart)
        return turn

    monkeypatch.setattr(IsisSite, "flush", flush)
    return run_scenario(scenario), len(turns), sum(turns)


def compare(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> float:
    """The traces are the same. Returns the share of turns apart."""
    with_all, _, none = run(scenario, monkeypatch, whole=True)
    without, turns, apart = run(scenario, monkeypatch, whole=False)
    assert none == 0
    assert without.rows == with_all.rows
    assert without.traffic == with_all.traffic
    return apart / turns


def test_casts_have_turns_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(load_scenario(FOLDER / "isis-queues.toml"), monkeypatch) > 0.2


@pytest.mark.long("several runs under faults, each of them twice")
@pytest.mark.parametrize("seed", [2, 9])
def test_whom_a_site_hears_changes_at_the_end_of_a_turn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In these runs a site found at the end of a turn that it hears another one no more. The next turn, which acts on
    that, was the turn of a cast."""
    assert compare(random_scenario(seed, "isis"), monkeypatch) > 0
