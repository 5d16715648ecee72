"""The soak: one short part for real, and what is made of parts that went well, badly, or were cut off."""

from pathlib import Path

import msgspec
import pytest

from reconvene.lab.soak import run as soak
from reconvene.lab.soak.faults import BREAKS
from reconvene.lab.soak.judge import Counts
from reconvene.lab.soak.part import Part
from reconvene.lab.soak.vitals import Life
from reconvene.local import LocalCluster

FINDING = "evs.4: a n 7: m was not delivered"


def part(number: int, **changes: object) -> Part:
    life = Life(site="b", pid=1, age_s=60.0, born_bytes=50 << 20, warm_bytes=60 << 20, last_bytes=61 << 20)
    good = Part(
        number=number,
        seed=1000 + number,
        sites=3,
        load_s=10.0,
        counts=Counts(rows=90_000, messages=20_000, deliveries=55_000, configurations=12),
        accepted=19_000,
        delivered=50_000,
        refused=10,
        unknown=1,
        shared=9,
        faults={"kill": 2, "restart": 2, "pause": 1, "resume": 1},
        longest_gap_s=3.1,
        dropped={"stale": 3},
        spared="b",
        lives=[life],
        cases={"evs.4": 5_000},
        violations=0,
    )
    return msgspec.structs.replace(good, **changes)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[int, Part]:
    """What each part that is run will come to; those that were run are taken out."""
    told: dict[int, Part] = {}

    def run(cluster: LocalCluster, number: int, *_: object) -> Part:
        cluster.trace_dir.mkdir()
        return told.pop(number)

    monkeypatch.setattr(soak, "run_part", run)
    return told


def test_a_part_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--minutes", "0.06", "--sites", "3", "--rate", "300", "--least", "1", "--out", str(tmp_path / "s")]
    assert soak.main(arguments) == 0, capsys.readouterr().out
    assert "nothing was found" in capsys.readouterr().out
    done = msgspec.json.decode((tmp_path / "s" / "parts.jsonl").read_bytes(), type=Part)
    assert sum(done.faults[kind] for kind in BREAKS if kind in done.faults) >= 1
    assert done.counts.messages > 100
    assert done.counts.configurations >= 2
    assert done.cases["live.membership"] == 3
    assert {life.site for life in done.lives} == {"a", "b", "c"}
    assert not (tmp_path / "s" / "cluster" / "trace").exists(), "nothing was found in it"


def test_it_goes_on_where_it_was_cut_off(
    tmp_path: Path, runs: dict[int, Part], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--sites", "3", "--part", "1", "--out", str(tmp_path)]
    runs.update({1: part(1), 2: part(2), 3: part(3)})
    assert soak.main([*arguments, "--minutes", "2"]) == 0
    with (tmp_path / "parts.jsonl").open("ab") as file:
        file.write(b'{"number": 3')  # it was cut off in the middle of a line
    assert list(runs) == [3]
    assert soak.main([*arguments, "--minutes", "3"]) == 0
    assert runs == {}
    told = capsys.readouterr()
    assert "2 parts are done already" in told.err
    assert soak.main([*arguments, "--minutes", "3"]) == 0
    assert "3 parts are done already" in capsys.readouterr().err
    assert "60,000, 2,000 a second" in told.out
    assert "18: kill 6, pause 3, partition 0, one-way 0, term 0, restart 6, resume 3, heal 0" in told.out
    assert "270,000 events, 15,000 cases, 0 violations" in told.out
    assert "stale 9" in told.out


def test_what_is_found_ends_it(tmp_path: Path, runs: dict[int, Part], capsys: pytest.CaptureFixture[str]) -> None:
    runs.update({1: part(1, violations=2, findings=[FINDING]), 2: part(2)})
    assert soak.main(["--sites", "3", "--part", "1", "--minutes", "2", "--out", str(tmp_path)]) == 1
    assert list(runs) == [2]
    told = capsys.readouterr().out
    assert "2 VIOLATIONS" in told
    assert f"part 1: {FINDING}" in told
    assert (tmp_path / "cluster" / "trace").exists()
    assert f"the trace is in {tmp_path / 'cluster' / 'trace'}" in told


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> Part:
        raise KeyboardInterrupt

    monkeypatch.setattr(soak, "run_part", interrupted)
    assert soak.main(["--sites", "3", "--out", str(tmp_path)]) == 130
    assert "goes on with the part that was cut off" in capsys.readouterr().err


def test_too_slow_and_grown(tmp_path: Path, runs: dict[int, Part], capsys: pytest.CaptureFixture[str]) -> None:
    fat = Life(site="b", pid=1, age_s=60.0, born_bytes=50 << 20, warm_bytes=60 << 20, last_bytes=80 << 20)
    runs[1] = part(1, lives=[fat], counts=Counts(messages=9_000))
    assert soak.main(["--sites", "3", "--minutes", "1", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "900 messages a second, at least 1,000 expected" in told
    assert "part 1: site b grew from 60.0 MiB to 80.0 MiB" in told


def test_another_number_of_sites(tmp_path: Path, runs: dict[int, Part], capsys: pytest.CaptureFixture[str]) -> None:
    runs.update({1: part(1), 2: part(2)})
    assert soak.main(["--sites", "3", "--minutes", "1", "--part", "1", "--out", str(tmp_path)]) == 0
    assert soak.main(["--sites", "4", "--minutes", "2", "--part", "1", "--out", str(tmp_path)]) == 1
    assert "holds a cluster of 3 sites, not 4; --fresh makes another" in capsys.readouterr().err
    runs[1] = part(1)
    assert soak.main(["--sites", "4", "--minutes", "1", "--part", "1", "--out", str(tmp_path), "--fresh"]) == 0


@pytest.mark.parametrize("bad", [["--minutes", "0"], ["--part", "x"], ["--sites", "2"], ["--rate", "-1"]])
def test_bad_usage(bad: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(bad)
    assert ended.value.code == 2
