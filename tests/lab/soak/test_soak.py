"""The soak: one short real run, and what it reports of runs that passed, failed, or were interrupted."""

from pathlib import Path

import msgspec
import pytest

from reconvene.lab.campaign.directory import CampaignDirectory
from reconvene.lab.load.group_fleet import GroupTotals
from reconvene.lab.load.isis_fleet import IsisTotals
from reconvene.lab.load.log_fleet import LogTotals
from reconvene.lab.soak import command as soak
from reconvene.lab.soak.faults import BREAKS, PROCESS_BREAKS
from reconvene.lab.soak.group_soak import GroupSoak
from reconvene.lab.soak.isis_soak import IsisSoak
from reconvene.lab.soak.judge import Counts
from reconvene.lab.soak.report import complaints
from reconvene.lab.soak.run import SoakRun
from reconvene.lab.soak.vitals import Life
from reconvene.local import LocalCluster

GroupRun = SoakRun[GroupTotals]

FINDING = "evs.4: a n 7: m was not delivered"


def group_run(number: int, **changes: object) -> GroupRun:
    life = Life(site="b", pid=1, age_s=60.0, born_bytes=50 << 20, warm_bytes=60 << 20, last_bytes=61 << 20)
    good = GroupRun(
        number=number,
        seed=1000 + number,
        sites=3,
        load_s=10.0,
        counts=Counts(rows=90_000, messages=20_000, deliveries=55_000, configurations=12),
        rest_s=2.0,
        clients=GroupTotals(accepted=19_000, delivered=50_000, refused=10, unknown=1, shared=9),
        faults={"kill": 2, "restart": 2, "pause": 1, "resume": 1},
        longest_gap_s=3.1,
        longest_hard_gap_s=4.0,
        dropped={"stale": 3},
        spared="b",
        lives=[life],
        cases={"evs.4": 5_000},
        violations=0,
        judged_s=1.0,
    )
    return msgspec.structs.replace(good, **changes)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[int, GroupRun]:
    """The outcome of each run to come, by number; it is removed when the run happens."""
    outcomes: dict[int, GroupRun] = {}

    def run(self: GroupSoak, cluster: LocalCluster, number: int, *_: object) -> GroupRun:
        cluster.trace_dir.mkdir()
        return outcomes.pop(number)

    monkeypatch.setattr(GroupSoak, "run", run)
    return outcomes


def test_a_real_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--minutes", "0.06", "--sites", "3", "--rate", "300", "--least", "1", "--out", str(tmp_path / "s")]
    assert soak.main(arguments) == 0, capsys.readouterr().out
    assert "nothing was found" in capsys.readouterr().out
    done = CampaignDirectory(tmp_path / "s", GroupRun).outcome(("groups", 1))
    assert sum(done.faults[kind] for kind in BREAKS if kind in done.faults) >= 1
    assert done.counts.messages > 100
    assert done.counts.configurations >= 2
    assert done.cases["live.membership"] == 3
    assert {life.site for life in done.lives} == {"a", "b", "c"}
    assert not (tmp_path / "s" / "cluster" / "trace").exists(), "nothing was found in it"


@pytest.mark.long("a real cluster for half a minute")
def test_a_real_run_with_followers_and_outposts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--log", "--followers", "2", "--outposts", "2", "--sites", "3", "--minutes", "0.3"]
    assert soak.main([*arguments, "--rate", "300", "--least", "1", "--out", str(tmp_path / "s")]) == 0, (
        capsys.readouterr().out
    )
    assert "nothing was found" in capsys.readouterr().out
    done = CampaignDirectory(tmp_path / "s", SoakRun[LogTotals]).outcome(("log", 1))
    assert done.cases["corel.follow"] > 2 * done.clients.entries, (
        "all of it at both followers, and what outposts took"
    )
    assert done.clients.judgement.receipts > 100


@pytest.mark.long("a real cluster for half a minute")
def test_a_real_run_of_process_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--isis", "--minutes", "0.4", "--rate", "600", "--least", "1", "--out", str(tmp_path / "s")]
    assert soak.main(arguments) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert "nothing was found" in told
    done = CampaignDirectory(tmp_path / "s", SoakRun[IsisTotals]).outcome(("isis", 1))
    assert sum(done.faults.get(kind, 0) for kind in (*BREAKS, *PROCESS_BREAKS)) >= 4
    assert done.counts.casts > 1_000
    assert done.counts.receipts > done.counts.casts
    assert done.clients.calls == done.clients.answered + done.clients.ended
    assert done.clients.shared > 10
    assert done.clients.states > 0
    assert done.peaks["pool"] > 0
    assert done.cases["isis.causal"] > 100


