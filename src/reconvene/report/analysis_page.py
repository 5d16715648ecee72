"""The report of `reconvene analyze`: what was measured, as plots with their tables, and a space-time diagram."""

from collections.abc import Sequence

from reconvene.report.analysis_tables import (
    change_table,
    fault_table,
    green_table,
    latency_table,
    minority_table,
    run_table,
    sender_table,
)
from reconvene.report.figures import show_count, show_ns, show_number, show_percent
from reconvene.report.markup import Markup, join, tag
from reconvene.report.measures import Analysis, Story
from reconvene.report.moment import Moment
from reconvene.report.page import Section, badge, card, cards, draw_page, legend, stage, tiles
from reconvene.report.plots import WHOLE, Area, Bar, Dots, Line, areas, bars, curves, dots, in_both
from reconvene.report.timeline import change_marks, draw_timeline
from reconvene.verify.report import Report

__all__ = ["analysis_page"]

_SERVICES = ("fifo", "causal", "agreed", "safe")
_CLOCKS = (
    "Clocks are those of the sites. On one machine or in the simulator they agree; on several, what is told between"
    " two sites is off by as much as their clocks are."
)
_PERCENTILE_KEY = legend(
    [
        (Markup('<svg viewBox="0 0 26 12"><circle cx="13" cy="6" r="4.6" fill="currentColor"/></svg>'), "p50"),
        (
            Markup(
                '<svg viewBox="0 0 26 12"><circle cx="13" cy="6" r="4" fill="none" stroke="currentColor"'
                ' stroke-width="2"/></svg>'
            ),
            "p99",
        ),
        (
            Markup('<svg viewBox="0 0 26 12"><path d="M13 0v12" stroke="currentColor" stroke-width="2.4"/></svg>'),
            "p99.9",
        ),
    ]
)


def analysis_page(
    analysis: Analysis, moments: Sequence[tuple[str, Moment]] = (), verdict: Report | None = None
) -> str:
    """The whole page. `moments`: diagrams, each with what it shows; `verdict`: of the same traces, if any."""
    view = analysis.overview
    runs = "1 run" if view.runs == 1 else f"{show_count(view.runs)} runs"
    title = analysis.story.run if view.runs == 1 and analysis.story else f"Analysis of {runs}"
    sections = [
        _latency(analysis),
        *([_time(analysis.story, any(entry.negative for entry in analysis.latency))] if analysis.story else []),
        _changes(analysis),
        _fairness(analysis),
        *([_log(analysis)] if view.accepted else []),
        *([_runs(analysis)] if view.runs > 1 else []),
        *([_spacetime(moments)] if moments else []),
    ]
    return draw_page(title, _subtitle(analysis), _summary(analysis, verdict), sections)


def _subtitle(analysis: Analysis) -> Markup:
    shown = list(analysis.traces[:3])
    more = f" and {len(analysis.traces) - 3} more" if len(analysis.traces) > 3 else ""
    return join("Measured from ", *(tag("code", name, " ") for name in shown), more)


def _summary(analysis: Analysis, verdict: Report | None) -> Markup:
    view = analysis.overview
    entries = [
        (show_count(view.runs), "run" if view.runs == 1 else "runs"),
        (show_count(view.sites), "sites"),
        (show_number(view.events), "events"),
        (show_number(view.messages), "messages sent"),
        (show_number(view.deliveries), "deliveries"),
        (show_count(view.changes), "configuration changes"),
        (show_count(view.fails + view.stops), "crashes and stops"),
    ]
    if view.accepted:
        entries.append((show_number(view.accepted), "appended to the log"))
    notes = [*_verdict(verdict)]
    if analysis.cut:
        notes.append(tag("p", "Not everything is shown. " + "; ".join(analysis.cut) + ".", class_="lead"))
    return join(tiles(entries), *notes)


def _verdict(verdict: Report | None) -> list[Markup]:
    if verdict is None:
        return []
    broken = verdict.violated()
    looked = sum(check.cases > 0 for check in verdict.checks)
    if broken:
        said = badge(f"{len(broken)} checks violated", "bad")
        return [tag("p", said, " ", ", ".join(broken))]
    return [tag("p", badge("verified", "good"), f" {looked} checks had cases, and every one holds")]


