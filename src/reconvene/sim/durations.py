"""Durations and bandwidths as people write them in scenario files."""

import re

from reconvene.units import LONGEST_NS, NUMBER, parse_duration, scaled, show_duration

__all__ = ["LONGEST_NS", "parse_bandwidth", "parse_duration", "show_duration"]

_BANDWIDTH = re.compile(NUMBER + r" ?(bit|kbit|Mbit|Gbit)", re.ASCII)
_BITS = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}


def parse_bandwidth(text: str) -> int:
    """In bits a second; 0 for `unlimited`. ValueError says what was expected."""
    if text == "unlimited":
        return 0
    expected = "a bandwidth such as 100Mbit: a number with bit, kbit, Mbit or Gbit, or unlimited"
    bits = scaled(_BANDWIDTH, _BITS, text, expected)
    if not 0 < bits <= 10**15:
        raise ValueError("a bandwidth of 1bit to 1000000Gbit")
    return bits
