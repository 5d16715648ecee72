"""Durations, sizes and addresses as people write them."""

import re

__all__ = [
    "LONGEST_NS",
    "NUMBER",
    "exact_size",
    "parse_address",
    "parse_duration",
    "parse_size",
    "scaled",
    "show_address",
    "show_duration",
    "show_size",
]

LONGEST_NS = 366 * 24 * 3600 * 10**9

NUMBER = r"([0-9]+)(?:\.([0-9]+))?"
_DURATION = re.compile(NUMBER + r" ?(ns|us|ms|s|min)", re.ASCII)
_LONG_DURATION = re.compile(NUMBER + r" ?(ns|us|ms|s|min|d|w)", re.ASCII)
_SIZE = re.compile(NUMBER + r" ?(B|kB|KiB|MB|MiB|GB|GiB)", re.ASCII)
_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "d": 86_400 * 10**9, "w": 604_800 * 10**9}
_BYTES = {"B": 1, "kB": 10**3, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9, "GiB": 1 << 30}
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?", re.ASCII)
_INSIDE = re.compile(r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?", re.ASCII)
_LONGEST_TEXT = 40


def parse_duration(text: str, *, days: bool = False) -> int:
    """In ns. `days`: d and w are units too, as in a site's file: how long a log is kept is counted in them, and
    nothing in a simulation is. ValueError says what was expected."""
    units = "ns, us, ms, s, min, d or w" if days else "ns, us, ms, s or min"
    if text.startswith("-"):
        raise ValueError("a duration that is not negative")
    pattern = _LONG_DURATION if days else _DURATION
    ns = scaled(pattern, _NS, text, f"a duration such as 500ms: a number with {units}")
    if ns > LONGEST_NS:
        raise ValueError("a duration of a year at most")
    return ns


def show_duration(ns: int, *, days: bool = False) -> str:
    """Short, to a thousandth of its unit. `days`: whole days are shown as such."""
    if days and ns and ns % _NS["d"] == 0:
        return f"{ns // _NS['d']}d"
    for unit in ("min", "s", "ms", "us"):
        if ns >= _NS[unit] and (unit != "min" or ns % _NS[unit] == 0):
            return f"{ns / _NS[unit]:.3f}".rstrip("0").rstrip(".") + unit
    return f"{ns}ns"


def parse_size(text: str) -> int:
    """In bytes. ValueError says what was expected."""
    return scaled(_SIZE, _BYTES, text, "a size such as 4MiB: a number with B, kB, KiB, MB, MiB, GB or GiB")


def show_size(count: int) -> str:
    """Short: exact where it is a round number, else to a tenth of its unit."""
    for unit in ("GiB", "MiB", "KiB"):
        if count >= _BYTES[unit]:
            return f"{count / _BYTES[unit]:.1f}".removesuffix(".0") + unit
    return f"{count}B"


def exact_size(count: int) -> str:
    """To the byte: with a unit only where it is a whole number of them."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _BYTES[unit] == 0:
            return f"{count // _BYTES[unit]}{unit}"
    return str(count)


def parse_address(text: str) -> tuple[str, int]:
    """host:port; an IPv6 host stands in brackets. ValueError says what was expected."""
    expected = 'an address such as "10.0.0.1:7000" or "[fd00::1]:7000"'
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or not (_INSIDE if bracketed else _HOST).fullmatch(host) or (bracketed and ":" not in host):
        raise ValueError(expected)
    if not re.fullmatch("[0-9]{1,5}", port, re.ASCII) or int(port) > 65_535:
        raise ValueError(f"{expected}, its port from 0 to 65535")
    return host, int(port)


def show_address(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def scaled(pattern: re.Pattern[str], units: dict[str, int], text: str, expected: str) -> int:
    """A number with one of the units, as a whole number of the smallest. ValueError says what was `expected`."""
    match = pattern.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError(expected)
    whole, fraction, unit = match.groups()
    fraction = fraction or ""
    # Integers all the way: 0.1s is exactly 100 ms, on every machine.
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * units[unit] // scale
