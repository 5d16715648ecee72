"""What Spark says beforehand about the rows that a batch read needs: a range of positions.

Spark asks only where `spark.sql.python.filterPushdown.enabled` is set. Where it is not, Spark refuses every reader
that has a `pushFilters` of its own; it looks at the method's `__func__`. `Pushing` suits both: it is called where
Spark asks, and looks like the base class's method where Spark does not.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

__all__ = ["EVERY", "Pushing", "Wanted", "wanted_by"]

_POSITION = ("position",)
_END = 1 << 62


class Wanted(Struct, frozen=True):
    """Rows whose own position is at `low` or after, and before `high`."""

    low: int = 0
    high: int = _END

    def start(self, start: int, stop: int) -> int:
        """Where to begin reading, at the earliest: a commit's place is after all that it shows."""
        return min(max(start, self.low), stop)

    def rows(self, start: int, stop: int) -> int:
        """How many there are, at most."""
        return max(0, min(stop - start, self.high - self.low))

    def within(self, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """What is wanted of (position, count) …"""
        cut = ((max(first, self.low), min(first + count, self.high)) for first, count in ranges)
        return [(start, end - start) for start, end in cut if end > start]


EVERY = Wanted()


class Pushing:
    """`reader.pushFilters`. Spark filters again all that is read: a range holds void messages too."""

    def __init__(self, take: Callable[[Wanted], None]) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._take = take

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        self._take(wanted_by(filters))
        return filters


def wanted_by(filters: Sequence[Filter]) -> Wanted:
    """All of them hold for a row that is wanted."""
    low, high = EVERY.low, EVERY.high
    for one in filters:
        bounds = _bounds(one)
        low, high = max(low, bounds.low), min(high, bounds.high)
    return Wanted(low, max(low, high))


def _bounds(one: Filter) -> Wanted:
    if getattr(one, "attribute", None) != _POSITION:
        return EVERY
    values = getattr(one, "value", None)
    given = list(values) if isinstance(one, In) and values else [values]
    numbers = [number for number in given if type(number) is int]
    if len(numbers) < len(given):
        return EVERY
    match one:
        case EqualTo() | In():
            return Wanted(min(numbers), max(numbers) + 1)
        case GreaterThan():
            return Wanted(numbers[0] + 1)
        case GreaterThanOrEqual():
            return Wanted(numbers[0])
        case LessThan():
            return Wanted(high=numbers[0])
        case LessThanOrEqual():
            return Wanted(high=numbers[0] + 1)
        case _:
            return EVERY
