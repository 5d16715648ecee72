"""Exit codes, and one line for each error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reconvene import __version__
from reconvene.build import current_build
from reconvene.cli import main

SMALL = """
name = "small"
nodes = ["a", "b"]
seed = 5
duration = "2s"
settle = "2s"
[[load]]
nodes = ["a"]
rate = 10
until = "1s"
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr; nothing on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("reconvene: ")
    return captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["--nonsense"],
        ["sim"],
        ["sim", "x.toml", "y.toml"],
        ["sim", "x.toml", "--seed", "many"],
        ["sim", "x.toml", "--seed", "-1"],
        ["sim", "x.toml", "--seed"],
        ["sim", "x.toml", "--colour"],
        ["demo", "--nonsense"],
    ],
)
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    line(capsys)


def test_an_unknown_command_is_told_which_it_may_have_been(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("partitoin") == 2
    assert "partitoin: no such command; did you mean `reconvene partition`?" in line(capsys)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"reconvene {__version__} ({current_build()})\n"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    text = capsys.readouterr().out
    assert "sim" in text
    assert "demo" in text


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("sim", tmp_path / "none.toml") == 2
    assert "none.toml: expected a scenario file: No such file" in line(capsys)


def test_a_bad_file(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small.write_text(SMALL.replace('duration = "2s"', 'duration = "2 hours"'))
    assert call("sim", small) == 2
    assert "small.toml: duration: expected a duration" in line(capsys)


def test_json(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("sim", small, "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    document = json.loads(captured.out)
    assert list(document) == [
        "run",
        "seed",
        "scenario",
        "stack",
        "order",
        "virtual_ns",
        "events",
        "messages",
        "configurations",
        "faults",
        "skipped",
        "settled",
        "trace",
    ]
    assert document["run"] == "small-5"
    assert document["messages"] == 10
    assert document["virtual_ns"] == 4_000_000_000
    assert document["settled"] is True
    assert document["trace"] is None

    assert call("sim", small, "--json", "--seed", 8, "--trace", tmp_path / "trace") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["seed"], document["run"]) == (8, "small-8")
    assert document["trace"] == str(tmp_path / "trace")
    run = json.loads((tmp_path / "trace" / "run.json").read_text())
    assert (run["run"], run["seed"], run["nodes"], run["settled"]) == ("small-8", 8, ["a", "b"], True)
    lines = [json.loads(row) for row in (tmp_path / "trace" / "a.jsonl").read_text().splitlines()]
    assert len(lines) + len((tmp_path / "trace" / "b.jsonl").read_text().splitlines()) == document["events"]


def test_for_people(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("sim", small) == 0
    text = capsys.readouterr().out
    assert "small-5: 4s of virtual time" in text
    assert "messages        10" in text


def test_a_trace_is_replaced(small: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    assert call("sim", small, "--trace", trace) == 0
    (trace / "notes.txt").write_text("about this run")
    small.write_text(SMALL.replace('"b"', '"c"'))
    assert call("sim", small, "--trace", trace) == 0
    assert sorted(file.name for file in trace.iterdir()) == ["a.jsonl", "c.jsonl", "notes.txt", "run.json"]


def test_what_is_no_trace_is_not_replaced(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    assert call("sim", small, "--trace", precious) == 2
    assert "expected an empty directory or a trace" in line(capsys)
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_somebody_elses_files_of_the_same_names_stay(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "run.json").write_text("{}")
    (tmp_path / "data" / "a.jsonl").write_text("{}")
    assert call("sim", small, "--trace", tmp_path / "data") == 2
    assert "--trace: expected an empty directory or a trace" in line(capsys)
    assert (tmp_path / "data" / "a.jsonl").exists()


def test_with_json_a_refusal_is_a_document_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("sim", tmp_path / "none.toml", "--json") == 2
    captured = capsys.readouterr()
    assert list(json.loads(captured.out)) == ["error"]
    assert captured.err.count("\n") == 1


def test_a_trace_that_would_be_a_file(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("sim", small, "--trace", small) == 2
    assert "expected an empty directory" in line(capsys)
    assert call("sim", small, "--trace", small / "below") == 2
    line(capsys)


def test_an_empty_directory_will_do(small: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert call("sim", small, "--trace", tmp_path / "empty") == 0


def test_a_reader_that_has_seen_enough(small: Path) -> None:
    program = f"{sys.executable} -c 'from reconvene.cli import main; main()' sim {small} --json | true"
    done = subprocess.run(program, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