def _latency(analysis: Analysis) -> Section:
    services = [entry for entry in analysis.latency if entry.site is None]
    sites = [entry for entry in analysis.latency if entry.site is not None]
    lines = [Line(entry.service, entry.spread.curve, entry.service) for entry in services]
    by_service = [Dots(entry.service, entry.spread, entry.service) for entry in services]
    by_site = [Dots(f"{entry.site} · {entry.service}", entry.spread, entry.service) for entry in sites[:40]]
    note = _jumps(sum(entry.negative for entry in services), "deliveries seem to come before their sending")
    key = legend([(_swatch(entry.service), entry.service) for entry in services])
    return Section(
        "latency",
        "Latency",
        f"From a message's sending to each of its deliveries, its sender's own included. {_CLOCKS}{note}"
        f" Percentiles: {analysis.percentiles}.",
        cards(
            card(
                "How many deliveries took no longer",
                "The scale is stretched towards the slowest.",
                in_both(lambda width: curves(lines, width)),
                key,
            ),
            card(
                "By service",
                None,
                in_both(lambda width: dots(by_service, width)),
                _PERCENTILE_KEY,
                latency_table(services),
            ),
            card(
                "By site that delivers",
                "The first 40 are drawn." if len(sites) > 40 else None,
                in_both(lambda width: dots(by_site, width), WHOLE),
                _PERCENTILE_KEY,
                _folded("As a table", latency_table(sites)),
                whole=True,
            ),
        )
        if services
        else _nothing("Nothing was delivered."),
    )


def _jumps(negative: int, what: str) -> str:
    """What a clock that was set does to the figures, where they show that one was. A sentence, or nothing."""
    if not negative:
        return ""
    return (
        f" {show_count(negative)} {what}: a clock was set, or clocks differ. Their negative times are in the"
        " percentiles, and are drawn at the left edge. A clock that was set forward makes other times longer, which"
        " nothing here can tell from slow ones."
    )


def _time(story: Story, jumped: bool) -> Section:
    begun = [point.at for point in story.rates]
    # Buckets in which nothing was delivered have no point.
    moments = list(range(min(begun), max(begun) + 1, story.bucket)) if begun else []
    place = {moment: index for index, moment in enumerate(moments)}
    seconds = story.bucket / 1e9
    layers = []
    for service in _SERVICES:
        values = [0.0] * len(moments)
        for point in story.rates:
            if point.service == service:
                values[place[point.at]] = point.deliveries / seconds
        if any(values):
            layers.append(Area(service, values, service))
    changes, faults = story.changes, story.faults
    key = [*((_swatch(layer.tint), layer.name) for layer in layers)]
    if changes:
        key.append((_dashes(), "configuration change"))
    return Section(
        "time",
        "Over time",
        f"The run {story.run}: {show_ns(story.length)} from its first event to its last, in buckets of"
        f" {show_ns(story.bucket)}."
        + (" Each site's events stand where its own clock put them, also after that was set." if jumped else ""),
        cards(
            card(
                "Deliveries a second, of all sites together",
                None,
                in_both(
                    lambda width: areas(
                        moments,
                        layers,
                        width,
                        length=story.length,
                        bucket=story.bucket,
                        unit="deliveries a second",
                        marks=lambda x, top, bottom: change_marks(changes, faults, x, top, bottom),
                    ),
                    WHOLE,
                ),
                legend(key),
                whole=True,
            ),
            card(
                "Which site was in which configuration",
                "A colour is a regular configuration; a dotted line, a site down. ✕ crash, ■ left, ▲ restart.",
                in_both(lambda width: draw_timeline(story, width), WHOLE),
                whole=True,
            ),
        ),
    )


def _changes(analysis: Analysis) -> Section:
    spread = analysis.change_spread
    if not spread.count:
        return Section("changes", "Configuration changes", "", _nothing("No configuration changed."))
    return Section(
        "changes",
        "Configuration changes",
        "From the moment at which the first of its members leaves its old configuration to the moment at which the"
        " last one has entered the new one. The silence is what an application notices: the longest time at a member"
        " from its last delivery before the change to its first one after it.",
        cards(
            card(
                "How long they took",
                None,
                tiles(
                    [
                        (show_count(spread.count), "changes"),
                        (show_ns(spread.p50), "p50"),
                        (show_ns(spread.p99), "p99"),
                        (show_ns(spread.max), "longest"),
                    ]
                ),
            ),
            card("Faults seen", None, fault_table(analysis.faults)),
            card("The longest changes", None, change_table(analysis.changes[:20]), whole=True),
        ),
    )


