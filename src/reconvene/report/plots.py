"""Plots as inline SVG: each drawn twice, for a wide page and for a phone, so that its letters are never small.

Given: rows of the tables that stand beside it. Promised: every value in a plot has a tooltip that says it exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reconvene.report.figures import show_count, show_ns, show_number, show_percent, show_power
from reconvene.report.markup import Markup, join, tag
from reconvene.report.measures import CURVE, Spread
from reconvene.report.scales import Scale, linear, logarithmic, nines, unit_of

__all__ = [
    "NARROW",
    "WHOLE",
    "WIDE",
    "Area",
    "Bar",
    "Dots",
    "Line",
    "areas",
    "bars",
    "curves",
    "dots",
    "fitted",
    "in_both",
    "ticks_below",
    "time_axis",
]

WIDE, NARROW = 540.0, 330.0
WHOLE = 1120.0
_ROW = 26.0
_LETTER = 6.6
"""About as wide as a letter of a plot is."""


def in_both(draw: Callable[[float], Markup], wide: float = WIDE) -> Markup:
    """A plot in both widths; the page shows the one that fits."""
    return join(
        Markup(draw(wide).replace('class="plot"', 'class="plot wide"', 1)),
        Markup(draw(NARROW).replace('class="plot"', 'class="plot narrow"', 1)),
    )


def canvas(width: float, height: float, *content: Markup | None, label: str) -> Markup:
    return tag("svg", *content, class_="plot", viewBox=f"0 0 {width:.0f} {height:.0f}", role="img", aria_label=label)


@dataclass(frozen=True, slots=True)
class Dots:
    """A row of a percentile plot."""

    name: str
    spread: Spread
    tint: str


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a distribution."""

    name: str
    curve: Sequence[float]
    tint: str


@dataclass(frozen=True, slots=True)
class Area:
    """One layer of a stack over time: values at the moments of all layers."""

    name: str
    values: Sequence[float]
    tint: str


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    share: float
    text: str
    title: str


def dots(rows: Sequence[Dots], width: float) -> Markup:
    """p50, p99 and p99.9 of each row, on one logarithmic axis."""
    rows = [row for row in rows if row.spread.count]
    left = 12 + _LETTER * max((len(row.name) for row in rows), default=1)
    left = min(left, width * 0.42)
    right, top = width - 16, 6.0
    bottom = top + _ROW * len(rows)
    values = [value for row in rows for value in (row.spread.p50, row.spread.p99, row.spread.p999) if value]
    low = max(1.0, min((value for value in values if value > 0), default=1.0))
    x = logarithmic(low / 1.3, max(values, default=1.0) * 1.25, left, right, 6 if width > 400 else 4)
    drawn = [ticks_below(x, top, bottom, show_power, width)]
    for place, row in enumerate(rows):
        y = top + _ROW * (place + 0.5)
        p50, p99, p999 = (value or 0.0 for value in (row.spread.p50, row.spread.p99, row.spread.p999))
        title = (
            f"{row.name}: p50 {show_ns(p50)}, p99 {show_ns(p99)}, p99.9 {show_ns(p999)},"
            f" longest {show_ns(row.spread.max)}; {show_count(row.spread.count)} in all"
        )
        a, b, c = x.place(p50), x.place(p99), x.place(p999)
        drawn.append(
            tag(
                "g",
                tag("title", title),
                tag("rect", x=0, y=y - _ROW / 2, width=width, height=_ROW, fill="transparent"),
                tag("text", fitted(row.name, left - 10), x=left - 10, y=y + 4, text_anchor="end", class_="label"),
                tag("line", x1=a, x2=c, y1=y, y2=y, class_="range"),
                tag("line", x1=c, x2=c, y1=y - 6, y2=y + 6, class_="p999"),
                tag("circle", cx=b, cy=y, r=4, class_="p99"),
                tag("circle", cx=a, cy=y, r=4.6, class_="p50"),
                class_=row.tint,
            )
        )
    return canvas(width, bottom + 26, *drawn, label="percentiles")


def curves(lines: Sequence[Line], width: float) -> Markup:
    """The share of deliveries that took no longer, stretched towards the slowest."""
    left, right, top, bottom = 58.0, width - 14, 12.0, 236.0
    positive = [value for line in lines for value in line.curve if value > 0]
    low = min(positive, default=1.0)
    x = logarithmic(low / 1.2, max(positive, default=1.0) * 1.1, left, right, 6 if width > 400 else 4)
    y = nines(0.9999, bottom, top)
    drawn = [ticks_below(x, top, bottom, show_power, width)]
    for share in y.ticks:
        drawn.append(tag("line", x1=left, x2=right, y1=y.place(share), y2=y.place(share), class_="grid"))
        shown = f"{share * 100:g} %"
        drawn.append(tag("text", shown, x=left - 8, y=y.place(share) + 4, text_anchor="end"))
    for line in lines:
        points = [
            f"{x.place(value):.1f} {y.place(share):.1f}"
            for share, value in zip(CURVE, line.curve, strict=False)
            if share <= 0.9999
        ]
        drawn.append(tag("path", tag("title", line.name), d="M" + "L".join(points), class_=f"curve {line.tint}"))
    return canvas(width, bottom + 26, *drawn, label="distribution")


