"""Every golden trace, good, bad and refused, does what its place says; and they are what build.py makes."""

import filecmp
import json
import subprocess
import sys
from pathlib import Path

import pytest

from reconvene.errors import Malformed
from reconvene.verify.checks import ids_of
from reconvene.verify.engine import IDS, verify
from reconvene.verify.history import History

GOLDEN = Path(__file__).parent.parent / "golden"
GOOD, BAD, REFUSED = (sorted((GOLDEN / kind).iterdir()) for kind in ("good", "bad", "refused"))


def name_of(directory: Path) -> str:
    return directory.name


@pytest.mark.parametrize("directory", GOOD, ids=name_of)
def test_good_traces_hold(directory: Path) -> None:
    report = verify([History.load(directory)])
    assert [check for check in report.checks if check.violations] == []
    assert report.ok


@pytest.mark.parametrize("directory", BAD, ids=name_of)
def test_bad_traces_are_caught_by_name(directory: Path) -> None:
    report = verify([History.load(directory)])
    expected = json.loads((directory / "expected.json").read_text())
    assert sorted(report.violated()) == expected["violated"]
    check = report.check(directory.name.split("--")[0])
    assert check.violations > 0
    assert len(check.witnesses) == min(check.violations, 10)
    assert all(witness.run == directory.name and witness.detail for witness in check.witnesses)


@pytest.mark.parametrize("directory", REFUSED, ids=name_of)
def test_what_cannot_be_judged_is_refused_in_one_line(directory: Path) -> None:
    with pytest.raises(Malformed) as refusal:
        History.load(directory)
    line = str(refusal.value)
    assert "\n" not in line
    for word in json.loads((directory / "expected.json").read_text())["says"]:
        assert word in line


def test_every_check_is_shown_to_fail() -> None:
    assert {directory.name.split("--")[0] for directory in BAD} == set(IDS) - set(ids_of("wide"))


def test_every_check_looks_at_something_in_a_good_trace() -> None:
    report = verify(History.load(directory) for directory in GOOD)
    assert [check.id for check in report.checks if check.cases == 0] == list(ids_of("wide"))
    assert report.runs == len(GOOD)


def test_a_torn_last_line_is_dropped_and_a_whole_one_is_kept() -> None:
    whole = History.load(GOLDEN / "good" / "pair").rows
    assert History.load(GOLDEN / "good" / "torn-last-line").rows == whole
    assert History.load(GOLDEN / "good" / "no-newline-at-the-end").rows == whole


def test_the_builder_makes_these_traces(tmp_path: Path) -> None:
    root = GOLDEN.parent.parent
    subprocess.run([sys.executable, "-m", "tests.golden.build", str(tmp_path)], check=True, cwd=root)
    for kind in ("good", "bad", "refused", "good-domains", "bad-domains"):
        assert _differences(filecmp.dircmp(GOLDEN / kind, tmp_path / kind)) == []


def _differences(compared: "filecmp.dircmp[str]") -> list[str]:
    _, mismatch, errors = filecmp.cmpfiles(compared.left, compared.right, compared.common_files, shallow=False)
    found = [*compared.left_only, *compared.right_only, *mismatch, *errors]
    return [*found, *(name for sub in compared.subdirs.values() for name in _differences(sub))]
