"""The report of `reconvene verify`: every check with its verdict, and each violation with what happened around it."""

from collections.abc import Sequence
from pathlib import Path

from reconvene.report.figures import show_count
from reconvene.report.markup import Child, Markup, join, tag
from reconvene.report.page import Column, Section, badge, card, cards, draw_page, stage, table, tiles, write_page
from reconvene.report.witness_diagrams import WitnessDiagram
from reconvene.verify.report import CheckResult, Report, Witness

__all__ = ["verify_page", "write_verify_report"]

_FAMILIES = {
    "evs": "Extended virtual synchrony",
    "transis": "The group service",
    "to": "The total order",
    "corel": "The log",
    "live": "Liveness",
    "vs": "Virtual synchrony",
    "isis": "Process groups",
}


def write_verify_report(path: Path, report: Report, diagrams: Sequence[WitnessDiagram] = ()) -> None:
    """Writes the page. Raises Malformed, in one line, where the file can't be written."""
    write_page(path, verify_page(report, diagrams))


def verify_page(report: Report, diagrams: Sequence[WitnessDiagram] = ()) -> str:
    broken = [check for check in report.checks if check.violations]
    runs = "1 run" if report.runs == 1 else f"{show_count(report.runs)} runs"
    title = "Every check holds" if report.ok else f"{_count(len(broken), 'check')} violated"
    sections = []
    if broken:
        sections.append(
            Section(
                "violations",
                "Violations",
                "Each with its lowest witnesses, by run, node and event number. The event at which a violation shows"
                " is ringed in red, those that its witness names in amber.",
                join(*(_violation(check, diagrams) for check in broken)),
            )
        )
    sections.append(Section("checks", "All checks", "", _checks(report)))
    subtitle = f"{runs}, {show_count(report.events)} events, judged by the {report.engine} engine"
    return draw_page(title, subtitle, _summary(report, len(broken)), sections)


def _summary(report: Report, broken: int) -> Markup:
    idle = sum(check.cases == 0 for check in report.checks)
    said = badge("violated", "bad") if broken else badge("holds", "good")
    return join(
        tiles(
            [
                (show_count(report.runs), "run" if report.runs == 1 else "runs"),
                (show_count(report.events), "events"),
                (show_count(sum(check.cases for check in report.checks)), "cases"),
                (show_count(sum(check.violations for check in report.checks)), "violations"),
                (f"{len(report.checks) - idle} of {len(report.checks)}", "checks had cases"),
            ]
        ),
        tag(
            "p",
            said,
            " ",
            "Every check that had cases holds." if not broken else f"{_count(broken, 'check')} violated.",
        ),
    )


def _violation(check: CheckResult, diagrams: Sequence[WitnessDiagram]) -> Markup:
    drawn = {(entry.witness, entry.check): (number, entry) for number, entry in enumerate(diagrams)}
    parts = []
    for witness in check.witnesses:
        found = drawn.get((witness, check.id))
        picture = stage(found[1].moment, found[0]) if found else None
        parts.append(_witness(witness, picture))
    more = check.violations - len(check.witnesses)
    note = f"{show_count(check.violations)} of {show_count(check.cases)} cases" + (
        f"; the first {len(check.witnesses)} are below" if more > 0 else ""
    )
    heading = join(check.id, " ", badge(f"{show_count(check.violations)} violated", "bad"))
    return cards(
        tag("div", tag("header", tag("h3", heading), tag("p", note)), *parts, class_="card whole", id=check.id)
    )


def _witness(witness: Witness, picture: Markup | None) -> Markup:
    where = tag("div", f"run {witness.run} · node {witness.node} · event {witness.n}", class_="where")
    return tag("div", where, tag("p", witness.detail), picture, class_="witness")


def _checks(report: Report) -> Markup:
    families: dict[str, list[CheckResult]] = {}
    for check in report.checks:
        families.setdefault(check.id.partition(".")[0], []).append(check)
    return cards(*(_family(name, checks) for name, checks in families.items()))


def _family(name: str, checks: Sequence[CheckResult]) -> Markup:
    columns = [Column("check", number=False), Column("cases"), Column("violated"), Column("verdict", number=False)]
    rows: list[list[Child]] = []
    classes = []
    for check in checks:
        kind, word = (
            ("bad", "violated") if check.violations else ("good", "holds") if check.cases else ("idle", "no cases")
        )
        linked = tag("a", check.id, href=f"#{check.id}") if check.violations else check.id
        rows.append([linked, show_count(check.cases), show_count(check.violations), badge(word, kind)])
        classes.append(kind if kind != "good" else "")
    return card(_FAMILIES.get(name, name), None, table(columns, rows, classes))


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
