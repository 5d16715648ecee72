"""Durations and sizes in options, with the same units as in a site's configuration."""

from reconvene.errors import Malformed
from reconvene.units import parse_duration, parse_size

__all__ = ["parse_bytes", "parse_ns", "parse_seconds"]


def parse_ns(text: str, option: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Malformed(f"{option} {text}: expected {error}") from None


def parse_seconds(text: str, option: str) -> float:
    return parse_ns(text, option) / 1e9


def parse_bytes(text: str, option: str) -> int:
    """A number of bytes, or a number with a unit."""
    try:
        return parse_size(f"{text}B" if text.isdecimal() else text)
    except ValueError as error:
        raise Malformed(f"{option} {text}: expected {error}") from None
