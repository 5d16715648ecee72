"""Diagrams of every golden violation: well formed, bounded, in order, with an arrow for each delivery shown."""

import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest
from tests.once import Once
from tests.report.samples import BAD, GOLDEN, verdict
from tests.sim.shipped import play

from reconvene.errors import Malformed
from reconvene.report.moment import CAUSES, MOST_EVENTS, Moment, around, within
from reconvene.report.spacetime import diagram_file
from reconvene.report.spacetime_layout import cause_of, lay_out
from reconvene.report.trace_source import TraceSource, layer_of_check, spacetime_of_trace
from reconvene.trace.reader import Trace


def of_class(drawing: str, name: str) -> list[ET.Element]:
    root = ET.fromstring(drawing)
    return [element for element in root.iter() if name in element.get("class", "").split()]


def arrows_expected(moment: Moment) -> int:
    begins, ends = CAUSES[moment.layer]
    rows = [placed.row for placed in moment.events if placed.row.layer == moment.layer]
    sent = {row.msg for row in rows if row.kind in begins}
    return sum(row.kind == ends and row.msg in sent for row in rows)


def check(moment: Moment) -> None:
    assert len(moment.events) <= MOST_EVENTS
    layout = lay_out(moment)
    assert len(layout.places) == len(moment.events)
    for before, after in pairwise(sorted(layout.places)):
        if before[0] == after[0]:
            assert layout.places[before] < layout.places[after], "a node's events are in the order of its file"
    drawing = diagram_file(moment)
    assert len(of_class(drawing, "arrow")) == arrows_expected(moment)
    assert len(of_class(drawing, "name")) == len(moment.nodes)


@pytest.mark.parametrize("directory", BAD, ids=lambda directory: directory.name)
def test_every_golden_violation(directory: Path) -> None:
    for result in verdict(directory).checks:
        for witness in result.witnesses[:1]:
            if not (directory / f"{witness.node}.jsonl").read_bytes():
                continue  # of a node that never started there is nothing to draw
            moment = spacetime_of_trace(directory, witness.node, witness.n, witness.detail, result.id)
            check(moment)
            drawing = diagram_file(moment)
            assert len(of_class(drawing, "callout")) == 1
            assert len(of_class(drawing, "halo")) == 1
            said = "".join("".join(element.itertext()) for element in of_class(drawing, "callout-text"))
            assert said.replace(" ", "") == witness.detail.replace(" ", "")


@pytest.fixture(scope="module")
def storm(once: Once) -> TraceSource:
    result = play(once, "storm", 5)
    return TraceSource(Trace(result.meta, result.rows))


@pytest.mark.long("makes a long run")
def test_a_window_of_a_long_run_is_thinned_out(storm: TraceSource) -> None:
    moment = within(storm, 2 * 10**9, 9 * 10**9)
    check(moment)
    assert moment.left_out > 0
    assert f"{moment.left_out:,} more events" in diagram_file(moment)
    # Of a message that is shown, all that happened in the stretch is shown.
    inside = storm.between(storm.start + 2 * 10**9, storm.start + 9 * 10**9, "evs", 1, 0, 10**6)
    shown = {(placed.row.node, placed.place) for placed in moment.events}
    messages = {placed.row.msg for placed in moment.events if placed.row.kind in ("send", "deliver")}
    assert all((placed.row.node, placed.place) in shown for placed in inside if placed.row.msg in messages)


def test_arrows_lead_down_and_bands_follow_the_files(storm: TraceSource) -> None:
    moment = within(storm, 2 * 10**9, 9 * 10**9)
    layout = lay_out(moment)
    for effect, cause in cause_of(moment).items():
        assert layout.places[cause] < layout.places[effect]
    drawing = diagram_file(moment)
    entered = sum(placed.row.kind == "conf" and placed.row.conf_kind != "hidden" for placed in moment.events)
    # Each entering begins a band; each node has one more, that it comes with.
    opened = sum(row.kind == "conf" for row in moment.openings.values())
    assert len(of_class(drawing, "band")) == entered + opened + 2  # two in the key
    fails = sum(placed.row.kind == "fail" for placed in moment.events)
    assert len(of_class(drawing, "fail")) == fails + (fails > 0)


def test_events_that_a_witness_names_are_shown_whatever_their_distance(storm: TraceSource) -> None:
    moment = around(storm, "a", 300, "a#300 but e#2000, and d:1:3 was not delivered", "evs")
    check(moment)
    shown = {(placed.row.node, placed.row.n) for placed in moment.events}
    assert {("a", 300), ("e", 2000)} <= shown
    assert "d:1:3" in {placed.row.msg for placed in moment.events}
    assert len(of_class(diagram_file(moment), "named")) == 2  # one in the key


def test_what_is_not_there_is_refused_in_a_line(storm: TraceSource) -> None:
    with pytest.raises(Malformed, match="no event 99999999 of node a"):
        around(storm, "a", 99_999_999)
    with pytest.raises(Malformed, match="nothing happened in this window"):
        within(storm, 10**15, 2 * 10**15)
    with pytest.raises(Malformed):
        spacetime_of_trace(GOLDEN / "nowhere", "a", 1)


def test_a_check_decides_whose_messages_are_drawn() -> None:
    assert layer_of_check("vs.C1") == "vs"
    assert layer_of_check("corel.3.6") == "corel"
    assert layer_of_check("evs.7.1") == "evs"
    assert layer_of_check("") is None
