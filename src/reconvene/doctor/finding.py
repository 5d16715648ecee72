"""What one check has found."""

from enum import StrEnum

from msgspec import Struct

__all__ = ["Finding", "Level", "advise", "fine", "wrong"]


class Level(StrEnum):
    OK = "ok"
    ADVICE = "advice"
    """A site runs, and would run better."""
    WRONG = "wrong"
    """A site does not run, or loses what it promised to keep."""


class Finding(Struct, frozen=True):
    """JSON-able."""

    check: str
    level: Level
    seen: str
    change: str | None = None
    """What to do about it: a command where there is one. None where all is well."""


def fine(check: str, seen: str) -> Finding:
    return Finding(check, Level.OK, seen)


def advise(check: str, seen: str, change: str) -> Finding:
    return Finding(check, Level.ADVICE, seen, change)


def wrong(check: str, seen: str, change: str) -> Finding:
    return Finding(check, Level.WRONG, seen, change)