def _fairness(analysis: Analysis) -> Section:
    fair = analysis.fairness
    if not fair.senders:
        return Section("fairness", "Fairness", "", _nothing("Nothing was sent."))
    rows = [
        Bar(
            sender.sender,
            sender.share,
            show_percent(sender.share),
            f"{sender.sender}: {show_count(sender.deliveries)} deliveries of {show_count(sender.messages)} messages",
        )
        for sender in fair.senders[:40]
    ]
    waits = [Dots(sender.sender, sender.spread, "agreed") for sender in fair.senders[:40]]
    return Section(
        "fairness",
        "Fairness",
        "Each sender's share of all deliveries, and how long its messages take. Jain's index is 1 where all have the"
        " same, and one part in as many as there are senders where one has everything. Senders that ask for more also"
        " get more: the index of deliveries is about their load, too.",
        cards(
            card(
                "Share of deliveries",
                f"Jain's index {_index(fair.deliveries)}. The dashed line: equal shares.",
                in_both(lambda width: bars(rows, 1 / len(fair.senders), width)),
            ),
            card(
                "Latency by sender",
                f"Jain's index of the means {_index(fair.latency)}"
                + (": some mean is negative, by its clocks." if fair.latency is None else "."),
                in_both(lambda width: dots(waits, width)),
                _PERCENTILE_KEY,
            ),
            card("By sender", None, sender_table(fair.senders), whole=True),
        ),
    )


def _log(analysis: Analysis) -> Section:
    rows = [Dots("at its author", analysis.green_at_author, "append")]
    rows += [Dots(f"at {entry.site}", entry.spread, "green") for entry in analysis.green_at_sites[:40]]
    everyone = next((entry for entry in analysis.minorities if not entry.author), None)
    waited = everyone.waited if everyone else 0
    story = analysis.story
    return Section(
        "log",
        "The log",
        "From an author's accept, when a message is on its disk, to green, when its place in the total order is"
        " certain. What was accepted in no primary component waits until there is one again."
        + _jumps(
            sum(entry.negative for entry in analysis.green_at_sites), "seem to be green before they were accepted"
        ),
        cards(
            card(
                "From accept to green",
                None,
                in_both(lambda width: dots(rows, width)),
                _PERCENTILE_KEY,
                green_table(analysis),
            ),
            card(
                "Accepted in no primary component",
                f"{show_count(waited)} messages waited." if waited else "No message waited.",
                minority_table(analysis.minorities),
            ),
            _colours(story) if story and story.colours else None,
        ),
    )


def _colours(story: Story) -> Markup:
    filled = _filled(story)
    waiting = [
        Area("yellow", [float(point[1]) for point in filled], "yellow"),
        Area("red", [float(point[0]) for point in filled], "red"),
    ]
    green = [Area("green", [float(point[2]) for point in filled], "green")]
    moments = [index * story.bucket for index in range(len(filled))]

    def draw(layers: Sequence[Area], unit: str) -> Markup:
        return in_both(
            lambda width: areas(
                moments,
                layers,
                width,
                length=story.length,
                bucket=story.bucket,
                unit=unit,
                whole=True,
                marks=lambda x, top, bottom: change_marks(story.changes, story.faults, x, top, bottom),
            )
        )

    return join(
        card(
            "Waiting: red and yellow",
            f"At the end of each {show_ns(story.bucket)}, summed over the sites, in {story.run}.",
            draw(waiting, "messages"),
            legend([(_swatch("red"), "red"), (_swatch("yellow"), "yellow"), (_dashes(), "configuration change")]),
        ),
        card("Ordered: green", "The same.", draw(green, "messages"), legend([(_swatch("green"), "green")])),
    )


def _filled(story: Story) -> list[tuple[int, int, int]]:
    """The colours at the end of every bucket, also of those in which none changed."""
    at = {point.at // story.bucket - 1: (point.red, point.yellow, point.green) for point in story.colours}
    points, now = [], (0, 0, 0)
    for bucket in range(max(at) + 1):
        now = at.get(bucket, now)
        points.append(now)
    return points


def _runs(analysis: Analysis) -> Section:
    return Section(
        "runs",
        "Runs",
        "Deliveries a second, in buckets from a run's first delivery to its last. The variation is the standard"
        " deviation over them as a share of their mean.",
        cards(card("Each run", None, run_table(analysis.runs), whole=True)),
    )


def _spacetime(moments: Sequence[tuple[str, Moment]]) -> Section:
    return Section(
        "spacetime",
        "Space and time",
        "A line for each site, time downwards: quiet stretches are shortened. Point at a message to see its way.",
        cards(
            *(card(said, None, stage(moment, number), whole=True) for number, (said, moment) in enumerate(moments))
        ),
    )


def _index(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _nothing(text: str) -> Markup:
    return tag("p", badge(text, "idle"))


def _folded(name: str, content: Markup) -> Markup:
    return tag("details", tag("summary", name), content)


def _swatch(tint: str) -> Markup:
    return tag(
        "svg", tag("rect", width=18, height=10, y=1, rx=3, fill="var(--tint)"), viewBox="0 0 26 12", class_=tint
    )


def _dashes() -> Markup:
    return Markup('<svg viewBox="0 0 26 12"><path d="M9 -1v14" stroke="currentColor" stroke-dasharray="2 3"/></svg>')
