"""A range of positions, cut into pieces that tasks read: from headings alone.

Each piece begins with the state of the log's clock there, so that whoever reads it knows every row's `log_time`
without what comes before it.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconvene.client.log_entries import BatchHeading
from reconvene.pipeline.source.clock import Clock, ClockState

__all__ = ["MOST_PARTITIONS", "Piece", "Plan", "Planner", "share"]

MOST_PARTITIONS = 10_000
_GAP = 2_048
"""So many positions without a row are not read, but passed over."""


class Piece(Struct, frozen=True):
    """Positions from `start` on and before `stop`."""

    start: int
    stop: int
    clock: ClockState
    """At `start`."""

    @property
    def rows(self) -> int:
        """At most."""
        return self.stop - self.start


class Plan(Struct, frozen=True):
    pieces: tuple[Piece, ...]
    end: int
    clock: ClockState
    """At `end`."""


class Planner:
    """Is shown headings in order, from the one that holds `start` on, and makes pieces of them.

    rows_per_piece: a piece is no longer, unless that made more than `MOST_PARTITIONS`. most_rows: the plan ends where
    it has so many.
    """

    def __init__(
        self, start: int, stop: int, clock: Clock, rows_per_piece: int, most_rows: int | None = None
    ) -> None:
        self.end = start
        """The plan's, so far."""
        self._stop = stop
        self._clock = clock
        self._rows_per_piece = max(rows_per_piece, -(-(stop - start) // MOST_PARTITIONS))
        self._left = stop - start if most_rows is None else most_rows
        self._pieces: list[Piece] = []
        self._begun: tuple[int, ClockState] | None = None
        """Where the piece begins that is not finished, and the clock there."""
        self._rows_end = start
        """The end of the last batch with rows."""

    @property
    def full(self) -> bool:
        """Whether nothing more can be taken."""
        return self.end >= self._stop or self._left <= 0

    def see(self, heading: BatchHeading) -> None:
        if self.full:
            return
        if heading.position > self.end:  # what is between was truncated, by the user's leave
            self._finish()
        end = min(heading.end, self._stop)
        if heading.kind == "data":
            end = min(end, heading.position + self._left)
            self._rows(heading.position, end)
        self._clock.see(heading.author, heading.time)
        self.end = end
        if end - self._rows_end >= _GAP:
            self._finish()

    def plan(self) -> Plan:
        self._finish()
        return Plan(tuple(self._pieces), self.end, self._clock.state)

    def _rows(self, start: int, end: int) -> None:
        if self._begun is None:
            self._begun = (start, self._clock.state)
        while end - self._begun[0] > self._rows_per_piece:
            # One that begins within a batch begins with the clock before it: its reader sees the rest of the batch.
            cut = max(self._begun[0] + self._rows_per_piece, start)
            self._pieces.append(Piece(self._begun[0], cut, self._begun[1]))
            self._begun = (cut, self._clock.state)
        self._left -= end - start
        self._rows_end = end

    def _finish(self) -> None:
        if self._begun is not None:
            start, clock = self._begun
            self._pieces.append(Piece(start, self._rows_end, clock))
            self._begun = None


def share(pieces: Iterable[Piece], rows: int) -> Iterator[tuple[Piece, ...]]:
    """Pieces that one task reads, at most so many rows together where that can be."""
    together: list[Piece] = []
    many = 0
    for piece in pieces:
        if together and many + piece.rows > rows:
            yield tuple(together)
            together, many = [], 0
        together.append(piece)
        many += piece.rows
    if together:
        yield tuple(together)
