"""What analyze refuses, in a line and before any work; and the diagram alone, which needs no Spark."""

from pathlib import Path

import pytest
from tests.pipeline.told import GOLDEN

from reconvene.cli import main

GOOD = GOLDEN / "good" / "services"


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["analyze", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing here is worth a session")

    monkeypatch.setattr("reconvene.pipeline.session.open_session", refuse)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nowhere"], "nowhere: no such file or directory"),
        ([GOOD, "--window", "3s", "--html", "x.html"], "--window 3s: expected FROM..TO"),
        ([GOOD, "--window", "3s..2s", "--html", "x.html"], "the first before the second"),
        ([GOOD, "--window", "1s..2s"], "expected --html or --spacetime"),
        ([GOOD, "--window", "1s..2s", "--around", "p:1", "--html", "x.html"], "expected one of them"),
        ([GOOD, "--around", "p", "--html", "x.html"], "--around p: expected NODE:N"),
        ([GOOD, "--around", f"p:{'9' * 30}", "--html", "x.html"], "expected NODE:N"),
        ([GOOD, "--html", "no/such/page.html"], "expected a file in a directory that exists"),
        ([GOOD, "--html", "."], "is a directory"),
        ([GOOD, "--verdict", "nowhere"], "nowhere: can't be read"),
        ([GOOD, "--verdict", GOOD / "run.json"], "expected the output of verify --json"),
        ([GOOD, "--spacetime", "x.svg", "--around", "p:99999"], "no event 99999 of node p"),
        ([GOOD, "--spacetime", "x.svg", "--around", "zz:1"], "no event 1 of node zz"),
        ([GOOD, "--spacetime", "x.svg", "--window", "100s..200s"], "nothing happened in this window"),
        ([GOOD, "--spacetime", "x.svg", "--run", "other"], "--run other: the traces have no such run"),
        ([GOLDEN / "refused" / "a-blank-line", "--spacetime", "x.svg"], "expected an event"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[object],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert line in told.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("focus", [[], ["--window", "0s..1s"], ["--around", "p:3"]])
def test_a_diagram_alone(focus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "picture.svg"
    assert call(GOOD, "--spacetime", picture, *focus) == 0
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    assert "events" in capsys.readouterr().out
