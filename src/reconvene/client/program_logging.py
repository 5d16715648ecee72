"""Logging for programs that embed a site or connect to one."""

from typing import TextIO

from reconvene.errors import InvalidArgument
from reconvene.runtime.config.settings import Logging
from reconvene.runtime.diagnostics import structured_logging

__all__ = ["configure_logging"]

_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("text", "json")


def configure_logging(*, level: str = "info", format: str = "text", stream: TextIO | None = None) -> None:  # noqa: A002
    """Writes what the library logs to `stream` (stderr), in the lines that `reconvene node` writes, and nowhere else.

    level: the lowest that is written: debug, info, warning or error.
    format: text, as `key=value`, or json, one object a line.
    Without this call the library logs to the standard logger `reconvene`, for the program's own handlers.
    """
    for value, what, known in ((level, "level", _LEVELS), (format, "format", _FORMATS)):
        if value not in known:
            raise InvalidArgument(f"{what}: one of {', '.join(known)} expected, not {value!r}")
    if stream is not None and not callable(getattr(stream, "write", None)):
        raise TypeError(f"stream: a text file to write to expected, not {type(stream).__name__}")
    structured_logging.configure(Logging(level=level, format=format), stream)
