"""reconvene bench: rows in the promised form, and one line for each error."""

import json
from pathlib import Path

import pytest

from reconvene.cli import bench as command
from reconvene.cli import main
from reconvene.lab.bench import BENCHES, Settings, Sheet, Table


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(["bench", *map(str, arguments)])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def canned(settings: Settings) -> Sheet:
    settings.progress("something", 1, 2)
    sheet = Sheet("atop", notes=["a note"], tables=[Table.of("a title", ["what", "ms"], [["that", "12.5"]])])
    sheet.add("agreed 100 B", "atop", 12.345678, "ms", "causal", 2.000049)
    sheet.add("agreed 100 B", "causal", 6, "ms")
    return sheet


@pytest.fixture
def _canned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load", lambda name: canned)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], f"expected a benchmark: {', '.join(BENCHES)}"),
        (["nonsense"], f"nonsense: expected a benchmark: {', '.join(BENCHES)}"),
        (["atop", "--peer", "corosync"], "--peer corosync: bench atop has no peers"),
        (["agreed", "--peer", "corosync,pigeons"], "--peer pigeons: expected corosync"),
    ],
)
def test_bad_usage(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"reconvene: {expected}\n"
    assert call(*arguments, "--json") == 2
    assert json.loads(capsys.readouterr().out) == {"error": expected}


def test_a_peer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None)
    assert call("agreed", "--peer", "corosync") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "reconvene: --peer corosync: no corosync (package corosync); it needs root and the Debian packages "
        "corosync, libcpg-dev, gcc, ethtool, iproute2, nftables"
    )


@pytest.mark.usefixtures("_canned")
def test_peers_are_handed_over(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    got = []

    def noted(settings: Settings) -> Sheet:
        got.append(settings.peers)
        return canned(settings)

    monkeypatch.setattr(command, "load", lambda name: noted)
    monkeypatch.setattr(command, "missing", lambda peer: None)
    assert call("latency", "--json", "--peer", "corosync, corosync") == 0
    assert call("latency", "--json") == 0
    assert got == [("corosync",), ()]


def test_plots_need_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert call("atop", "--out", file) == 2
    assert "expected a directory" in capsys.readouterr().err


@pytest.mark.usefixtures("_canned")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("atop", "--json", "--peer", "") == 0
    assert json.loads(capsys.readouterr().out) == {
        "bench": "atop",
        "build": "pure",
        "rows": [
            {
                "work": "agreed 100 B",
                "system": "atop",
                "value": 12.346,
                "unit": "ms",
                "against": "causal",
                "ratio": 2.0,
            },
            {"work": "agreed 100 B", "system": "causal", "value": 6.0, "unit": "ms"},
        ],
    }


@pytest.mark.usefixtures("_canned")
def test_for_people_and_without_matplotlib(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "can_plot", lambda: False)
    assert call("atop") == 0
    captured = capsys.readouterr()
    assert "a title" in captured.out
    assert "12.5" in captured.out
    assert "a note\nbuild: pure\n" in captured.out
    assert captured.err == "no plots without matplotlib: pip install 'reconvene[report]' adds them\n"


@pytest.mark.usefixtures("_canned")
def test_plots_are_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(settings: Settings) -> Sheet:
        assert settings.plots == Path("here")
        return Sheet("atop", plots=[Path("here/one.png"), Path("here/one.svg")])

    monkeypatch.setattr(command, "can_plot", lambda: True)
    monkeypatch.setattr(command, "load", lambda name: drawn)
    assert call("atop", "--out", "here") == 0
    assert capsys.readouterr().err == "plots in here: one.png (and as SVG)\n"


def test_every_benchmark_is_there() -> None:
    from reconvene.lab.bench import load

    assert all(callable(load(name)) for name in BENCHES)
