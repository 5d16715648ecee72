"""The bands of a space-time diagram: which configuration each node was in, from where to where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconvene.report.moment import Moment
from reconvene.report.spacetime_layout import Layout
from reconvene.trace.events import Row

__all__ = ["SHADES", "Band", "bands_of", "shades_of"]

SHADES = 8
"""Colours of configurations; neighbours in time differ."""


@dataclass(frozen=True, slots=True)
class Band:
    node: str
    conf: str
    kind: str
    """regular, transitional, or down."""
    root: str
    """Its regular configuration: it decides the colour."""
    size: str
    """Its members, shortly."""
    title: str
    top: float | None
    """How far down it begins; None: before the picture."""
    bottom: float | None
    """None: after it."""
    labelled: bool = True


def bands_of(moment: Moment, layout: Layout) -> list[Band]:
    """Each node's, in the order of time."""
    bands: list[Band] = []
    for node in moment.nodes:
        current: Row | None = moment.openings.get(node)
        top: float | None = None
        for placed in moment.events:
            row = placed.row
            if row.node != node or row.layer != "evs" or row.conf_kind == "hidden":
                continue
            if row.kind not in ("conf", "fail", "stop"):
                continue
            at = layout.places[row.node, placed.place]
            if current is not None or row.inc > 1 or row.kind != "conf":
                bands.append(_band(node, current, top, at))
            current, top = row, at
        bands.append(_band(node, current, top, None))
    return bands


def shades_of(bands: Iterable[Band]) -> dict[str, int]:
    """A colour for each regular configuration, in the order in which they appear."""
    begun = sorted((band for band in bands if band.root), key=lambda band: (band.top or -1.0, band.conf))
    roots = dict.fromkeys(band.root for band in begun)
    return {root: index % SHADES for index, root in enumerate(roots)}


def _band(node: str, row: Row | None, top: float | None, bottom: float | None) -> Band:
    if row is None or row.kind != "conf":
        what = "not started yet" if row is None else f"down ({row.kind}, incarnation {row.inc})"
        return Band(node, "", "down", "", "", f"{node}: {what}", top, bottom)
    conf, kind = row.conf or "", row.conf_kind or ""
    members = list(row.members or [])
    return Band(
        node,
        conf,
        kind,
        (row.reg or conf) if kind == "transitional" else conf,
        _short(members),
        f"{node}: {kind} configuration {conf}\nmembers {', '.join(members)}",
        top,
        bottom,
        bottom is None or bottom - (top or -20.0) >= 11.0,
    )


def _short(members: Sequence[str]) -> str:
    joined = " ".join(members)
    return "{" + joined + "}" if len(joined) <= 11 else f"{len(members)} members"
