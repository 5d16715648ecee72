"""The sites' way through configurations: a row for each site, time to the right, configurations as bands."""

from collections.abc import Sequence

from reconvene.report.figures import show_ns
from reconvene.report.markup import Markup, tag
from reconvene.report.measures import Band, Change, Fault, Story
from reconvene.report.plots import canvas, fitted, ticks_below, time_axis
from reconvene.report.scales import Scale
from reconvene.report.spacetime_bands import SHADES

__all__ = ["change_marks", "draw_timeline"]

_ROW = 30.0
_HIGH = 20.0


def draw_timeline(story: Story, width: float) -> Markup:
    left = min(14 + 7 * max((len(node) for node in story.nodes), default=1), width * 0.3)
    right, top = width - 14, 6.0
    bottom = top + _ROW * len(story.nodes)
    x, show = time_axis(story.length, left, right, 10 if width > 700 else 4)
    rows = {node: top + _ROW * place + (_ROW - _HIGH) / 2 for place, node in enumerate(story.nodes)}
    regular = sorted((band for band in story.bands if band.kind == "regular"), key=lambda band: band.began)
    shades = {conf: place % SHADES for place, conf in enumerate(dict.fromkeys(band.conf for band in regular))}
    axis = ticks_below(x, top, bottom, show, width)
    names = [
        tag("text", fitted(node, left - 10), x=left - 10, y=y + _HIGH / 2 + 4, text_anchor="end", class_="label")
        for node, y in rows.items()
    ]
    bands = [_band(band, rows[band.site], x, shades) for band in story.bands if band.site in rows]
    faults = [_fault(fault, rows[fault.site] + _HIGH / 2, x) for fault in story.faults if fault.site in rows]
    return canvas(width, bottom + 26, axis, *names, *bands, *faults, label="configurations of each site")


def change_marks(
    changes: Sequence[Change], faults: Sequence[Fault], x: Scale, top: float, bottom: float
) -> list[Markup]:
    """On a plot over time: a line for each configuration change, a triangle for each fault."""
    drawn = [
        tag(
            "line",
            tag("title", f"configuration {change.conf} of {len(change.members)}, after {show_ns(change.took)}"),
            x1=x.place(change.began + change.took),
            x2=x.place(change.began + change.took),
            y1=top - 8,
            y2=bottom,
            class_="change",
        )
        for change in changes
    ]
    for fault in faults:
        if fault.kind != "restart":
            at = x.place(fault.at)
            title = tag("title", f"{fault.site}: {fault.kind} at {show_ns(fault.at)}")
            drawn.append(tag("path", title, d=f"M{at:.1f} {top - 2:.1f}l4.5 -9h-9z", class_="fault"))
    return drawn


def _band(band: Band, y: float, x: Scale, shades: dict[str, int]) -> Markup | None:
    start, end = x.place(band.began), x.place(band.ended)
    told = f"{band.site}: {band.kind} {band.conf}".rstrip()
    members = f"\nmembers {', '.join(band.members)}" if band.members else ""
    title = tag("title", f"{told}\nfrom {show_ns(band.began)} to {show_ns(band.ended)}{members}")
    if band.kind == "down":
        middle = y + _HIGH / 2
        return tag("line", title, x1=start, x2=end, y1=middle, y2=middle, class_="down")
    if band.kind != "regular":
        # A transitional one mostly ends where it begins; where it lasts, it is a stripe.
        return tag("rect", title, x=start, y=y, width=max(end - start, 0.0), height=_HIGH, class_="stripe")
    drawn = [
        title,
        tag(
            "rect",
            x=start,
            y=y,
            width=max(end - start, 1.0),
            height=_HIGH,
            rx=3,
            class_=f"band shade-{shades[band.conf]}",
        ),
    ]
    text = f"{band.conf}"
    if end - start > 6.2 * len(text) + 10:
        drawn.append(tag("text", text, x=start + 6, y=y + _HIGH / 2 + 3.5, class_="conf"))
    return tag("g", *drawn)


def _fault(fault: Fault, y: float, x: Scale) -> Markup:
    at = x.place(fault.at)
    title = tag("title", f"{fault.site}: {fault.kind} of incarnation {fault.inc} at {show_ns(fault.at)}")
    if fault.kind == "fail":
        return tag("path", title, d=f"M{at - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10", class_="fail")
    if fault.kind == "stop":
        return tag("rect", title, x=at - 4.5, y=y - 4.5, width=9, height=9, class_="stop")
    return tag("path", title, d=f"M{at:.1f} {y - 6:.1f}l5.5 9.5h-11z", class_="restart")
