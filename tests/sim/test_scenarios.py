"""The shipped scenarios: each shows what it says, and holds."""

from pathlib import Path

import pytest
from msgspec import UNSET
from tests.once import Once
from tests.sim.shipped import FOLDER, play

from reconvene.lab.campaign.seeds import histories
from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import Result
from reconvene.trace.events import Row
from reconvene.verify.engine import verify

SCENARIOS = sorted(FOLDER.glob("*.toml"))
LONG = {"merge-of-many", "mixed-services", "pause-and-wake", "storm", "twenty-sites", "twice-and-out-of-order"}


def configurations(result: Result, node: str, kind: str) -> list[str]:
    rows = [row for row in result.rows[node] if row.kind == "conf" and row.conf_kind == kind]
    return ["".join(row.members) for row in rows if row.members is not UNSET]


def delivered(result: Result, node: str, message: str) -> Row | None:
    return next((row for row in result.rows[node] if row.kind == "deliver" and row.msg == message), None)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_each_says_what_it_shows(path: Path) -> None:
    assert path.read_text().startswith("# ")
    assert load_scenario(path).name == path.stem
    assert path.stem in (FOLDER.parent / "docs" / "scenarios.md").read_text()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, marks=[pytest.mark.long("seconds; the seeds have these faults")] if path.stem in LONG else []
        )
        for path in SCENARIOS
    ],
    ids=lambda path: path.stem,
)
def test_each_holds(path: Path, once: Once) -> None:
    result = play(once, path.stem)
    report = verify(histories(result))
    assert report.violated() == []
    assert report.check("live.membership").cases > 0


@pytest.mark.parametrize("seed", [3, 4])
def test_figure_3(seed: int, once: Once) -> None:
    result = play(once, "figure-3", seed)
    assert configurations(result, "A", "regular") == ["A", "ABC", "AB", "A", "AC"]
    assert configurations(result, "B", "regular") == ["B", "ABC", "BC"]
    assert configurations(result, "C", "regular") == ["C", "ABC", "C", "BC", "C", "AC"]
    assert configurations(result, "B", "hidden") == ["AB"]


def test_figure_6(once: Once) -> None:
    result = play(once, "figure-6")
    for node in "qr":
        assert configurations(result, node, "regular") == [node, "pqr", "qrst"]
        assert configurations(result, node, "transitional") == [node, "qr"]
        assert delivered(result, node, "p:1:1") is None, "l never came"
        assert delivered(result, node, "p:1:2") is None, "and m has to wait for it"
        n = delivered(result, node, "r:1:1")
        assert n is not None
        assert str(n.conf).count("+") == 1, "n is safe in the transitional configuration"
    assert configurations(result, "p", "regular") == ["p", "pqr", "p"]
    assert delivered(result, "p", "r:1:1") is None
    assert configurations(result, "s", "transitional") == ["s", "st"]


def test_chains_divide_and_stay_divided(once: Once) -> None:
    result = play(once, "chain-of-three")
    between = [row for row in result.rows["b"] if row.kind == "conf" and 5 * 10**9 < row.t < 12 * 10**9]
    assert between == [], "no thrashing"
    sizes = {len(row.members) for row in result.rows["b"] if row.members is not UNSET and row.t < 12 * 10**9}
    assert sizes == {1, 2, 3}


def test_partitions_faster_than_configurations(once: Once) -> None:
    result = play(once, "cascade")
    assert any(configurations(result, node, "hidden") for node in "abcde")


def test_representatives_crash_amid_their_work(once: Once) -> None:
    result = play(once, "representative-crashes")
    assert "bcde" in configurations(result, "d", "hidden"), "b crashed after it had proposed"
    assert "bcde" not in configurations(result, "d", "regular")


def test_a_message_larger_than_frames(once: Once) -> None:
    result = play(once, "large-message")
    for node in "abc":
        assert delivered(result, node, "a:1:2") is not None, "the last one of 200 KiB, after the network mended"
