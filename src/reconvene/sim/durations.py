"""Durations and bandwidths as people write them in scenario files."""

import re

__all__ = ["LONGEST_NS", "parse_bandwidth", "parse_duration", "show_duration"]

LONGEST_NS = 366 * 24 * 3600 * 10**9

_NUMBER = r"([0-9]+)(?:\.([0-9]+))?"
_DURATION = re.compile(_NUMBER + r" ?(ns|us|ms|s|min)", re.ASCII)
_BANDWIDTH = re.compile(_NUMBER + r" ?(bit|kbit|Mbit|Gbit)", re.ASCII)
_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_BITS = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
_LONGEST_TEXT = 40


def parse_duration(text: str) -> int:
    """In ns. ValueError says what was expected."""
    expected = "a duration such as 500ms: a number with ns, us, ms, s or min"
    if text.startswith("-"):
        raise ValueError("a duration that is not negative")
    ns = _scaled(_DURATION, _NS, text, expected)
    if ns > LONGEST_NS:
        raise ValueError("a duration of a year at most")
    return ns


def parse_bandwidth(text: str) -> int:
    """In bits a second; 0 for `unlimited`. ValueError says what was expected."""
    if text == "unlimited":
        return 0
    expected = "a bandwidth such as 100Mbit: a number with bit, kbit, Mbit or Gbit, or unlimited"
    bits = _scaled(_BANDWIDTH, _BITS, text, expected)
    if not 0 < bits <= 10**15:
        raise ValueError("a bandwidth of 1bit to 1000000Gbit")
    return bits


def show_duration(ns: int) -> str:
    """Short, to a thousandth of its unit."""
    for unit in ("min", "s", "ms", "us"):
        if ns >= _NS[unit] and (unit != "min" or ns % _NS[unit] == 0):
            return f"{ns / _NS[unit]:.3f}".rstrip("0").rstrip(".") + unit
    return f"{ns}ns"


def _scaled(pattern: re.Pattern[str], units: dict[str, int], text: str, expected: str) -> int:
    match = pattern.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError(expected)
    whole, fraction, unit = match.groups()
    fraction = fraction or ""
    # Integers all the way: 0.1s is exactly 100 ms, on every machine.
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * units[unit] // scale
