"""What is measured on Spark is what a slow reading of the same rows gives; diagrams are the same from both."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass

import msgspec
import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from tests.once import Once
from tests.pipeline import naive_measures as naive
from tests.pipeline.told import GOLDEN, Told, tell
from tests.report.pages import Page
from tests.report.test_spacetime import arrows_expected
from tests.sim.shipped import play

from reconvene.cli import main
from reconvene.cli.analyze import default_window
from reconvene.errors import Malformed
from reconvene.pipeline.analyze.colours import turns
from reconvene.pipeline.analyze.latency import latencies, latency_by
from reconvene.pipeline.analyze.moments import TableSource
from reconvene.pipeline.traces import Traces
from reconvene.report.figures import show_number
from reconvene.report.measures import Analysis
from reconvene.report.moment import Moment, around, within
from reconvene.report.trace_source import TraceSource
from reconvene.trace.reader import Trace, read_trace
from reconvene.trace.writer import write_trace

pytestmark = pytest.mark.long("half a minute of Spark")


@pytest.fixture(scope="module")
def told(once: Once) -> list[Told]:
    """Two simulated runs with faults, of the log and without it, and some golden ones."""
    runs: list[Told] = []
    for name, seed in (("log-minority", 1), ("storm", 5)):
        result = play(once, name, seed)
        runs.append((result.meta, result.rows))
    for name in ("log-snapshots", "log-yellow-goes-back", "hidden"):
        trace = read_trace(GOLDEN / "good" / name)
        runs.append((structs.replace(trace.run, run=name), trace.rows))
    return runs


@pytest.fixture(scope="module")
def traces(spark: SparkSession, told: Sequence[Told]) -> Iterator[Traces]:
    found = tell(spark, told)
    events = found.events.persist()
    yield Traces(found.runs, events)
    events.unpersist()


@dataclass
class Written:
    """What the command wrote and printed."""

    analysis: Analysis
    page: str
    picture: str


@pytest.fixture(scope="module")
def written(spark: SparkSession, told: Sequence[Told], tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One call of the command for all that is looked at below: each costs as many Spark jobs."""

    @contextmanager
    def shared(*_: object, **__: object) -> Iterator[SparkSession]:
        yield spark

    home = tmp_path_factory.mktemp("analyze")
    for run, rows in told:
        write_trace(home / "traces" / run.run, run, {node: list(part) for node, part in rows.items()})
    options = ["--html", home / "page.html", "--spacetime", home / "picture.svg", "--run", "log-minority-1", "--json"]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setattr("reconvene.pipeline.session.open_session", shared)
        with pytest.raises(SystemExit) as ended:
            main(["analyze", str(home / "traces"), *map(str, options)])
    assert ended.value.code == 0
    return Written(
        msgspec.json.decode(printed.getvalue(), type=Analysis),
        (home / "page.html").read_text(encoding="utf-8"),
        (home / "picture.svg").read_text(encoding="utf-8"),
    )


@pytest.fixture(scope="module")
def analysis(written: Written) -> Analysis:
    return written.analysis


def test_the_page_and_the_diagram(written: Written, told: Sequence[Told]) -> None:
    page = Page(written.page)
    assert page.outside() == []
    assert show_number(written.analysis.overview.deliveries) in "".join(page.elements[0].text)
    assert len(page.of_class("spacetime")) == 1
    assert written.picture.startswith("<?xml")
    run, rows = told[0]
    source = TraceSource(Trace(run, {node: list(part) for node, part in rows.items()}))
    expected = arrows_expected(within(source, *default_window(written.analysis)))
    assert written.picture.count('class="arrow ') == written.page.count('class="arrow ') == expected > 0


def test_the_overview_counts_everything(analysis: Analysis, told: Sequence[Told]) -> None:
    rows = [row for _, mine in told for part in mine.values() for row in part]
    view = analysis.overview
    assert view.runs == len(told) == len(analysis.runs)
    assert view.events == len(rows) == sum(run.events for run in analysis.runs)
    assert view.messages == sum(row.layer == "evs" and row.kind == "send" for row in rows)
    assert view.deliveries == sum(row.layer == "evs" and row.kind == "deliver" for row in rows)
    assert view.sites == len({row.node for row in rows})
    assert view.fails == sum(row.layer == "evs" and row.kind == "fail" for row in rows) > 0
    assert {site.site: site.fails for site in analysis.faults} == {
        site.site: sum(row.kind == "fail" and row.node == site.site for row in rows) for site in analysis.faults
    }
    assert analysis.cut == []


def test_latency_by_service_and_by_site(analysis: Analysis, told: Sequence[Told]) -> None:
    found = naive.deliveries(told)
    assert {(entry.service, entry.site) for entry in analysis.latency} == {
        (service, site) for service, _, site, _ in found
    } | {(service, None) for service, _, _, _ in found}
    for entry in analysis.latency:
        values = [
            latency for service, _, site, latency in found if service == entry.service and entry.site in (None, site)
        ]
        assert naive.same_spread(entry.spread, values), entry
        assert entry.negative == sum(value < 0 for value in values)


