"""The last green batches, by position: at least those that stable storage does not show as green yet."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from reconvene.corel.batch import Heading
from reconvene.corel.keeping.layout import Place

__all__ = ["Recent"]

_MOST = 4_096
"""Batches that are kept though storage has them."""


class Recent:
    def __init__(self, start: int) -> None:
        self.restart(start)

    def restart(self, start: int) -> None:
        """Nothing is kept; the next batch has this position."""
        self.start = start
        """Below it, ask stable storage."""
        self._positions: list[int] = []
        self._headings: list[Heading] = []
        self._places: list[Place] = []

    def append(self, position: int, heading: Heading, place: Place) -> None:
        self._positions.append(position)
        self._headings.append(heading)
        self._places.append(place)

    def trim(self, durable: int) -> None:
        """Storage shows everything below `durable` as green: what is beyond the limit is forgotten."""
        if len(self._positions) <= 2 * _MOST:
            return
        cut = min(len(self._positions) - _MOST, bisect_right(self._positions, durable) - 1)
        if cut > 0:
            del self._positions[:cut], self._headings[:cut], self._places[:cut]
            self.start = self._positions[0]

    def truncate(self, position: int) -> None:
        cut = bisect_right(self._positions, position)
        if cut and self._positions[cut - 1] == position:
            cut -= 1
        del self._positions[:cut], self._headings[:cut], self._places[:cut]
        self.start = max(self.start, position)

    def since(self, position: int) -> Iterator[tuple[int, Heading]]:
        """From the batch that holds `position` on."""
        for index in range(self._holding(position), len(self._positions)):
            yield self._positions[index], self._headings[index]

    def at(self, position: int) -> Place | None:
        """What storage will hold of the batch that begins at this position; None: it is not here."""
        at = bisect_left(self._positions, position)
        if at == len(self._positions) or self._positions[at] != position:
            return None
        return self._places[at]

    def _holding(self, position: int) -> int:
        at = max(bisect_right(self._positions, position) - 1, 0)
        if at < len(self._positions) and self._positions[at] + self._headings[at].count <= position:
            at += 1
        return at
