"""The frame of every page: what it is about at the top, its parts as cards, everything in one file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconvene.errors import Malformed
from reconvene.report.markup import Child, Markup, join, tag
from reconvene.report.moment import Moment
from reconvene.report.spacetime import diagram
from reconvene.report.styles import PAGE_SCRIPT, PAGE_STYLE

__all__ = [
    "Column",
    "Section",
    "badge",
    "card",
    "cards",
    "dotted",
    "draw_page",
    "legend",
    "stage",
    "table",
    "tiles",
    "write_page",
]

_LOGO = Markup(
    '<svg viewBox="0 0 24 24" fill="none" stroke="var(--accent)" stroke-width="2" stroke-linecap="round"'
    ' aria-hidden="true"><path d="M4 3v5c0 4 8 4 8 8v5M20 3v5c0 4-8 4-8 8"/><circle cx="4" cy="3" r="1.4"'
    ' fill="var(--accent)"/><circle cx="20" cy="3" r="1.4" fill="var(--accent)"/><circle cx="12" cy="21" r="1.4"'
    ' fill="var(--accent)"/></svg>'
)


@dataclass(frozen=True, slots=True)
class Section:
    anchor: str
    title: str
    lead: str
    content: Markup


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: numbers stand to the right."""

    name: str
    number: bool = True
    wide: bool = False


def draw_page(title: str, subtitle: Child, summary: Markup, sections: Sequence[Section]) -> str:
    """A whole page."""
    links = [tag("a", section.title, href=f"#{section.anchor}") for section in sections]
    parts = [
        tag(
            "section",
            tag("h2", section.title),
            tag("p", section.lead, class_="lead") if section.lead else None,
            section.content,
            id=section.anchor,
        )
        for section in sections
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Reconvene"),
        tag("style", Markup(PAGE_STYLE)),
    )
    body = tag(
        "body",
        tag(
            "div",
            tag("div", tag("div", _LOGO, "Reconvene", class_="brand"), tag("h1", title), tag("p", subtitle)),
            class_="masthead",
        ),
        tag("nav", tag("div", *links)) if len(links) > 1 else None,
        tag("main", summary, *parts, tag("footer", "Written by Reconvene. This file needs no network.")),
        tag("script", Markup(PAGE_SCRIPT)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def write_page(path: Path, page: str) -> None:
    """Raises Malformed, in one line, where the file can't be written."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Malformed(f"{path}: can't be written ({error.strerror or error})") from None


def tiles(entries: Sequence[tuple[str, str]]) -> Markup:
    """Figures at a glance: the number, and what it counts."""
    return tag(
        "div",
        *(tag("div", tag("b", value), tag("span", name), class_="tile") for value, name in entries),
        class_="tiles",
    )


def card(title: str, note: Child, *content: Markup | None, whole: bool = False) -> Markup:
    heading = tag("header", tag("h3", title), tag("p", note) if note else None)
    return tag("div", heading, *content, class_="card whole" if whole else "card")


def cards(*entries: Markup | None) -> Markup:
    return tag("div", *entries, class_="cards")


def badge(text: str, kind: str) -> Markup:
    """`kind`: good, bad or idle."""
    return tag("span", text, class_=f"badge {kind}")


def legend(entries: Sequence[tuple[Markup, str]]) -> Markup:
    return tag("ul", *(tag("li", sign, name) for sign, name in entries), class_="legend")


def table(columns: Sequence[Column], rows: Sequence[Sequence[Child]], classes: Sequence[str] = ()) -> Markup:
    """`classes`: one a row, where rows differ."""
    head = tag("tr", *(tag("th", column.name, class_="number" if column.number else None) for column in columns))
    body = [
        tag(
            "tr",
            *(tag("td", cell, class_=_class(column)) for column, cell in zip(columns, row, strict=True)),
            class_=(classes[place] or None) if classes else None,
        )
        for place, row in enumerate(rows)
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="scroll")


def stage(moment: Moment, number: int) -> Markup:
    """A space-time diagram that can be moved and enlarged."""
    buttons = [
        tag("button", sign, type="button", data_step=step, aria_label=name)
        for sign, step, name in (("−", "out", "smaller"), ("⤢", "fit", "fit the width"), ("+", "in", "larger"))
    ]
    return tag(
        "div",
        tag("div", diagram(moment, number), class_="canvas", tabindex=0),
        tag("div", *buttons, class_="tools"),
        class_="stage",
    )


def _class(column: Column) -> str | None:
    if column.number:
        return "number"
    return "wide-text" if column.wide else "name"


def dotted(name: str, tint: str) -> Markup:
    """A name behind a dot of its colour."""
    return join(tag("span", class_=f"dot {tint}"), name)
