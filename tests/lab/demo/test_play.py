"""The real demo, without Spark: five processes, a cut, a kill, a voter whose answer is lost."""

import asyncio
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.client.places import short_dir

from reconvene.cli import main
from reconvene.lab.demo import DemoResult, Pace, Paths, Stage, play
from reconvene.local import LocalCluster

BRISK = Pace(gap_s=0.05, votes=4)


@pytest.fixture
def place() -> Iterator[Path]:
    with short_dir() as directory:
        place = directory / "demo"
        yield place
        if Paths(place).cluster.exists():
            LocalCluster(Paths(place).cluster).kill()


def brisk(place: Path, keep: bool = False) -> tuple[DemoResult, str]:
    out = StringIO()
    stage = Stage(Console(file=out, highlight=False, markup=False))
    outcome = asyncio.run(play(Paths(place), stage, keep=keep, spark=False, pace=BRISK))
    return outcome, out.getvalue()


@pytest.mark.long("a whole demo, with Spark")
def test_the_whole_demo_with_the_cluster_kept(place: Path) -> None:
    outcome, told = brisk(place, keep=True)
    assert outcome.ok, outcome.findings
    assert [finding.what for finding in outcome.findings] == [
        "the tally is the same at every site, and is what was cast",
        "every vote is counted once",
        "the voter whose answer was lost is counted once",
        "every configuration change was caused by the script",
        "the whole history satisfies the papers' specifications",
    ]
    assert [change.what for change in outcome.figures.changes] == [
        "the cut",
        "the kill",
        "the restart",
        "the mending",
    ]
    figures = outcome.figures
    assert figures.votes == sum(figures.counts.values()) == figures.colours["green"] > 5 * 5 * BRISK.votes - 1
    assert figures.colours["yellow"] == figures.colours["red"] == 0
    assert figures.counted_later.votes >= 2 * 2 * BRISK.votes, "the minority's votes have waited"
    assert figures.counted_at_once.votes > 0
    assert outcome.lost is not None
    assert (outcome.lost.first, outcome.lost.then) == ("c", "a")
    assert outcome.verdict is not None
    assert outcome.verdict.engine == "local"
    assert outcome.report is None
    assert "<html" in Path(str(outcome.checks)).read_text()[:200]
    document = json.loads(Paths(place).outcome.read_text())
    assert (document["ok"], document["figures"]["votes"]) == (True, figures.votes)

    assert "\x1b" not in told, "no colour without a terminal"
    assert told.count("site  now") == 5, "a table at each step"
    for line in (
        "2. The network is cut: a b c ┃ d e",
        "c     killed ",
        "✓ holds  every vote is counted once",
        "All of it holds",
        "Spark took no part: it was not asked for.",
        f"reconvene down --dir {place}/wiredville",
    ):
        assert line in told

    assert outcome.running
    cluster = LocalCluster(Paths(place).cluster)
    assert set(cluster.states().values()) == {"up"}
    with pytest.raises(SystemExit) as refused:
        main(["demo", "--dir", str(place)])
    assert refused.value.code == 2
    cluster.stop()


@pytest.mark.long("starts a cluster")
def test_a_configuration_change_that_it_did_not_cause_fails_it(place: Path) -> None:
    """A site is cut off while the first votes come in."""

    async def meddle() -> None:
        while not (Paths(place).cluster / "trace").exists() or b"green" not in _traces(place):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(LocalCluster(Paths(place).cluster).partition, [["e"], ["a", "b", "c", "d"]])

    async def both() -> DemoResult:
        stage = Stage(Console(file=StringIO(), highlight=False))
        meddling = asyncio.ensure_future(meddle())
        pace = Pace(gap_s=0.05, votes=25)
        outcome = await play(Paths(place), stage, spark=False, pace=pace)
        await meddling
        return outcome

    outcome = asyncio.run(both())
    assert not outcome.ok
    (finding,) = outcome.findings
    assert (
        "a configuration change that the script did not cause: site a went into a configuration of" in finding.detail
    )
    assert not LocalCluster(Paths(place).cluster).running()


def _traces(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in (Paths(place).cluster / "trace").glob("*.jsonl"))


def test_other_peoples_directories_are_left_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place.mkdir()
    (place / "thesis.tex").touch()
    with pytest.raises(SystemExit) as refused:
        main(["demo", "--dir", str(place)])
    assert refused.value.code == 2
    assert "thesis" not in capsys.readouterr().err
    assert (place / "thesis.tex").exists()
    with pytest.raises(SystemExit) as refused:
        main(["demo", "--svg", str(place / "none" / "x.svg")])
    assert refused.value.code == 2
    assert "--svg: expected a file" in capsys.readouterr().err
