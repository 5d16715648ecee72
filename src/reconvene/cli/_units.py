"""Durations and sizes in options, with the same units as in a site's configuration."""

import re

from reconvene.errors import Malformed
from reconvene.units import parse_duration, parse_size

__all__ = ["parse_bytes", "parse_count", "parse_ns", "parse_seconds"]


def parse_ns(text: str, option: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Malformed(f"{option} {text}: expected {error}") from None


def parse_seconds(text: str, option: str) -> float:
    return parse_ns(text, option) / 1e9


_COUNTS = {"k": 10**3, "M": 10**6, "G": 10**9}


def parse_count(text: str, option: str) -> int:
    """A whole number, or a number with k, M or G after it."""
    number = re.fullmatch(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([kMG]?)", text)
    if number is None or (number[2] and not number[3]):
        raise Malformed(f"{option} {text}: expected a number such as 20000, 1.5M or 100M")
    scale = _COUNTS.get(number[3], 1)
    return int(number[1]) * scale + int((number[2] or "0").ljust(9, "0")) * scale // 10**9


def parse_bytes(text: str, option: str) -> int:
    """A number of bytes, or a number with a unit."""
    try:
        return parse_size(f"{text}B" if text.isdecimal() else text)
    except ValueError as error:
        raise Malformed(f"{option} {text}: expected {error}") from None