def test_a_queue_beyond_its_bound() -> None:
    run = SoakRun[IsisTotals](
        **{name: getattr(group_run(1), name) for name in SoakRun.__struct_fields__ if name != "clients"},
        clients=IsisTotals(**dict.fromkeys(IsisTotals.__struct_fields__, 1)),
    )
    run.counts.casts = 9_000
    assert complaints(IsisSoak(), [run], 500.0) == []
    run.peaks["pool_bytes"] = 1 << 40
    (found,) = complaints(IsisSoak(), [run], 500.0)
    assert found.startswith("run 1: 1,099,511,627,776 in the queue pool_bytes, at most ")


def test_it_resumes_after_an_interruption(
    tmp_path: Path, runs: dict[int, GroupRun], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--sites", "3", "--run", "1", "--out", str(tmp_path)]
    runs.update({1: group_run(1), 2: group_run(2), 3: group_run(3)})
    assert soak.main([*arguments, "--minutes", "2"]) == 0
    # As after a kill while an outcome is written.
    (tmp_path / "outcomes" / "groups" / ".half.tmp").write_bytes(b'{"number": 3')
    assert list(runs) == [3]
    assert soak.main([*arguments, "--minutes", "3"]) == 0
    assert runs == {}
    told = capsys.readouterr()
    assert "2 runs are done already" in told.err
    assert soak.main([*arguments, "--minutes", "3"]) == 0
    assert "3 runs are done already" in capsys.readouterr().err
    assert "60,000, 2,000 a second" in told.out
    assert "18: kill 6, pause 3, partition 0, one-way 0, term 0, restart 6, resume 3, heal 0" in told.out
    assert "270,000 events, 15,000 cases, 0 violations" in told.out
    assert "stale 9" in told.out


def test_what_is_found_ends_it(tmp_path: Path, runs: dict[int, GroupRun], capsys: pytest.CaptureFixture[str]) -> None:
    runs.update({1: group_run(1, violations=2, findings=[FINDING]), 2: group_run(2)})
    assert soak.main(["--sites", "3", "--run", "1", "--minutes", "2", "--out", str(tmp_path)]) == 1
    assert list(runs) == [2]
    told = capsys.readouterr().out
    assert "2 VIOLATIONS" in told
    assert f"run 1: {FINDING}" in told
    assert (tmp_path / "cluster" / "trace").exists()
    assert f"the trace is in {tmp_path / 'cluster' / 'trace'}" in told


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> GroupRun:
        raise KeyboardInterrupt

    monkeypatch.setattr(GroupSoak, "run", interrupted)
    assert soak.main(["--sites", "3", "--out", str(tmp_path)]) == 130
    assert "resumes with the run that was interrupted" in capsys.readouterr().err


def test_too_slow_and_grown(tmp_path: Path, runs: dict[int, GroupRun], capsys: pytest.CaptureFixture[str]) -> None:
    fat = Life(site="b", pid=1, age_s=60.0, born_bytes=50 << 20, warm_bytes=60 << 20, last_bytes=80 << 20)
    runs[1] = group_run(1, lives=[fat], counts=Counts(messages=9_000))
    assert soak.main(["--sites", "3", "--minutes", "1", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "900 messages a second, at least 1,000 expected" in told
    assert "run 1: site b grew from 60.0 MiB to 80.0 MiB" in told


def test_another_number_of_sites(
    tmp_path: Path, runs: dict[int, GroupRun], capsys: pytest.CaptureFixture[str]
) -> None:
    runs.update({1: group_run(1), 2: group_run(2)})
    assert soak.main(["--sites", "3", "--minutes", "1", "--run", "1", "--out", str(tmp_path)]) == 0
    assert soak.main(["--sites", "4", "--minutes", "2", "--run", "1", "--out", str(tmp_path)]) == 1
    assert "holds a cluster of 3 sites, not 4; --fresh makes a new one" in capsys.readouterr().err
    runs[1] = group_run(1)
    assert soak.main(["--sites", "4", "--minutes", "1", "--run", "1", "--out", str(tmp_path), "--fresh"]) == 0


@pytest.mark.parametrize(
    "bad",
    [
        ["--minutes", "0"],
        ["--run", "x"],
        ["--sites", "2"],
        ["--rate", "-1"],
        ["--log", "--isis"],
        ["--followers", "2"],
        ["--log", "--outposts", "99"],
    ],
)
def test_bad_usage(bad: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(bad)
    assert ended.value.code == 2
