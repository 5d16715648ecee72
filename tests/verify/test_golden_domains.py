"""Every golden trace of domains does what its place says; and they are what build.py makes."""

import json
from pathlib import Path

import pytest
from tests.golden.bad_wide import BROKEN_WIDE
from tests.golden.wide_good import WIDE

from reconvene.verify.checks import ids_of
from reconvene.verify.engine import verify
from reconvene.verify.load import load_histories

GOLDEN = Path(__file__).parent.parent / "golden"
GOOD, BAD = (sorted((GOLDEN / kind).iterdir()) for kind in ("good-domains", "bad-domains"))


def name_of(directory: Path) -> str:
    return directory.name


@pytest.mark.parametrize("directory", GOOD, ids=name_of)
def test_good_traces_hold(directory: Path) -> None:
    report = verify(load_histories(directory))
    assert [(check.id, check.witnesses) for check in report.checks if check.violations] == []
    assert report.runs == 1


@pytest.mark.parametrize("directory", BAD, ids=name_of)
def test_bad_traces_are_caught_by_name(directory: Path) -> None:
    report = verify(load_histories(directory))
    expected = json.loads((directory / "expected.json").read_text())
    assert sorted(report.violated()) == expected["violated"]
    check = report.check(directory.name.split("--")[0])
    assert all(witness.run == directory.name and witness.detail for witness in check.witnesses)


def test_every_check_is_shown_to_fail_twice() -> None:
    names = [directory.name.split("--")[0] for directory in BAD]
    assert all(names.count(check) >= 2 for check in ids_of("wide"))
    assert {bad.name for bad in BROKEN_WIDE} == {directory.name for directory in BAD}
    assert {tell().name for tell in WIDE} == {directory.name for directory in GOOD}


def test_every_check_looks_at_something_in_a_good_trace() -> None:
    report = verify(history for directory in GOOD for history in load_histories(directory))
    assert [check.id for check in report.checks if check.id in ids_of("wide") and check.cases == 0] == []
    assert report.runs == len(GOOD)
