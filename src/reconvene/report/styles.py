"""The style sheets and the script of pages, which are put into them."""

from pathlib import Path

__all__ = ["DIAGRAM_STYLE", "PAGE_SCRIPT", "PAGE_STYLE"]

_HERE = Path(__file__).parent


def _load(name: str) -> str:
    return (_HERE / "assets" / name).read_text(encoding="utf-8")


DIAGRAM_STYLE = _load("colours.css") + _load("diagram.css")
"""Of a diagram in a file of its own."""
PAGE_STYLE = DIAGRAM_STYLE + _load("page.css") + _load("plots.css")
PAGE_SCRIPT = _load("page.js")
