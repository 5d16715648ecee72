"""Checks of what a program passes to its site: before anything is sent, with a line that says what was expected.

A wrong type raises TypeError, a value that no request can have InvalidArgument, which is a ValueError.
"""

import math
from collections.abc import Iterable, Iterator

import msgspec

from reconvene.corel.clients.commits import Range
from reconvene.corel.keeping.snapshot_rows import NAME_BYTES
from reconvene.corel.keeping.snapshot_rows import check_name as check_snapshot_name
from reconvene.errors import InvalidArgument, Rejected

__all__ = [
    "check_count", "check_machine_name", "check_name", "check_names", "check_payloads", "check_position",
    "check_quorum", "check_ranges", "check_seconds", "check_text", "check_timeout", "encoded",
]  # fmt: skip

_END = 1 << 62
"""Positions, counters and numbers are below it."""
_NAME = 255
"""Characters of a site's name."""
_NAMES = 64


def check_text(value: object, what: str, most: int, least: int = 1) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what}: text expected, not {type(value).__name__}")
    if not least <= len(value) <= most:
        raise InvalidArgument(f"{what}: {least} to {most} characters expected, not {len(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what}: text expected: this has a lone surrogate") from None
    return value


def check_count(value: object, what: str, least: int = 0, end: int = _END) -> int:
    """A whole number from `least` on, below `end`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}: a whole number expected, not {type(value).__name__}")
    if not least <= value < end:
        raise InvalidArgument(f"{what}: a number from {least} on expected, not {value}")
    return value


def check_position(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}: a position is a number, not {type(value).__name__}")
    if not 0 <= value < _END:
        raise InvalidArgument(f"{what}: a position from 0 on expected, not {value}")
    return value


def check_seconds(value: object, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{what}: seconds expected, as a number, not {type(value).__name__}")
    try:
        seconds = float(value)
    except OverflowError:
        raise InvalidArgument(f"{what}: seconds expected, and this number is too large") from None
    if math.isnan(seconds) or seconds < 0:
        raise InvalidArgument(f"{what}: seconds from 0 on expected, not {value}")
    return seconds


def check_timeout(value: object) -> float | None:
    """None: for as long as it takes."""
    return None if value is None else check_seconds(value, "timeout")


def check_name(value: object, what: str) -> str:
    """Of a site."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: one site's name expected, as text, not {type(value).__name__}")
    return check_text(value, what, _NAME)


def check_machine_name(value: object, what: str = "name") -> str:
    """Of a state machine, under which its snapshots are kept."""
    check_text(value, what, NAME_BYTES)
    try:
        return check_snapshot_name(value)
    except Rejected as error:
        raise InvalidArgument(f"{what}: {error}") from None


def check_names(values: object, what: str) -> list[str]:
    """Of sites."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f'{what}: a list of sites\' names expected, as in ["b", "c"], not {type(values).__name__}')
    names = [check_name(value, what) for value in values]
    if len(names) > _NAMES:
        raise InvalidArgument(f"{what}: at most {_NAMES} sites' names expected, not {len(names)}")
    return names


def check_ranges(values: object, what: str) -> Iterator[Range]:
    """Lazily."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{what}: (position, count) pairs expected, not {type(values).__name__}")
    return (_range(value, what) for value in values)


def _range(value: object, what: str) -> Range:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{what}: (position, count) pairs expected, not {value!r}")
    return check_position(value[0], what), check_count(value[1], f"{what}: a count", 1)


def check_payloads(values: object) -> None:
    """Messages to be sent or appended. Each of them is checked when it is its turn."""
    if isinstance(values, str | bytes | bytearray | memoryview) or not isinstance(values, Iterable):
        raise TypeError(f"payloads: a list of messages expected, each of them bytes, not {type(values).__name__}")


def check_quorum(value: object) -> dict[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TypeError('quorum: a dictionary expected, as in {"kind": "majority"}, not ' + type(value).__name__)
    encoded(value, "quorum")
    return value


def encoded(value: object, what: str) -> bytes:
    """As it travels."""
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"{what}: this can't be encoded: {error}") from None
    except TypeError as error:
        raise TypeError(f"{what}: numbers, text, bytes, lists or dictionaries expected: {error}") from None
