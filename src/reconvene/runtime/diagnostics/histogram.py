"""Counts how long something took, by size, as Prometheus' histograms do.

One note is a search among 14 numbers and two additions. One thread notes; others may read at any time, and see counts
that are at most one note apart.
"""

from bisect import bisect_left
from itertools import accumulate

__all__ = ["BOUNDS_S", "Histogram"]

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From the sync of a good disk to one that is as good as broken."""


class Histogram:
    __slots__ = ("_counts", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        """By the smallest bound that is not exceeded; at last, those above all bounds."""
        self.sum_s = 0.0

    def note(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, how many were at most that), the last one of all."""
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
