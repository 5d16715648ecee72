"""The space-time diagram: a line for each process, configurations as bands, messages as arrows, time downwards."""

from itertools import pairwise

from msgspec import UNSET

from reconvene.report.figures import show_count, show_time
from reconvene.report.markup import Markup, join, tag
from reconvene.report.moment import CAUSES, Moment, Placed
from reconvene.report.spacetime_bands import Band, bands_of, shades_of
from reconvene.report.spacetime_key import draw_key
from reconvene.report.spacetime_layout import Key, Layout, cause_of, lay_out
from reconvene.report.styles import DIAGRAM_STYLE
from reconvene.report.words import describe, wrap

__all__ = ["diagram", "diagram_file"]

_TOP = 58.0
"""Room for the names."""
_LEFT = 92.0
"""Room for the clock."""
_HALF = 9.0
"""Half of a band's width."""
_GUTTER = 292.0
"""Room for what is said of the violation."""
_LINE = 42
"""Characters of it in a line."""
_LABELLED = 36
"""With more messages than that, only those at issue have their ids written beside them."""


def diagram(moment: Moment, number: int = 0) -> Markup:
    """As an inline SVG. `number` tells the diagrams of one page apart."""
    return _Diagram(moment, number).draw()


def diagram_file(moment: Moment) -> str:
    """As an SVG file of its own."""
    drawing = _Diagram(moment, 0).draw(style=DIAGRAM_STYLE)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing}\n'


