"""judge.json: how far a trace is verified while its run goes on.

`reconvene judge --follow` writes it into the trace directory, as a whole each time, and the dashboard of a site shows
it. It is no part of the trace.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

__all__ = ["Judged", "read_judged", "write_judged"]

_FILE = "judge.json"
_LONGEST = 1 << 20


class Judged(Struct, frozen=True, kw_only=True):
    at: int
    """ms since 1970, by the judge's clock: when it wrote this."""
    rows: int
    verified: dict[str, int]
    """By node: the clock, in ms since 1970, of its last row that is judged."""
    violations: int
    """Found so far."""
    not_judged: list[str]
    """What can't be judged any more, and why: a line each."""
    over: bool
    """The judge has ended."""


def write_judged(directory: Path, judged: Judged) -> None:
    """Raises OSError."""
    scratch = directory / f".{_FILE}.{os.getpid()}"
    scratch.write_bytes(msgspec.json.encode(judged))
    scratch.replace(directory / _FILE)


def read_judged(directory: Path) -> Judged | None:
    """None where there is none, or none that can be read."""
    try:
        with (directory / _FILE).open("rb") as file:
            return msgspec.json.decode(file.read(_LONGEST), type=Judged)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
