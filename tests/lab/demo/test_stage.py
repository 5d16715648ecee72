"""The output: in colour on a terminal, plain elsewhere, and no information in a colour alone."""

from io import StringIO

import pytest
from rich.console import Console

from reconvene.lab.demo.board import SiteRow
from reconvene.lab.demo.result import DemoResult, Figures, Finding, Took, Wait
from reconvene.lab.demo.stage import Stage, sites_table

ROWS = [
    SiteRow("a", "primary", "5a", ("a", "b"), {"Ada": 7, "Bo": 4, "Cleo": 2}, {"Ada": 0}, 0, 0),
    SiteRow("d", "minority", "5d", ("d", "e"), {"Ada": 3, "Bo": 1, "Cleo": 0}, {"Ada": 2, "Cleo": 9}, 1, 10),
    SiteRow("c", "down"),
]


def shown(terminal: bool) -> str:
    out = StringIO()
    colours = "truecolor" if terminal else None
    console = Console(file=out, force_terminal=terminal, width=100, color_system=colours)  # type: ignore[arg-type]
    console.print(sites_table(ROWS))
    return out.getvalue()


def test_plain() -> None:
    assert [line.split() for line in shown(terminal=False).splitlines()] == [
        ["site", "now", "configuration", "Ada", "Bo", "Cleo", "green", "yellow", "red"],
        ["a", "counts", "5a[a,b]", "7", "4", "2", "13", "0", "0"],
        ["d", "takes", "votes", "5d[d,e]", "3+2", "1", "0+9", "4", "1", "10"],
        ["c", "killed", *"–––––––"],
    ]


def test_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    told = shown(terminal=True)
    assert "\x1b[32m3\x1b[0m\x1b[31m+2" in told, "counted in green, tentative in red"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(terminal=True)


def verdict(outcome: DemoResult) -> str:
    out = StringIO()
    Stage(Console(file=out, highlight=False)).verdict(outcome)
    return out.getvalue()


def test_the_verdict_names_what_does_not_hold() -> None:
    outcome = DemoResult(
        cluster="/demo/wiredville",
        findings=[Finding("every vote is counted once", False, "a differs at position 7"), Finding("x", True, "y")],
        figures=Figures(
            votes=3, counts={"Ada": 3}, changes=[Took("the cut", 700_000_000)], answered=Wait(3, 1, 2, 3)
        ),
    )
    assert not outcome.ok
    told = verdict(outcome)
    for line in ("✗ fails  every vote is counted once", "a differs at position 7", "1 of 2 do not hold.", "700 ms"):
        assert line in told
    assert "mayor" not in told


def test_where_to_look() -> None:
    outcome = DemoResult(
        cluster="/demo/wiredville", findings=[Finding("x", True, "y")],
        figures=Figures(votes=3, counts={"Ada": 1, "Bo": 2}), report="/demo/report.html", dashboards={"a": "http://127.0.0.1:1/"},
        running=True,
    )  # fmt: skip
    told = verdict(outcome)
    for line in ("Bo is mayor, with 2 of 3 votes", "/demo/report.html", "http://127.0.0.1:1/", "reconvene down"):
        assert line in told
    outcome.running = False
    outcome.no_spark = "it is not installed; to add it: pip install"
    told = verdict(outcome)
    assert "http://" not in told
    assert "Spark took no part: it is not installed; to add it: pip install" in told
