"""Where the green batches are, by position: the last ones in memory, all others on stable storage.

In memory are at least those that stable storage does not show as green yet.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from reconvene.corel.batch import BatchId, Heading
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.keeping.layout import Place, decode_place, green_key, position_of
from reconvene.storage.tables import Reader

__all__ = ["GreenBatches"]

_MOST = 4_096
"""Batches that are kept in memory though storage has them."""


class GreenBatches:
    def __init__(self, tables: Reader, bodies: Bodies, start: int) -> None:
        self._tables = tables
        self._bodies = bodies
        self.restart(start)

    def restart(self, start: int) -> None:
        """Nothing is in memory; the next batch has this position."""
        self._start = start
        """Below it, ask stable storage."""
        self._line = start
        """The position after the last batch."""
        self._positions: list[int] = []
        self._headings: list[Heading] = []
        self._places: list[Place] = []

    def append(self, position: int, heading: Heading, place: Place) -> None:
        self._positions.append(position)
        self._headings.append(heading)
        self._places.append(place)
        self._line = position + place.count

    def stored(self, durable: int) -> None:
        """Storage shows everything below `durable` as green: of that, only the last batches stay in memory."""
        if len(self._positions) <= 2 * _MOST:
            return
        cut = min(len(self._positions) - _MOST, bisect_right(self._positions, durable) - 1)
        if cut > 0:
            del self._positions[:cut], self._headings[:cut], self._places[:cut]
            self._start = self._positions[0]

    def truncate(self, position: int) -> None:
        """What is below is gone."""
        cut = bisect_right(self._positions, position)
        if cut and self._positions[cut - 1] == position:
            cut -= 1
        del self._positions[:cut], self._headings[:cut], self._places[:cut]
        self._start = max(self._start, position)

    # -- reading

    def read(self, position: int) -> Iterator[tuple[int, Heading]]:
        """(position, batch) in order, from the batch that holds `position`, which must not be below the base."""
        start = self._start
        if position < start:
            yield from self.read_stored(position, start)
        position = max(position, start)
        for index in range(self._holding(position), len(self._positions)):
            yield self._positions[index], self._headings[index]

    def read_stored(self, position: int, end: int) -> Iterator[tuple[int, Heading]]:
        """The same of stable storage alone, to before `end`."""
        found = self._tables.last(green_key(0), green_key(position + 1))
        start = position if found is None else position_of(found[0])
        for key, value in self._tables.scan(green_key(start), green_key(end)):
            yield position_of(key), self._bodies.heading(decode_place(value).id)

    def last_stored(self, start: int, most: int) -> Iterator[tuple[int, Heading]]:
        """The last batches on stable storage from a position on, at most so many, in order."""
        start = max(start, self._line - 8 * most)
        rows = [
            (position_of(key), value) for key, value in self._tables.scan(green_key(start), green_key(self._line))
        ]
        for position, value in rows[-most:]:
            yield position, self._bodies.heading(decode_place(value).id)

    def stored_ids(self, start: int) -> Iterator[tuple[int, BatchId]]:
        """(position, id) of the batches on stable storage that begin at `start` or above."""
        for key, value in self._tables.scan(green_key(start), green_key(self._line)):
            yield position_of(key), decode_place(value).id

    def places(self, start: int, end: int) -> Iterator[tuple[int, Place]]:
        """(position, place) from one position, where a batch begins, to before another. Raises Damaged.

        The caller may take its time: what was in memory when it began may be on stable storage alone when it comes
        there, and what becomes green meanwhile is included.
        """
        while start < min(end, self._line):
            before = start
            for key, value in self._tables.scan(green_key(start), green_key(min(end, self._start))):
                place = decode_place(value)
                position = position_of(key)
                start = position + place.count
                yield position, place
            while start < end and (found := self._at(start)) is not None:
                start += found.count
                yield start - found.count, found
            if start == before:
                raise Damaged(f"the log's storage has no green batch at {start}")

    def _at(self, position: int) -> Place | None:
        """The batch that begins at this position; None: it is not in memory."""
        at = bisect_left(self._positions, position)
        if at == len(self._positions) or self._positions[at] != position:
            return None
        return self._places[at]

    def _holding(self, position: int) -> int:
        at = max(bisect_right(self._positions, position) - 1, 0)
        if at < len(self._positions) and self._positions[at] + self._headings[at].count <= position:
            at += 1
        return at
