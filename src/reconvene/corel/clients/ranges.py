"""Sets of whole numbers, as ranges: what is remembered of a client session's numbers."""

from bisect import bisect_left, bisect_right
from operator import itemgetter

__all__ = ["Ranges", "has", "include", "length_with"]

Ranges = list[tuple[int, int]]
"""(first, last) …, rising, with at least one number missing between two of them."""

_first, _last = itemgetter(0), itemgetter(1)


def has(ranges: Ranges, number: int) -> bool:
    at = bisect_right(ranges, number, key=_first) - 1
    return at >= 0 and number <= ranges[at][1]


def include(ranges: Ranges, first: int, last: int) -> Ranges:
    """Adds the numbers from `first` to `last`. Returns those of them that were there before, as ranges."""
    if not ranges or first > ranges[-1][1] + 1:
        ranges.append((first, last))
        return []
    if first == ranges[-1][1] + 1:
        ranges[-1] = (ranges[-1][0], last)
        return []
    start, end = _touched(ranges, first, last)
    touched = ranges[start:end]
    before = [(max(one, first), min(two, last)) for one, two in touched if one <= last and two >= first]
    if touched:
        first, last = min(first, touched[0][0]), max(last, touched[-1][1])
    ranges[start:end] = [(first, last)]
    return before


def length_with(ranges: Ranges, first: int, last: int) -> int:
    """How many ranges there would be with these numbers too."""
    start, end = _touched(ranges, first, last)
    return len(ranges) - (end - start) + 1


def _touched(ranges: Ranges, first: int, last: int) -> tuple[int, int]:
    """The ranges that hold some of these numbers, or the one before or after them: from an index up to another."""
    return bisect_left(ranges, first - 1, key=_last), bisect_right(ranges, last + 1, key=_first)
