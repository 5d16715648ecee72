"""The durable log's checks: what golden traces and random ones do not show."""

import time

import pytest
from tests.golden.log_dsl import LogStory
from tests.golden.log_good import LOGGED, figures, snapshots, stable, weighted

from reconvene.lab.ideal.corel import busy_log, random_log
from reconvene.verify.checks import ids_of
from reconvene.verify.engine import verify
from reconvene.verify.history import History

IDS = ids_of("corel")


def test_a_run_without_a_log_is_no_case() -> None:
    run, rows = random_log(1)
    bare = {name: [row for row in mine if row.layer == "evs"] for name, mine in rows.items()}
    report = verify([History.of(run, bare)])
    assert [report.check(check).cases for check in IDS] == [0] * len(IDS)


def test_a_log_is_judged_without_the_layer_below() -> None:
    for tell in LOGGED:
        story = tell()
        story.number()
        bare = {name: [row for row in mine if row.layer == "corel"] for name, mine in story.rows.items()}
        report = verify([History.of(story.run(), bare)])
        assert [check for check in report.violated() if check in IDS] == []


def test_a_position_however_high_costs_nothing() -> None:
    story = snapshots()
    story.tell("q", "snapshot", pos=10**18)
    story.tell("q", "green", msg=story.ids["a"], pos=10**18)
    story.number()
    started = time.perf_counter()
    assert "corel.3.1" in verify([History.of(story.run(), story.rows)]).violated()
    assert time.perf_counter() - started < 1.0


def test_a_phase_recorded_after_the_configuration_changed_begins_nothing() -> None:
    """p's attempt became durable when p was in another configuration already, where it then learns what is green."""
    story = figures()
    story.settled = False
    story.join("40", "pqr")
    story.phase("p", "attempt", 4, "pqr")
    late = story.rows["p"][-1]
    story.log("p", "x")
    story.red("p", "5", "6")
    story.adopt("p", 3)
    story.green("p", "x")
    story.number()
    # An attempt lasts until its commit, or until the node adopts; meanwhile it makes nothing green.
    assert verify([History.of(story.run(), story.rows)]).violated() == []
    story.rows["p"] = [row for row in story.rows["p"] if row.kind != "adopt"]
    assert verify([History.of(story.run(), story.rows)]).violated() == ["corel.yellow"]
    late.conf = "31"
    assert verify([History.of(story.run(), story.rows)]).violated() == []


@pytest.mark.parametrize(
    ("quorum", "settled", "judged"),
    [
        ({"kind": "majority"}, True, True),
        ({"kind": "majority"}, False, True),
        ({"kind": "majority", "changed": False}, False, True),
        ({"kind": "majority", "changed": True}, True, False),
        ({"kind": "dynamic", "minimum": 1}, True, False),
        ({"kind": "of our own"}, False, False),
    ],
)
def test_a_quorum_is_asked_for_where_run_json_tells_of_one(
    quorum: dict[str, object], settled: bool, judged: bool
) -> None:
    story = weighted()
    story.quorum, story.settled = quorum, settled
    story.number()
    violated = verify([History.of(story.run(), story.rows)]).check("corel.phases").violations
    assert violated == (3 if judged else 0)


def test_what_a_restarted_node_finds_in_its_storage_may_be_recorded_in_either_incarnation() -> None:
    """q commits, and crashes before that is recorded; so it is recorded before its failure, or when it is back."""
    for after in (False, True):
        story = LogStory("found", "pqr")
        story.begin("pqr", "10")
        story.accept("p", "a")
        story.log("pqr", "a")
        story.phase("pqr", "attempt", 1, "pqr")
        if after:
            story.fail("q")
        story.phase("q", "commit", 1, "pqr")
        story.yellow("q", "a")
        if after:
            rows = [row for row in story.rows["q"] if row.kind in ("commit", "yellow")]
            for row in rows:
                row.inc = 2
        else:
            story.fail("q")
        story.start("q", "15")
        story.join("20", "pqr")
        story.adopt("p", 1)
        story.yellow("p", "a")
        story.adopt("r", 1)
        story.yellow("r", "a")
        story.primary(2, "pqr", "a")
        story.number()
        assert verify([History.of(story.run(), story.rows)]).violated() == []


def test_the_order_of_a_step_s_rows_does_not_matter() -> None:
    """Step 6 is one step: an adopt may stand before or after what becomes green and yellow by it."""
    story = figures()
    rows = story.rows["r"]
    adopt = next(row for row in rows if row.kind == "adopt")
    last = max(place for place, row in enumerate(rows) if row.kind == "yellow" and row.msg == story.ids["4"])
    rows.remove(adopt)
    rows.insert(last, adopt)
    story.number()
    assert verify([History.of(story.run(), story.rows)]).violated() == []


def test_witnesses_name_the_lowest_events() -> None:
    story = stable()
    story.accept("q", "late")
    story.number()
    check = verify([History.of(story.run(), story.rows)]).check("corel.3.8")
    accept = story.rows["q"][-1]
    assert check.violations == 3
    assert {(witness.node, witness.n) for witness in check.witnesses} == {("q", accept.n)}


def test_a_small_run_is_judged_at_once() -> None:
    history = History.of(*busy_log(20_000, 5))
    started = time.perf_counter()
    report = verify([history])
    # About 0.1 s alone; the machine may be doing other things.
    assert time.perf_counter() - started < 2.0
    assert report.ok
    assert report.events > 20_000
