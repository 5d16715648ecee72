"""The style of plots, and the message if matplotlib is missing."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["COLOURS", "HOW", "can_plot", "new", "save"]

HOW = "no plots without matplotlib: pip install 'reconvene[report]' adds them"

COLOURS = {
    "causal": "#4c566a",
    "atop": "#0072b2",
    "all-ack lazy": "#d55e00",
    "all-ack eager": "#009e73",
}
"""Distinguishable for colour-blind readers too."""

_STYLE: Any = {
    "figure.dpi": 120,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6ea",
    "legend.frameon": False,
    "svg.hashsalt": "reconvene",
}


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def new(rows: int, columns: int, size: tuple[float, float], **kwargs: Any) -> tuple[Any, Any]:
    """A figure and its axes, without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update(_STYLE)
    return pyplot.subplots(rows, columns, figsize=size, layout="constrained", **kwargs)


def save(figure: Any, directory: Path, name: str) -> list[Path]:
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return paths
