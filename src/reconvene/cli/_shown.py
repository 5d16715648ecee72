"""Messages and their senders, as text on a terminal and in JSON."""

import base64

__all__ = ["Colours", "payload_document", "readable"]

_COLOURS = ("cyan", "magenta", "yellow", "green", "bright_blue", "bright_red", "bright_magenta", "bright_cyan")
_SHOWN = 500
"""Characters of a message that are shown on a terminal."""


class Colours:
    """One for each name, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._given.setdefault(name, _COLOURS[len(self._given) % len(_COLOURS)])


def readable(data: bytes) -> str:
    """Without control characters, which could move the terminal's cursor."""
    text = data[: 4 * _SHOWN].decode(errors="backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown} … ({len(data)} bytes)"


def payload_document(data: bytes) -> dict[str, object]:
    """As text, if it is text."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
