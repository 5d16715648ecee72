"""The key below a space-time diagram: what its signs and colours mean. Only what is in the picture is explained."""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from reconvene.report.markup import Markup, join, tag
from reconvene.report.moment import Moment
from reconvene.report.spacetime_bands import Band

__all__ = ["draw_key"]

_ROW = 20.0


def draw_key(moment: Moment, bands: Sequence[Band], width: float, top: float, hatch: str) -> tuple[Markup, float]:
    """The key, and how high it is."""
    entries = _entries(moment, {band.kind for band in bands}, hatch)
    x, y = 24.0, top + 16
    drawn = []
    for text, sign in entries:
        long = 30 + 6.3 * len(text)
        if x + long > width - 8 and x > 24.0:
            x, y = 24.0, y + _ROW
        drawn.append(tag("g", sign(x + 8, y), tag("text", text, x=x + 22, y=y + 3.5)))
        x += long + 14
    rule = tag("line", x1=0, x2=width, y1=top, y2=top, class_="rule")
    return tag("g", rule, *drawn, class_="key"), y - top + 20


Sign = Callable[[float, float], Markup]


def _entries(moment: Moment, bands: set[str], hatch: str) -> list[tuple[str, Sign]]:
    rows = [placed.row for placed in moment.events]
    kinds = {(row.layer, row.kind) for row in rows}
    entries: list[tuple[str, Sign]] = [("regular configuration", _band(None))]
    if "transitional" in bands:
        entries.append(("transitional", _band(hatch)))
    if "down" in bands:
        entries.append(("down", lambda x, y: tag("line", x1=x, x2=x, y1=y - 7, y2=y + 7, class_="down")))
    shown = {row.service for row in rows if row.service is not UNSET and row.layer == moment.layer}
    entries += [(name, _arrow(name)) for name in ("fifo", "causal", "agreed", "safe") if name in shown]
    if ("corel", "accept") in kinds or ("corel", "log") in kinds:
        entries.append(("accepted, then logged", _arrow("append")))
    if moment.layer == "corel":
        entries += [(name, _square(name)) for name in ("red", "yellow", "green")]
    phases = ("attempt", "commit", "establish", "adopt", "snapshot")
    entries += [(kind, _diamond(kind)) for kind in phases if ("corel", kind) in kinds]
    if ("vs", "view") in kinds:
        entries.append(("view", lambda x, y: tag("line", x1=x - 10, x2=x + 10, y1=y, y2=y, class_="view")))
    if any(row.conf_kind == "hidden" for row in rows):
        entries.append(("hidden view", lambda x, y: tag("circle", cx=x, cy=y, r=5.5, class_="hidden-view")))
    if ("evs", "fail") in kinds:
        entries.append(("crash", lambda x, y: tag("path", d=f"M{x - 5} {y - 5}l10 10m0 -10l-10 10", class_="fail")))
    if ("evs", "stop") in kinds:
        entries.append(("left", lambda x, y: tag("rect", x=x - 5, y=y - 5, width=10, height=10, class_="stop")))
    if any(row.inc > 1 and row.conf_kind == "regular" and row.members == [row.node] for row in rows):
        entries.append(("restart", lambda x, y: tag("path", d=f"M{x} {y - 6}l5.5 9.5h-11z", class_="restart")))
    if any(mark.detail for mark in moment.marks):
        name = "violation" if moment.violation else "the event in question"
        entries.append((name, lambda x, y: tag("circle", cx=x, cy=y, r=7, class_="offence")))
    if any(not mark.detail for mark in moment.marks):
        entries.append(("named by its witness", lambda x, y: tag("circle", cx=x, cy=y, r=7, class_="named")))
    return entries


def _band(hatch: str | None) -> Sign:
    def sign(x: float, y: float) -> Markup:
        box = {"x": x - 9, "y": y - 7, "width": 18, "height": 14, "rx": 4}
        plain = tag("rect", **box, class_="band shade-0")
        return plain if hatch is None else join(plain, tag("rect", **box, fill=f"url(#{hatch})"))

    return sign


def _arrow(name: str) -> Sign:
    def sign(x: float, y: float) -> Markup:
        path = f"M{x - 9} {y}L{x + 10} {y}M{x + 5} {y - 3.5}L{x + 10} {y}L{x + 5} {y + 3.5}"
        return join(
            tag("path", d=path, class_=f"key-arrow {name}"),
            tag("circle", cx=x - 9, cy=y, r=4, class_=f"send {name}"),
        )

    return sign


def _square(name: str) -> Sign:
    return lambda x, y: tag("rect", x=x - 4, y=y - 4, width=8, height=8, class_=f"colour {name}")


def _diamond(kind: str) -> Sign:
    return lambda x, y: tag("path", d=f"M{x} {y - 7}l7 7l-7 7l-7 -7z", class_=f"phase {kind}")