def test_fairness(analysis: Analysis, told: Sequence[Told]) -> None:
    found = naive.deliveries(told)
    sent = naive.sendings(told)
    for sender in analysis.fairness.senders:
        values = [latency for _, name, _, latency in found if name == sender.sender]
        assert naive.same_spread(sender.spread, values)
        assert sender.share == pytest.approx(len(values) / len(found))
        assert sender.messages == sum(row.node == sender.sender for row in sent.values())
    counts = [sender.deliveries for sender in analysis.fairness.senders]
    means = [sender.spread.mean or 0.0 for sender in analysis.fairness.senders]
    assert analysis.fairness.deliveries == pytest.approx(naive.jain(counts))
    assert analysis.fairness.latency == pytest.approx(naive.jain(means))


def test_rates_and_their_variance(analysis: Analysis, told: Sequence[Told]) -> None:
    lines = {run.run: run for run in analysis.runs}
    for run in told[:2]:
        line = lines[run[0].run]
        assert 40 <= line.length // line.bucket <= 120
        assert (line.rate, line.variance) == pytest.approx(naive.rate(run, line.bucket))
    story = analysis.story
    assert story is not None
    assert sum(point.deliveries for point in story.rates) == lines[story.run].deliveries


def test_configuration_changes(analysis: Analysis, told: Sequence[Told]) -> None:
    wanted = naive.changes(told)
    assert analysis.change_spread.count == analysis.overview.changes == len(wanted)
    assert {
        (change.run, change.conf): (
            change.members,
            change.entered,
            change.merged,
            change.began,
            change.took,
            change.silence,
        )
        for change in analysis.changes
    } == wanted
    assert [change.took for change in analysis.changes] == sorted(
        (took for *_, took, _ in wanted.values()), reverse=True
    )


def test_the_log_s_way_to_green(analysis: Analysis, told: Sequence[Told]) -> None:
    found = naive.greens(told)
    assert naive.same_spread(analysis.green_at_author, [took for author, site, took in found if author == site])
    for entry in analysis.green_at_sites:
        assert naive.same_spread(entry.spread, [took for _, site, took in found if site == entry.site])


def test_messages_that_waited_in_minorities(analysis: Analysis, told: Sequence[Told]) -> None:
    wanted = naive.waited(told)
    assert {entry.author for entry in analysis.minorities} == {"", *wanted}
    for entry in analysis.minorities:
        of = [wanted[entry.author]] if entry.author else list(wanted.values())
        times = [time for _, part, _ in of for time in part]
        assert entry.accepted == sum(part[0] for part in of)
        assert entry.still == sum(part[2] for part in of)
        assert entry.waited == len(times) + entry.still
        assert naive.same_spread(entry.spread, times)
    assert any(entry.waited for entry in analysis.minorities)


def test_the_story_of_one_run(analysis: Analysis, told: Sequence[Told]) -> None:
    story = analysis.story
    assert story is not None
    assert story.nodes == ["a", "b", "c", "d", "e"]
    last = story.colours[-1]
    assert (last.red, last.yellow, last.green) == naive.colours_at_end(told[0])
    assert all(min(point.red, point.yellow, point.green) >= 0 for point in story.colours)
    for site in story.nodes:
        bands = [band for band in story.bands if band.site == site]
        assert [band.ended for band in bands[:-1]] == [band.began for band in bands[1:]]
        assert bands[0].began == 0
        assert bands[-1].ended == story.length


def test_what_a_snapshot_covers_is_green(spark: SparkSession, told: Sequence[Told]) -> None:
    rows = turns(tell(spark, [told[2]]).events, 0, 10**12, snapshots=True).collect()
    assert tuple(sum(row[name] for row in rows) for name in ("red", "yellow", "green")) == naive.colours_at_end(
        told[2]
    )


def test_estimated_percentiles_keep_to_their_rank(traces: Traces, told: Sequence[Told]) -> None:
    rows = latency_by(latencies(traces.events), exact=False).where("level = 'service'").collect()
    found = naive.deliveries(told)
    for row in rows:
        values = sorted(latency for service, _, _, latency in found if service == row["service"])
        median = row["curve"][10]
        assert sum(value < median for value in values) <= len(values) * 0.5 + 2
        assert sum(value <= median for value in values) >= len(values) * 0.5 - 2


def same_picture(mine: Moment, other: Moment) -> bool:
    """Places differ: they only have to grow."""

    def shown(moment: Moment) -> object:
        return (
            [placed.row for placed in moment.events],
            moment.openings,
            moment.marks,
            moment.left_out,
            moment.at_issue,
            (moment.run, moment.nodes, moment.layer, moment.start),
        )

    return shown(mine) == shown(other)


def test_diagrams_are_the_same_from_tables_and_from_files(traces: Traces, told: Sequence[Told]) -> None:
    run, rows = told[1]
    table, files = (
        TableSource(traces, run.run),
        TraceSource(Trace(run, {node: list(part) for node, part in rows.items()})),
    )
    detail = "b#40 deliver and e#77 were not delivered, nor was d:1:3"
    assert same_picture(around(table, "a", 300, detail), around(files, "a", 300, detail))
    assert same_picture(within(table, 10**9, 4 * 10**9), within(files, 10**9, 4 * 10**9))
    with pytest.raises(Malformed, match="no event 300 of node z"):
        around(table, "z", 300)
    with pytest.raises(Malformed, match="no such run"):
        TableSource(traces, "nobody")