class _Diagram:
    def __init__(self, moment: Moment, number: int) -> None:
        self.moment = moment
        self.hatch = f"hatch-{number}"
        self.layout: Layout = lay_out(moment)
        self.causes = cause_of(moment)
        self.bands = bands_of(moment, self.layout)
        self.shades = shades_of(self.bands)
        self.events = {(placed.row.node, placed.place): placed for placed in moment.events}
        count = len(moment.nodes)
        self.apart = max(64.0, min(150.0, 640.0 / max(count, 1)))
        self.columns = {node: _LEFT + 40 + self.apart * index for index, node in enumerate(moment.nodes)}
        self.right = _LEFT + 40 + self.apart * (count - 1) + max(118.0, self.apart * 0.7)
        said = any(mark.detail for mark in moment.marks)
        self.width = self.right + (_GUTTER if said else 0.0)
        said_lines = sum(len(wrap(mark.detail, _LINE)) + 3 for mark in moment.marks if mark.detail)
        self.foot = max(_TOP + self.layout.height + 26, 44 + 15.0 * said_lines)
        self.messages: dict[str, int] = {}
        for placed in moment.events:
            if placed.row.msg:
                self.messages.setdefault(placed.row.msg, len(self.messages))
        self.at_issue = set(moment.at_issue)

    def y(self, key: Key) -> float:
        return _TOP + self.layout.places[key]

    def draw(self, style: str | None = None) -> Markup:
        key, key_height = draw_key(self.moment, self.bands, self.width, self.foot + 14, self.hatch)
        height = self.foot + 14 + key_height
        return tag(
            "svg",
            tag("title", f"Space-time diagram of {self.moment.run}"),
            tag("style", Markup(style)) if style else None,
            self._hatching(),
            tag("rect", class_="paper", width=self.width, height=height),
            self._grid(),
            join(*map(self._band, self.bands)),
            join(*map(self._band_label, self.bands)),
            tag("g", *(self._arrow(effect, cause) for effect, cause in self.causes.items()), class_="arrows"),
            tag("g", *(self._event(placed) for placed in self.moment.events), class_="events"),
            self._marks(),
            key,
            self._names(),
            xmlns="http://www.w3.org/2000/svg",
            class_="spacetime",
            viewBox=f"0 0 {self.width:.0f} {height:.0f}",
            width=round(self.width),
            height=round(height),
            role="img",
        )

    def _hatching(self) -> Markup:
        stripe = tag("rect", width=3, height=7, class_="stripe")
        pattern = tag(
            "pattern",
            stripe,
            id=self.hatch,
            width=7,
            height=7,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        )
        return tag("defs", pattern)

    def _grid(self) -> Markup:
        ticks = self.layout.ticks
        steps = [after[1] - before[1] for before, after in pairwise(ticks)]
        step = max(1, min((step for step in steps if step > 0), default=10**6))
        lines = []
        for down, clock in ticks:
            y = _TOP + down
            lines.append(tag("line", x1=_LEFT - 6, x2=self.right, y1=y, y2=y, class_="grid"))
            text = show_time(clock - self.moment.start, step)
            lines.append(tag("text", text, x=_LEFT - 14, y=y + 3.5, class_="clock"))
        return tag("g", *lines)

    def _names(self) -> Markup:
        """The names of the processes, which a script keeps in view."""
        labels = [tag("text", node, x=x, y=26, class_="name") for node, x in self.columns.items()]
        title = tag("text", "time ↓", x=_LEFT - 14, y=26, class_="clock")
        return tag(
            "g",
            tag("rect", width=self.width, height=38, class_="paper header"),
            tag("line", x1=0, x2=self.width, y1=38, y2=38, class_="rule"),
            title,
            *labels,
            class_="names",
        )

    def _band(self, band: Band) -> Markup:
        x = self.columns[band.node]
        top, bottom = self._ends(band)
        title = tag("title", band.title)
        if band.kind == "down":
            return tag("line", title, x1=x, x2=x, y1=top, y2=bottom, class_="down")
        box = {"x": x - _HALF, "y": top, "width": 2 * _HALF, "height": max(bottom - top, 2.0), "rx": 4}
        shade = f"band shade-{self.shades[band.root]}"
        if band.kind == "transitional":
            hatched = tag("rect", **box, fill=f"url(#{self.hatch})")
            return tag("g", title, tag("rect", **box, class_=shade), hatched, class_="transitional")
        return tag("rect", title, **box, class_=shade)

    def _band_label(self, band: Band) -> Markup | None:
        if band.kind == "down" or not band.labelled:
            return None
        x, (top, _) = self.columns[band.node] + _HALF + 4, self._ends(band)
        top = max(top, 48.0)
        if band.kind == "transitional":
            return tag("text", band.conf, x=x, y=top + 7, class_="conf transitional")
        size = tag("tspan", f" {band.size}", class_="members")
        return tag("text", band.conf, size, x=x, y=top + 8, class_="conf")

    def _ends(self, band: Band) -> tuple[float, float]:
        top = 44.0 if band.top is None else _TOP + band.top - 2
        bottom = self.foot if band.bottom is None else _TOP + band.bottom - 2
        return top, bottom

    def _arrow(self, effect: Key, cause: Key) -> Markup:
        placed = self.events[effect]
        row = placed.row
        x1, y1, x2, y2 = self.columns[cause[0]], self.y(cause), self.columns[effect[0]], self.y(effect)
        if x1 == x2:
            bow = x1 - _HALF - 9
            path = f"M{x1 - 3:.1f} {y1:.1f}C{bow:.1f} {y1 + 2:.1f} {bow:.1f} {y2 - 2:.1f} {x1 - 4:.1f} {y2:.1f}"
        else:
            path = _straight(x1, y1, x2, y2)
        shade = row.service if row.service is not UNSET else "append"
        heavy = " at-issue" if row.msg in self.at_issue else ""
        return tag(
            "path", tag("title", describe(row)), d=path, class_=f"arrow {shade}{heavy}", data_m=self._number(placed)
        )

    def _number(self, placed: Placed) -> int | None:
        return self.messages.get(placed.row.msg) if placed.row.msg else None

    def _event(self, placed: Placed) -> Markup | None:
        row = placed.row
        x, y = self.columns.get(row.node), self.y((row.node, placed.place))
        if x is None:
            return None
        title = tag("title", describe(row))
        begins = CAUSES[self.moment.layer][0]
        number = self._number(placed)
        shade = row.service if row.service is not UNSET else "append"
        match row.kind:
            case "conf":
                if row.conf_kind == "hidden":
                    return tag("circle", title, cx=x, cy=y, r=5.5, class_="hidden-view")
                if row.inc > 1 and row.conf_kind == "regular" and self._begins(placed):
                    return tag("path", title, d=f"M{x} {y - 6}l5.5 9.5h-11z", class_="restart")
                return None
            case "fail":
                cross = f"M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12"
                return tag("path", title, d=cross, class_="fail")
            case "stop" if row.layer == "evs":
                return tag("rect", title, x=x - 5, y=y - 5, width=10, height=10, class_="stop")
            case "stop":
                return tag("rect", title, x=x - 4, y=y - 1.5, width=8, height=3, class_="stop")
            case "view":
                return tag("line", title, x1=x - 12, x2=x + 12, y1=y, y2=y, class_="view")
            case "log" | "yellow" | "red" | "green":
                shade = "red" if row.kind == "log" else row.kind
                square = tag(
                    "rect", title, x=x - 4, y=y - 4, width=8, height=8, class_=f"colour {shade}", data_m=number
                )
                if row.kind == "green" and row.pos is not UNSET:
                    return join(square, tag("text", f"{row.pos}", x=x + _HALF + 3, y=y + 3, class_="position"))
                return square
            case "attempt" | "commit" | "establish" | "adopt" | "snapshot":
                diamond = f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"
                return tag("path", title, d=diamond, class_=f"phase {row.kind}")
            case kind if kind in begins:
                dot = tag("circle", title, cx=x, cy=y, r=4.5, class_=f"send {shade}", data_m=number)
                if row.msg and (len(self.messages) <= _LABELLED or row.msg in self.at_issue):
                    return join(dot, tag("text", row.msg, x=x - _HALF - 4, y=y + 3, class_="message"))
                return dot
        stub = None
        if (row.node, placed.place) not in self.causes and row.sender:
            # Its sending is not in the picture: a short dashed line comes from that side.
            home = self.columns.get(row.sender.partition(":")[0], x)
            side = -1 if home <= x else 1
            stub = tag(
                "path",
                title,
                d=f"M{x + side * 24:.1f} {y - 9:.1f}L{x + side * 4:.1f} {y - 1:.1f}",
                class_=f"stub {shade}",
                data_m=number,
            )
        return join(stub, tag("circle", title, cx=x, cy=y, r=3.2, class_=f"deliver {shade}", data_m=number))

    def _begins(self, placed: Placed) -> bool:
        """Is it the first configuration of its incarnation?"""
        return isinstance(placed.row.members, list) and placed.row.members == [placed.row.node]

    def _marks(self) -> Markup:
        where = {(placed.row.node, placed.row.n): (placed.row.node, placed.place) for placed in self.moment.events}
        drawn = []
        free = 44.0
        for mark in self.moment.marks:
            key = where.get((mark.node, mark.n))
            if key is None:
                continue
            x, y = self.columns[key[0]], self.y(key)
            if not mark.detail:
                drawn.append(tag("circle", tag("title", f"{mark.node}#{mark.n}"), cx=x, cy=y, r=9, class_="named"))
                continue
            lines = wrap(mark.detail, _LINE)
            height = 15.0 * len(lines) + 34
            top = max(free, min(y - 22, self.foot - height))
            free = top + height + 10
            left = self.right + 18
            middle = top + 20
            leader = f"M{x + 12:.1f} {y:.1f}L{self.right + 2:.1f} {y:.1f}L{left:.1f} {middle:.1f}"
            text = [tag("tspan", line, x=left + 14, y=top + 40 + 15 * index) for index, line in enumerate(lines)]
            drawn += [
                tag("path", d=leader, class_="leader"),
                tag("circle", cx=x, cy=y, r=11, class_="halo"),
                tag("circle", tag("title", mark.detail), cx=x, cy=y, r=11, class_="offence"),
                tag("rect", x=left, y=top, width=_GUTTER - 30, height=height, rx=7, class_="callout"),
                tag("rect", x=left, y=top + 6, width=3.5, height=height - 12, rx=1.7, class_="callout-edge"),
                tag("text", f"{mark.node} # {mark.n}", x=left + 14, y=top + 20, class_="callout-title"),
                tag("text", *text, class_="callout-text"),
            ]
        if self.moment.left_out:
            note = f"{show_count(self.moment.left_out)} more events of this stretch are not shown"
            drawn.append(tag("text", note, x=_LEFT - 6, y=self.foot + 6, class_="note"))
        return tag("g", *drawn, class_="marks")


def _straight(x1: float, y1: float, x2: float, y2: float) -> str:
    """From one band's edge to the other's, with an open head."""
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    end_x, end_y = x2 - dx * 4.5, y2 - dy * 4.5
    back_x, back_y = end_x - dx * 7, end_y - dy * 7
    left, right = (back_x - dy * 3.4, back_y + dx * 3.4), (back_x + dy * 3.4, back_y - dx * 3.4)
    return (
        f"M{x1:.1f} {y1:.1f}L{end_x:.1f} {end_y:.1f}"
        f"M{left[0]:.1f} {left[1]:.1f}L{end_x:.1f} {end_y:.1f}L{right[0]:.1f} {right[1]:.1f}"
    )
