"""Structured logging: one line for each event, with named fields, on standard `logging`.

Promised: an event is one line, whatever a field contains. An event that repeats is logged at most `BURST` times in
`WINDOW_S`, and the next line of its kind says how many were left out. Lines of the part `audit` are always logged:
they say what an operator did, and no level and no limit leaves one out.

Where stderr is the journal of systemd, each line begins with its priority, which the journal takes off: sd-daemon(3).
"""

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from reconvene.runtime.config.settings import Logging

__all__ = [
    "BURST",
    "DEBUG",
    "ERROR",
    "INFO",
    "ROOT",
    "WARNING",
    "WINDOW_S",
    "audit",
    "configure",
    "event",
    "logger",
]

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
ROOT = "reconvene"
"""Every logger of the program is below this one. An application that embeds a site sets its own handlers on it."""
BURST = 20
WINDOW_S = 10.0
LONGEST_VALUE = 2_000
"""Most characters of a field; the rest is cut off."""

_AUDIT = "audit"
_NOTICE = 5
_PRIORITIES = {logging.CRITICAL: 2, ERROR: 3, WARNING: 4, INFO: 6, DEBUG: 7}
"""Syslog's, which the journal uses."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:/+,@%*\[\]-]+", re.ASCII)


def logger(part: str) -> logging.Logger:
    """The logger of one part of a site, such as `udp`."""
    return logging.getLogger(f"{ROOT}.{part}")


def event(log: logging.Logger, level: int, what: str, /, **fields: object) -> None:
    """Logs that `what` happened. Fields are numbers, strings, or lists of them; fields that are None are left out."""
    if log.isEnabledFor(level):
        given = {name: value for name, value in fields.items() if value is not None}
        log.log(level, "%s", what, extra={"fields": given}, stacklevel=2)


def audit(what: str, by: str, /, **fields: object) -> None:
    """Logs that an operator did something. `by`: who asked for it."""
    event(logger(_AUDIT), INFO, what, by=by, **fields)


def configure(log: Logging, stream: TextIO | None = None) -> None:
    """Sends the program's log lines to stderr, as configured, and nowhere else."""
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    lines = JsonLines() if log.format == "json" else TextLines()
    handler.setFormatter(JournalLines(lines) if _is_journal(stream) else lines)
    handler.addFilter(Sparing())
    root = logging.getLogger(ROOT)
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(log.level.upper())
    logger(_AUDIT).setLevel(INFO)
    root.propagate = False


class Sparing(logging.Filter):
    """Lets `BURST` lines of a kind through in `WINDOW_S` seconds. A kind is a logger, a level and an event's name.
    All three come from the program, so input from outside can't make more kinds."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, int, str], tuple[float, int]] = {}
        """When the current window of each kind began, and how many lines it had."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _part(record) == _AUDIT:
            return True
        kind = (record.name, record.levelno, record.getMessage())
        began, count = self._kinds.get(kind, (float("-inf"), 0))
        if record.created - began >= WINDOW_S:
            if count > BURST:
                _fields(record)["left_out"] = count - BURST
            self._kinds[kind] = (record.created, 1)
            return True
        self._kinds[kind] = (began, count + 1)
        return count < BURST


class TextLines(logging.Formatter):
    """2026-03-01T12:00:00.000Z info site configuration number=65537 members=a,b,c"""

    def format(self, record: logging.LogRecord) -> str:
        head = [_when(record), record.levelname.lower(), _part(record), _bare(record.getMessage())]
        return " ".join([*head, *(f"{name}={_text(value)}" for name, value in _all_fields(record).items())])


class JsonLines(logging.Formatter):
    """{"time": …, "level": …, "part": …, "event": …, and the fields}"""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _when(record),
            "level": record.levelname.lower(),
            "part": _part(record),
            "event": record.getMessage(),
        }
        for name, value in _all_fields(record).items():
            line[f"{name}_" if name in line else name] = _plain(value)
        return json.dumps(line, ensure_ascii=True)


class JournalLines(logging.Formatter):
    """<4>, and then the line."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        priority = _NOTICE if _part(record) == _AUDIT else _PRIORITIES.get(record.levelno, _PRIORITIES[INFO])
        return f"<{priority}>{self._lines.format(record)}"


def _is_journal(stream: TextIO) -> bool:
    """Whether systemd has connected this very stream with its journal: it says which file that is."""
    with suppress(OSError, ValueError):
        found = os.fstat(stream.fileno())
        return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"
    return False


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    if not isinstance(fields, dict):
        fields = {}
        record.fields = fields
    return fields


def _all_fields(record: logging.LogRecord) -> dict[str, object]:
    fields = dict(_fields(record))
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["error"] = f"{type(error).__name__}: {error}"
        fields["traceback"] = "".join(traceback.format_exception(error))
    return fields


def _when(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"


def _part(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{ROOT}.")


def _plain(value: object) -> object:
    """As a value that JSON can represent."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in _ordered(value)]
    return str(value)[:LONGEST_VALUE]


def _text(value: object) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(_text(item) for item in _ordered(value)) or "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return _bare(str(value)[:LONGEST_VALUE])


def _ordered(values: Iterable[object]) -> list[object]:
    return sorted(values, key=str) if isinstance(values, set | frozenset) else list(values)


def _bare(text: str) -> str:
    """Unchanged if it can't be misread, otherwise quoted, with characters escaped that are not printable ASCII."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=True)