def bars(rows: Sequence[Bar], equal: float, width: float) -> Markup:
    """Shares of one whole, and where all would be equal."""
    left = min(14 + _LETTER * max((len(row.name) for row in rows), default=1), width * 0.36)
    right, top = width - 92, 6.0
    bottom = top + _ROW * len(rows)
    x = linear(0, max([equal, *(row.share for row in rows)]) * 1.02, left, right, 4)
    drawn = [ticks_below(x, top, bottom, lambda share: f"{share * 100:g} %", width)]
    for place, row in enumerate(rows):
        y = top + _ROW * place
        drawn.append(
            tag(
                "g",
                tag("title", row.title),
                tag("text", fitted(row.name, left - 10), x=left - 10, y=y + 17, text_anchor="end", class_="label"),
                tag("rect", x=left, y=y + 5, width=max(x.place(row.share) - left, 1), height=16, rx=3, class_="bar"),
                tag("text", row.text, x=width - 2, y=y + 17, text_anchor="end"),
            )
        )
    mark = tag("title", f"equal shares: {show_percent(equal)}")
    drawn.append(tag("line", mark, x1=x.place(equal), x2=x.place(equal), y1=top, y2=bottom, class_="equal"))
    return canvas(width, bottom + 26, *drawn, label="shares")


def areas(
    moments: Sequence[int],
    layers: Sequence[Area],
    width: float,
    *,
    length: int,
    bucket: int,
    unit: str,
    whole: bool = False,
    marks: Callable[[Scale, float, float], list[Markup]] | None = None,
) -> Markup:
    """Layers on each other, in steps: each value holds for the bucket that begins at its moment. `whole`: values are
    counted, and half of one is none."""
    left, right, top, bottom = 52.0, width - 14, 20.0, 226.0
    x, show = time_axis(length, left, right, 8 if width > 700 else 4)
    sums = [sum(layer.values[place] for layer in layers) for place in range(len(moments))]
    y = linear(0, max(sums, default=1) * 1.06 or 1, bottom, top, 4, whole=whole)
    drawn = [ticks_below(x, top, bottom, show, width)]
    for tick in y.ticks:
        drawn.append(tag("line", x1=left, x2=right, y1=y.place(tick), y2=y.place(tick), class_="grid"))
        drawn.append(tag("text", show_number(tick), x=left - 8, y=y.place(tick) + 4, text_anchor="end"))
    base = [0.0] * len(moments)
    for layer in layers:
        upper = [low + value for low, value in zip(base, layer.values, strict=True)]
        drawn.append(_steps(moments, base, upper, bucket, x, y, layer))
        base = upper
    for place, moment in enumerate(moments):
        parts = ", ".join(f"{layer.name} {show_number(layer.values[place])}" for layer in layers)
        title = tag("title", f"from {show_ns(moment)}: {show_number(sums[place])} {unit} ({parts})")
        start, end = x.place(moment), min(x.place(moment + bucket), right)
        drawn.append(
            tag("rect", title, x=start, y=top, width=max(end - start, 1), height=bottom - top, fill="transparent")
        )
    drawn += marks(x, top, bottom) if marks else []
    drawn.append(tag("text", unit, x=left - 44, y=11))
    return canvas(width, bottom + 26, *drawn, label=unit)


def _steps(
    moments: Sequence[int],
    base: Sequence[float],
    upper: Sequence[float],
    bucket: int,
    x: Scale,
    y: Scale,
    layer: Area,
) -> Markup:
    """A filled band between two step curves; a gap between buckets is 0."""
    forth: list[str] = []
    back: list[str] = []
    ends = [*(after for _, after in pairwise(moments)), moments[-1] + bucket if moments else 0]
    for moment, end, low, high in zip(moments, ends, base, upper, strict=True):
        start, stop = x.place(moment), x.place(min(end, moment + bucket))
        forth += [f"{start:.1f} {y.place(high):.1f}", f"{stop:.1f} {y.place(high):.1f}"]
        back += [f"{start:.1f} {y.place(low):.1f}", f"{stop:.1f} {y.place(low):.1f}"]
    path = "M" + "L".join([*forth, *reversed(back)]) + "Z" if forth else ""
    return tag("path", d=path, class_=f"area {layer.tint}")


def ticks_below(x: Scale, top: float, bottom: float, show: Callable[[float], str], width: float) -> Markup:
    """An axis with its labels, in a plot that is `width` wide: one at an edge is moved in."""
    drawn = [tag("line", x1=x.place(x.low), x2=x.place(x.high), y1=bottom, y2=bottom, class_="axis")]
    for tick in x.ticks:
        at, text = x.place(tick), show(tick)
        half = _LETTER * len(text) / 2
        middle = min(max(at, half), width - half)
        drawn.append(tag("line", x1=at, x2=at, y1=top, y2=bottom, class_="grid"))
        drawn.append(tag("text", text, x=middle, y=bottom + 17, text_anchor="middle"))
    return tag("g", *drawn)


def time_axis(length: float, start: float, end: float, about: int) -> tuple[Scale, Callable[[float], str]]:
    """From 0 on, and its labels: round numbers, all in one unit."""
    scale, unit = unit_of(length)
    x = linear(0, max(length, 1), start, end, about, unit=scale)
    return x, lambda value: f"{value / scale:g} {unit}"


def fitted(name: str, room: float) -> str:
    """A name that has so much room, shortened in its middle if it must be: names often differ at their ends."""
    letters = max(int(room / _LETTER), 3)
    if len(name) <= letters:
        return name
    return f"{name[: (letters - 1) // 2]}…{name[len(name) - letters // 2 :]}"
