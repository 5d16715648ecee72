"""Pages stand alone, are well formed whatever the names in them, and say what the tables say."""

from pathlib import Path

import pytest
from tests.report.pages import Page
from tests.report.samples import BAD, GOLDEN, empty, sample, verdict

from reconvene.errors import Malformed
from reconvene.report.analysis_page import analysis_page
from reconvene.report.figures import show_count, show_ns, show_percent, show_time
from reconvene.report.trace_source import spacetime_of_trace
from reconvene.report.verify_page import verify_page, write_verify_report
from reconvene.report.witness_diagrams import MOST_DIAGRAMS, diagrams_of_traces
from reconvene.verify.report import Report


def bad(name: str) -> Path:
    return GOLDEN / "bad" / name


def test_the_analysis_has_every_figure_of_its_tables() -> None:
    analysis = sample()
    moment = spacetime_of_trace(bad("evs.5--fifo-swapped"), "q", 4)
    page = Page(analysis_page(analysis, [("around", moment)], verdict(GOLDEN / "good" / "pair")))
    assert page.outside() == []
    cells = page.cells()
    for entry in (*analysis.latency, *analysis.green_at_sites):
        for figure in (entry.spread.p50, entry.spread.p99, entry.spread.p999, entry.spread.max):
            assert show_ns(figure) in cells
        assert show_count(entry.spread.count) in cells
    for sender in analysis.fairness.senders:
        assert {sender.sender, show_percent(sender.share), show_count(sender.messages)} <= set(cells)
    for change in analysis.changes:
        assert {change.conf, show_ns(change.took), show_ns(change.silence)} <= set(cells)
    shown = "".join(page.elements[0].text)
    assert "Jain's index 0.988" in shown
    assert "Jain's index of the means –" in shown
    assert "the first 2 are shown" in shown
    assert "8 deliveries seem to come before their sending" in shown


def test_plots_show_what_the_tables_say() -> None:
    analysis = sample()
    page = Page(analysis_page(analysis))
    titles = ["".join(element.text) for element in page.elements if element.name == "title"]
    for entry in analysis.latency:
        name = entry.service if entry.site is None else f"{entry.site} · {entry.service}"
        wanted = f"{name}: p50 {show_ns(entry.spread.p50)}, p99 {show_ns(entry.spread.p99)}"
        # Once in the wide plot, once in the narrow one.
        assert sum(title.startswith(wanted) for title in titles) == 2
    assert sum(title.startswith("configuration 131072 of 3") for title in titles) == 6
    assert sum("a: fail of incarnation 1" in title for title in titles) == 2
    assert len(page.of_class("wide")) == len(page.of_class("narrow")) > 0


def test_next_to_nothing_makes_a_page() -> None:
    page = Page(analysis_page(empty()))
    assert "Nothing was delivered." in "".join(page.elements[0].text)


def test_a_verdict_with_violations() -> None:
    directories = [bad("evs.6.2--circle-of-three-orders"), bad("corel.3.6--two-orders")]
    from reconvene.verify.engine import verify
    from reconvene.verify.history import History

    report = verify([History.load(directory) for directory in directories])
    diagrams = diagrams_of_traces(report, directories)
    page = Page(verify_page(report, diagrams))
    assert page.outside() == []
    assert len(page.of_class("spacetime")) == len(diagrams) > 3
    shown = "".join(page.elements[0].text)
    for check in report.checks:
        assert check.id in page.cells()
        for witness in check.witnesses:
            assert witness.detail in shown
    assert [tile for tile in page.of_class("tile") if "violations" in tile.text] != []


def test_diagrams_are_limited_and_found_in_a_directory_of_traces() -> None:
    report = Report(
        ok=False,
        schema=1,
        engine="local",
        runs=len(BAD),
        events=0,
        checks=[check for directory in BAD[:40] for check in verdict(directory).checks if check.violations],
    )
    assert len(diagrams_of_traces(report, [GOLDEN / "bad"])) == MOST_DIAGRAMS


def test_a_verdict_without_violations(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    report = verdict(GOLDEN / "good" / "services")
    write_verify_report(path, report, diagrams_of_traces(report, [GOLDEN / "good" / "services"]))
    page = Page(path.read_text(encoding="utf-8"))
    assert "Every check holds" in "".join(page.elements[0].text)
    with pytest.raises(Malformed, match="can't be written"):
        write_verify_report(tmp_path / "no" / "page.html", report)


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (None, "–"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.50 µs"),
        (-2_340_000, "−2.34 ms"),
        (12_345_678, "12.3 ms"),
        (10**9, "1 s"),
        (90 * 10**9, "90 s"),
        (240 * 10**9, "4 min"),
    ],
)
def test_durations_as_people_read_them(ns: int | None, shown: str) -> None:
    assert show_ns(ns) == shown


def test_moments_are_as_exact_as_their_neighbours_need() -> None:
    assert show_time(2_000_100_000, 100_000) == "2.0001 s"
    assert show_time(2_000, 1_000) == "2 µs"
    assert show_time(0, 10**6) == "0 ms"
