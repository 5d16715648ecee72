"""A campaign's seeds as Spark tasks: what comes of them is what comes of them alone, and it goes on where it was."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from reconvene.cli import main
from reconvene.core.multicast.multicast import Multicast
from reconvene.errors import Malformed, Unavailable
from reconvene.lab.campaign.directory import CampaignDirectory, Settings
from reconvene.lab.campaign.seeds import Outcome, run_seed
from reconvene.lab.campaign.spark import run_campaign
from reconvene.lab.campaign.summary import add_up, failing
from reconvene.sim.profiles import PROFILES, random_scenario
from reconvene.sim.runner import Result, run_scenario
from reconvene.trace.domains import read_wide_trace
from reconvene.trace.parquet import read_parquet_runs
from reconvene.trace.reader import read_trace
from reconvene.wire.messages import Frame

# Executors need not find the tests: what is planted travels to them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

SEEDS = [("chaos", 32), ("chaos", 33), ("log", 1)]
NODES = 3


@contextlib.contextmanager
def planted() -> Iterator[None]:
    """A frame that came twice is handed up twice."""
    receive = Multicast.receive

    def again(self: Multicast, frame: Frame, now: int) -> None:
        if frame.sender < self.size and frame.seq <= self.received[frame.sender]:
            self.accepted.append(frame)
        receive(self, frame, now)

    Multicast.receive = again  # type: ignore[method-assign]
    try:
        yield
    finally:
        Multicast.receive = receive  # type: ignore[method-assign]


def run_planted(
    profile: str, seed: int, nodes: int | None = None, keep: Callable[[Result], None] | None = None
) -> Outcome:
    """Seed 4 has no bug."""
    with planted() if seed == 3 else contextlib.nullcontext():
        return run_seed(profile, seed, nodes, keep)


def same(outcome: Outcome) -> Outcome:
    """Without what differs from one time to the next."""
    return msgspec.structs.replace(outcome, cpu_s=0.0)


def campaign(root: Path, nodes: int | None = NODES) -> CampaignDirectory[Outcome]:
    directory = CampaignDirectory(root, Outcome)
    directory.open(Settings(nodes=nodes))
    return directory


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["campaign", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of the first two seeds that was cut off and then grew."""
    root = tmp_path_factory.mktemp("campaign") / "made by it"
    run_campaign(spark, campaign(root), SEEDS[:2], nodes=NODES)
    first = root / "outcomes" / "chaos" / "32.json"
    at = first.stat().st_mtime_ns
    # As a kill leaves the second: a trace, and no outcome.
    (root / "outcomes" / "chaos" / "33.json").unlink()
    (root / "outcomes" / "chaos" / ".half.tmp").write_text("{")
    heard: list[Outcome] = []
    run_campaign(spark, campaign(root), SEEDS, nodes=NODES, progress=heard.append)
    assert sorted((outcome.profile, outcome.seed) for outcome in heard) == SEEDS[1:]
    assert first.stat().st_mtime_ns == at, "what is done is not run again"
    return root


@pytest.mark.long("runs the campaign's seeds twice")
def test_outcomes_and_traces_are_those_of_the_seeds_alone(done: Path) -> None:
    directory = campaign(done)
    assert [same(outcome) for outcome in directory.outcomes(SEEDS)] == [
        same(run_seed(profile, seed, NODES)) for profile, seed in SEEDS
    ]
    results = [run_scenario(random_scenario(seed, profile, NODES)) for profile, seed in SEEDS]
    assert [(run, rows) for run, rows in read_parquet_runs(done)] == [
        (result.meta, result.rows) for result in results
    ]
    assert [path.name for path in (done / "events").iterdir() if path.name.startswith(".")] == []


