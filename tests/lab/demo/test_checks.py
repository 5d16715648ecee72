"""Each check fails if it should: for a lost vote, a vote that counts twice, a wrong vote, an incomplete table."""

import msgspec
import pytest

from reconvene.entries import Entry
from reconvene.lab.demo.checks import counted_once, lost_answer, same_table, same_tallies, verified
from reconvene.lab.demo.figures import counted, spread
from reconvene.lab.demo.result import Lost, Wait
from reconvene.lab.demo.spark import Table
from reconvene.lab.demo.voters import Vote
from reconvene.objects.tally import Addition
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import Trace
from reconvene.verify.report import CheckResult, Report

VOTES = [Vote(1, "Ada", "a"), Vote(2, "Bo", "b"), Vote(3, "Ada", "c")]


def entry(position: int, choice: str, tally: str = "mayor") -> Entry:
    return Entry(position, msgspec.msgpack.encode(Addition(tally, choice, 1)), "a", 1, position + 1, 0)


def test_the_same_tallies() -> None:
    assert same_tallies({"a": {"Ada": 2}, "b": {"Ada": 2}}, {"Ada": 2, "Bo": 0}).ok
    found = same_tallies({"a": {"Ada": 2}, "b": {"Ada": 1}}, {"Ada": 2, "Bo": 0})
    assert (found.ok, found.detail) == (False, "b has Ada 1, Bo 0, Cleo 0; the votes cast are Ada 2, Bo 0, Cleo 0")


GOOD = [entry(0, "Ada"), entry(4, "Bo"), entry(2, "Ada")]


@pytest.mark.parametrize(
    ("places", "log", "detail"),
    [
        ([0, 4, 2], GOOD, None),
        ([0, 4, 4], GOOD, "3 votes have 2 places"),
        ([0, 4, 2], GOOD[:2], "a differs at position 2"),
        ([0, 4, 2], [*GOOD, entry(5, "Bo")], "a differs at position 5"),
        ([0, 4, 2], [entry(0, "Cleo"), *GOOD[1:]], "a differs at position 0"),
        ([0, 4, 2], [entry(0, "Ada", "dog catcher"), *GOOD[1:]], "a differs at position 0"),
        ([0, 4, 2], [entry(place, "Bo") for place in range(10, 15)], "a differs at position 0, position 2, position 4"
         " and 5 more"),
    ],
)  # fmt: skip
def test_every_vote_once(places: list[int], log: list[Entry], detail: str | None) -> None:
    found = counted_once(VOTES, places, {"a": log}, "mayor")
    assert found.ok == (detail is None)
    assert detail is None or found.detail == detail


def test_the_lost_answer() -> None:
    assert lost_answer(Lost(3, "c", "a", True, 17)).ok
    assert not lost_answer(Lost(3, "c", "a", True)).ok
    assert not lost_answer(None).ok


@pytest.mark.parametrize(
    "table", [Table(2, 2, {"Ada": 2}), Table(4, 4, {"Ada": 2, "Bo": 2}), Table(3, 2, {"Ada": 2, "Bo": 1})]
)
def test_another_table(table: Table) -> None:
    assert same_table(Table(3, 3, {"Ada": 2, "Bo": 1}), {"Ada": 2, "Bo": 1}).ok
    assert not same_table(table, {"Ada": 2, "Bo": 1}).ok


def test_a_violation() -> None:
    check = CheckResult(id="to.order", cases=3, violations=1, witnesses=[])
    report = Report(ok=False, schema=1, engine="local", runs=1, events=9, checks=[check])
    assert verified(report).detail == "violated: to.order"


def test_votes_that_had_to_wait() -> None:
    """A vote that is accepted and green in one configuration is counted at once; all others have waited."""
    steps = [
        ("conf", ""), ("establish", ""), ("accept", "a:1:1"), ("green", "a:1:1"), ("accept", "a:1:2"), ("conf", ""),
        ("accept", "a:1:3"), ("establish", ""), ("green", "a:1:2"), ("green", "a:1:3"), ("green", "b:1:1"),
    ]  # fmt: skip
    rows = [
        Row(node="a", inc=1, n=n, t=10 * n, layer="corel", kind=kind, msg=msg or msgspec.UNSET)
        for n, (kind, msg) in enumerate(steps)
    ]
    run = Run(
        schema=1, run="r", nodes=["a"], stack="corel", order="atop", seed=0, settled=True, components=[["a"]],
        down=[], quorum={},
    )  # fmt: skip
    assert counted(Trace(run, {"a": rows})) == (Wait(1, 10, 10, 10), Wait(2, 30, 40, 40))
    assert spread([]) == Wait()
