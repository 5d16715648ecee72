"""HTML and SVG as text: elements whose content is escaped unless it is markup already."""

from html import escape

__all__ = ["Child", "Markup", "Value", "join", "tag"]


class Markup(str):
    """Text that is markup, and is put into a page as it is. All other text is escaped."""

    __slots__ = ()


Value = str | int | float | bool | None
Child = str | Markup | None

_VOID = frozenset({"meta", "link", "br", "hr", "input", "img"})


def tag(name: str, /, *children: Child, **attributes: Value) -> Markup:
    """An element. `class_` is the attribute class, `stroke_width` stroke-width; None leaves an attribute out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        parts.append(f" {shown}" if value is True else f' {shown}="{escape(_value(value))}"')
    parts.append(">")
    if name not in _VOID:
        parts.append(join(*children))
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def join(*children: Child) -> Markup:
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(child, quote=False) for child in children if child)
    )


def _value(value: str | int | float) -> str:
    # A tenth of a pixel is enough, and half of the file is numbers.
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