@pytest.mark.long("runs the campaign's seeds twice")
def test_what_is_done_is_told_without_spark(
    done: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_session(*_: object, **__: object) -> None:
        raise AssertionError("there is nothing to run")

    monkeypatch.setattr("reconvene.pipeline.session.open_session", no_session)
    chosen = ("--seed", 32, "--nodes", NODES, "--profile", "chaos", "--out", done)
    assert command("--runs", 2, *chosen, "--json") == 0
    document = msgspec.json.decode(capsys.readouterr().out)
    assert (document["ok"], document["runs"], document["failing"]) == (True, 2, [])
    assert document["out"] == str(done)
    (totals,) = document["profiles"]
    outcomes = [run_seed("chaos", seed, NODES) for seed in (32, 33)]
    assert totals["profile"] == "chaos"
    assert totals["runs"] == 2
    assert totals["events"] == sum(outcome.events for outcome in outcomes)
    assert totals["faults"] == sum(outcome.faults for outcome in outcomes)
    assert totals["violations"] == totals["failed"] == 0
    assert command("--runs", 2, *chosen) == 0
    assert "2 runs: every check holds" in capsys.readouterr().out


@pytest.mark.long("runs a campaign on Spark")
def test_a_planted_bug_fails_with_the_command_that_repeats_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = campaign(tmp_path / "c", None)
    seeds = [("chaos", 3), ("chaos", 4)]
    run_campaign(spark, directory, seeds, run=run_planted)
    outcomes = list(directory.outcomes(seeds))
    assert [(totals.runs, totals.failed) for totals in add_up(outcomes)] == [(2, 1)]
    (found,) = failing(outcomes, None)
    assert (found.profile, found.seed, found.checks) == ("chaos", 3, ["evs.1.4"])
    assert found.command == "reconvene campaign --repeat chaos:3"
    assert found.detail
    assert command("--runs", 2, "--seed", 3, "--profile", "chaos", "--out", tmp_path / "c") == 1
    assert f"  {found.command}\n" in capsys.readouterr().out
    with planted():
        assert command(*found.command.split()[2:], "--trace", tmp_path / "trace") == 1
    assert f"evs.1.4: {found.detail}" in capsys.readouterr().out
    ((_, rows),) = read_parquet_runs(tmp_path / "c", "chaos-3")
    assert read_trace(tmp_path / "trace").rows == rows
    assert command(*found.command.split()[2:]) == 0


@pytest.mark.long("runs a campaign on Spark")
def test_a_command_runs_each_profile_in_turn(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reconvene.pipeline.session.open_session", lambda *_, **__: contextlib.nullcontext(spark))
    runs = len(PROFILES) + 1
    assert command("--runs", runs, "--seed", 9, "--nodes", NODES, "--out", tmp_path / "c", "--json") == 0
    document = msgspec.json.decode(capsys.readouterr().out)
    found = {each["profile"]: each["runs"] for each in document["profiles"]}
    assert found == {profile: 2 if profile == "chaos" else 1 for profile in PROFILES}
    assert campaign(tmp_path / "c").done("chaos") == {9, 10}
    flat = [profile for profile in PROFILES if not profile.startswith("wide")]  # of domains: directories
    names = ["chaos-10", *(f"{profile}-9" for profile in flat)]
    assert [run.run for run, _ in read_parquet_runs(tmp_path / "c")] == sorted(names)


@pytest.mark.long("runs a campaign on Spark")
def test_runs_of_several_clusters_leave_directories(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every level; a run that was cut off is written again."""
    seeds = [("wide", 0), ("wide", 3)]
    directory = campaign(tmp_path / "c", None)
    run_campaign(spark, directory, seeds)
    (tmp_path / "c" / "outcomes" / "wide" / "3.json").unlink()
    run_campaign(spark, directory, seeds)
    assert [same(outcome) for outcome in directory.outcomes(seeds)] == [same(run_seed(*seed)) for seed in seeds]
    for profile, seed in seeds:
        trace = read_wide_trace(tmp_path / "c" / f"{profile}-{seed}")
        result = run_scenario(random_scenario(seed, profile))
        assert trace.wide.rows == result.rows
        assert result.levels is not None
        assert {name: level.rows for name, level in trace.levels.items()} == {
            name: rows for name, (_, rows) in result.levels.traces.items()
        }
    monkeypatch.setattr("reconvene.pipeline.session.open_session", lambda *_, **__: contextlib.nullcontext(spark))
    chosen = ("--runs", 1, "--seed", 3, "--profile", "wide", "--out", tmp_path / "c")
    assert command(*chosen, "--engine", "spark", "--json") == 0, "Spark hands it to the local engine"
    document = msgspec.json.decode(capsys.readouterr().out)
    assert (document["ok"], document["runs"], document["verify"]["runs"]) == (True, 1, 2)


@pytest.mark.long("runs a campaign on Spark")
def test_a_directory_that_executors_can_not_write_to_is_named(spark: SparkSession, tmp_path: Path) -> None:
    directory = campaign(tmp_path / "c")
    (tmp_path / "c" / "events").write_text("")
    with pytest.raises(Unavailable, match="c: can't be written to") as refused:
        run_campaign(spark, directory, [("chaos", 1)], nodes=NODES)
    assert "\n" not in str(refused.value)


@pytest.mark.long("runs the campaign's seeds twice")
def test_other_settings_and_other_directories_are_refused(done: Path, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match=r"made by it: was made with --nodes 3; this campaign is without --nodes"):
        campaign(done, None)
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(Malformed, match="is not empty, and no campaign's"):
        campaign(tmp_path)
    (tmp_path / "campaign.json").write_text('{"schema": 2}')
    with pytest.raises(Malformed, match=r"campaign.json: `schema` is 2; expected 1"):
        campaign(tmp_path)
    (tmp_path / "campaign.json").write_text("{")
    with pytest.raises(Malformed, match=r"campaign.json: expected a campaign's settings"):
        campaign(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--runs", "3"], "expected --runs N and --out DIR, or --repeat PROFILE:SEED"),
        (["--runs", "0", "--out", "x"], "--runs"),
        (["--runs", "1", "--out", "x", "--nodes", "1"], "--nodes"),
        (["--runs", "1", "--out", "x", "--profile", "mad"], "--profile mad: expected one of chaos, long"),
        (["--runs", "1", "--out", "x", "--engine", "rdd"], "--engine rdd: expected local or spark"),
        (["--runs", "1", "--out", "x", "--trace", "y"], "--trace: expected with --repeat only"),
        (["--repeat", "chaos"], "--repeat chaos: expected PROFILE:SEED"),
        (["--repeat", "chaos:-1"], "--repeat chaos:-1: expected PROFILE:SEED"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*arguments) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
