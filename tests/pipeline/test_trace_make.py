"""reconvene trace make: both forms, what is refused, and that verify takes what is made."""

import contextlib
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconvene.cli import main
from reconvene.lab.generate import recipe
from reconvene.trace.reader import read_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.load import load_histories


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["trace", "make", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconvene.pipeline.session.open_session", lambda *_, **__: contextlib.nullcontext(spark))


@pytest.mark.usefixtures("in_session")
def test_both_forms_hold_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--events", "2k", "--runs", 2, "--nodes", 3, "--changes", 2)
    assert call(*size, "--to", tmp_path / "packed", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["events"] == pytest.approx(2_000, rel=0.3)
    assert call(*size, "--to", tmp_path / "lines", "--form", "jsonl") == 0
    assert f"2 runs, {told['events']} events made in" in capsys.readouterr().out
    packed = {history.run.run: history.run for history in load_histories(tmp_path / "packed")}
    traces = [read_trace(directory) for directory in sorted((tmp_path / "lines").iterdir())]
    assert [trace.run for trace in traces] == list(packed.values())
    report = verify(History.of(trace.run, trace.rows) for trace in traces)
    assert (report.ok, report.runs, report.events) == (True, 2, told["events"])
    assert verify(load_histories(tmp_path / "packed")) == report


@pytest.mark.usefixtures("in_session")
def test_a_mutation_is_planted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("--events", 2_000, "--mutation", "swap-agreed", "--at", 0.9, "--form", "jsonl")
    assert call(*wrong, "--to", tmp_path / "wrong") == 0
    assert not verify(load_histories(tmp_path / "wrong")).ok


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--events", "many"], "--events many: expected a number such as 20000"),
        (["--events", "1.5"], "--events 1.5: expected a number"),
        (["--events", "0"], "--events 0: expected 1 to"),
        (["--events", "9999G"], "expected 1 to"),
        (["--events", "1k", "--form", "csv"], "--form csv: expected parquet or jsonl"),
        (["--events", "1k", "--stack", "tcp"], "--stack tcp: expected one of evs, corel, filter"),
        (["--events", "1k", "--mutation", "wish"], "mutation is 'wish'; expected one of"),
        (["--events", "1k", "--conf", "fast"], "--conf fast: expected KEY=VALUE"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments, "--to", tmp_path / "made") == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert line in told.err
    assert not (tmp_path / "made").exists()


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").write_text("")
    assert call("--events", "1k", "--to", tmp_path) == 2
    assert "exists already; expected a new directory" in capsys.readouterr().err
    assert (tmp_path / "kept").exists()


def test_the_length_of_all_files_is_about_known(tmp_path: Path) -> None:
    from reconvene.lab.generate.directories import _rows, about_bytes
    from reconvene.trace.writer import encode_row

    how = recipe(5_000, changes=2)
    long = sum(len(encode_row(row)) for node in range(how.plan.nodes) for row in _rows(how, node))
    assert about_bytes(how) == pytest.approx(long, rel=0.2)
