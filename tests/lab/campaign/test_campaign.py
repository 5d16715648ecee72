"""The summary of a campaign on this machine, what it reports as missing, and how it resumes."""

from pathlib import Path

import pytest

from reconvene.lab.campaign.command import main
from reconvene.lab.campaign.seeds import Outcome, run_seed
from reconvene.lab.campaign.summary import STEPS, Summary
from reconvene.sim.isis_scenario import Cast
from reconvene.sim.profiles import PROFILES, random_scenario
from reconvene.sim.scenario import FAULTS, ISIS_FAULTS


def outcome(**fields: object) -> Outcome:
    return Outcome(profile="log", seed=1, nodes=3, order="atop", stack="corel", **fields)  # type: ignore[arg-type]


def test_every_pair_of_the_logs_steps_and_faults_is_wanted() -> None:
    steps = [step for step in STEPS["corel"] if step.startswith("log: ")]
    pairs = [(step, kind) for step in steps for kind in FAULTS]
    all_but_one = [(step, kind, 1) for step, kind in pairs[1:]]
    assert Summary([outcome(coverage=all_but_one)]).unmet() == [pairs[0]]
    assert len(pairs) == 8 * 12


def test_every_pair_of_the_steps_of_process_groups_and_faults_is_wanted() -> None:
    steps = [step for step in STEPS["isis"] if step.startswith("isis: ")]
    pairs = [(step, kind) for step in steps for kind in ISIS_FAULTS if kind != "sync"]
    all_but_one = [(step, kind, 1) for step, kind in pairs[1:]]
    found = Outcome(profile="isis", seed=1, nodes=3, order="atop", stack="isis", coverage=all_but_one)
    assert Summary([found]).unmet() == [pairs[0]]
    assert len(pairs) == 10 * 12


def test_a_check_that_looked_at_little_is_named() -> None:
    cases = {"corel.3.8": 999, "corel.green": 1000, "evs.primary.continuity": 99, "vs.C1": 0}
    assert Summary([outcome(cases=cases)]).thin() == ["corel.3.8", "evs.primary.continuity"]


def test_the_table_has_each_step_and_kind() -> None:
    lines = Summary([outcome(accepted=5, ordered=4)]).lines()
    assert any(line.startswith("5 messages accepted, 4 green in the end (1 at") for line in lines)
    for word in (*STEPS["corel"], *FAULTS):
        assert any(word in line for line in lines)


def test_a_seed_of_the_log() -> None:
    found = run_seed("log", 226)
    assert found.ok, found
    assert found.stack == "corel"
    assert found.cases["ledger"] > 0
    assert found.accepted > 0


@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_is_its_scenario(profile: str) -> None:
    assert random_scenario(5, profile) == random_scenario(5, profile)
    assert random_scenario(5, profile) != random_scenario(6, profile)


def test_the_logs_profile_has_every_kind_of_fault_and_both_engines() -> None:
    scenarios = [random_scenario(seed, "log") for seed in range(100)]
    assert {kind for scenario in scenarios if scenario.chaos for kind in scenario.chaos.faults} == set(FAULTS)
    assert {scenario.order for scenario in scenarios} == {"atop", "all-ack"}
    assert {len(scenario.nodes) for scenario in scenarios} == set(range(3, 10))
    assert {scenario.quorum["kind"] for scenario in scenarios} == {"majority", "weighted", "grid"}


def test_the_profile_of_process_groups_has_everything() -> None:
    scenarios = [random_scenario(seed, "isis") for seed in range(100)]
    assert {kind for scenario in scenarios if scenario.chaos for kind in scenario.chaos.faults} == set(ISIS_FAULTS)
    plans = [plan for scenario in scenarios for plan in scenario.processes]
    assert {(plan.replies, plan.state, bool(plan.groups)) for plan in plans} == {
        (replies, state, member) for replies in (False, True) for state in (False, True) for member in (False, True)
    }
    assert any(len(plan.groups) > 1 for plan in plans)
    steps = [step.verb for scenario in scenarios for step in scenario.steps]
    assert {type(verb).__name__ for verb in steps} == {"Cast", "Flush", "Join", "Kill", "Leave", "Rank", "Watch"}
    castings = [verb.casting for verb in steps if isinstance(verb, Cast)]
    castings += [load.casting for scenario in scenarios for load in scenario.loads if load.casting is not None]
    assert {(casting.kind, casting.causal) for casting in castings} == {
        ("cbcast", False), ("abcast", False), ("abcast", True), ("gbcast", False),
    }  # fmt: skip
    assert {type(casting.to) for casting in castings} == {str, tuple}
    assert {casting.replies for casting in castings} == {0, 1, -1}
    assert {type(casting.label) for casting in castings} == {type(None), str, dict}


def test_it_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--profile", "log", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*arguments, "--seeds", "226-226"]) == 0
    assert main([*arguments, "--seeds", "226-227"]) == 0
    told = capsys.readouterr()
    assert "1 seeds are done already" in told.err
    assert "seeds: 2 passed, 0 failed" in told.out
    assert {path.name for path in (tmp_path / "outcomes" / "log").iterdir()} == {"226.json", "227.json"}


def test_a_seed_that_fails_is_printed_with_the_command_that_repeats_it() -> None:
    lines = Summary([outcome(error="Traceback\nAssertionError")]).lines()
    assert lines[-3:] == [
        "FAILED seed 1 of profile log: 3 sites, atop",
        "  again: make seeds SEEDS=1 PROFILES=log",
        "Traceback\nAssertionError",
    ]
