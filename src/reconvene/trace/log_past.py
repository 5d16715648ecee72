"""What a node's trace already holds of the log: read back at its restart.

Storage may be ahead of the trace: what was synced just before a crash was not recorded. And it may be behind, by the
green line alone, which becomes durable lazily. So what is kept here of the file is how far its green rows go, and
which messages it has that are not green: all that is needed to find what is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from reconvene.trace.events import Row

__all__ = ["LogPast", "log_past", "read_log_past"]

_CHUNK = 1 << 20
_MARK = b'"layer":"corel"'


class _Row(msgspec.Struct, gc=False):
    kind: str
    msg: str = ""
    pos: int = -1
    primary: int = 0
    label: str = ""


@dataclass(slots=True)
class LogPast:
    green: int = 0
    """Positions below it are recorded."""
    accepted: set[str] = field(default_factory=set)
    """Messages with an `accept` or `offer` and no `green`. A copy of an outpost's message is under its own id."""
    logged: dict[str, bool] = field(default_factory=dict)
    """Messages with a `log` and no `green`; whether they are yellow. Copies as above."""
    shown: dict[str, str] = field(default_factory=dict)
    """By copy, of those that are logged: the id that its rows show."""
    attempted: int = 0
    """The highest primary component of an `attempt`."""
    known: int = 0
    """The same of a `commit` or an `adopt`."""

    def add(self, rows: Iterable[_Row]) -> None:
        for row in rows:
            msg = row.label or row.msg
            match row.kind:
                case "accept" | "offer":
                    self.accepted.add(msg)
                case "log":
                    self.logged[msg] = False
                    if row.label:
                        self.shown[msg] = row.msg
                case "yellow":
                    self.logged[msg] = True
                case "red":
                    self.logged[msg] = False
                case "green":
                    self.green = row.pos + 1
                    self.logged.pop(msg, None)
                    self.shown.pop(msg, None)
                    self.accepted.discard(msg)
                case "snapshot":
                    self.green = max(self.green, row.pos)
                case "attempt":
                    self.attempted = max(self.attempted, row.primary)
                case "commit" | "adopt":
                    self.known = max(self.known, row.primary)


def log_past(rows: Iterable[Row]) -> LogPast:
    """Of rows that are at hand."""
    past = LogPast()
    past.add(
        _Row(row.kind, row.msg or "", -1 if row.pos is msgspec.UNSET else row.pos, row.primary or 0, row.label or "")
        for row in rows
        if row.layer == "corel"
    )
    return past


def read_log_past(path: Path) -> LogPast:
    """Of a file of whole lines. Raises OSError, also where one of them is no event."""
    past = LogPast()
    decode = msgspec.json.Decoder(_Row).decode
    rest = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            try:
                past.add(decode(line) for line in lines if _MARK in line)
            except msgspec.MsgspecError as error:
                raise OSError(f"{path}: a line of it is no event ({error}); move the file away") from None
    return past
