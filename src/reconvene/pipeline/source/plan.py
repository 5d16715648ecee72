"""A range of positions, cut into pieces that tasks read: from headings alone.

A piece of the log begins with the state of the log's clock there, so that whoever reads it knows every row's
`log_time` without what comes before it. What a transaction has staged is passed over where it stands, and is a piece
by itself where it was committed, at the log's time of that place: all of it is in the plan, or none.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconvene.entries import EntryBatch, commit_of
from reconvene.pipeline.source.clock import Clock, ClockState
from reconvene.pipeline.source.pushdown import EVERY, Wanted

__all__ = ["MOST_PARTITIONS", "Piece", "Plan", "Planner", "Shown", "Unplanned", "share"]

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


class Shown(Struct, frozen=True):
    """Some of what a commit makes visible."""

    commit: int
    """The commit's position."""
    ranges: tuple[tuple[int, int], ...]
    """(position, count) …"""
    log_time: int

    @property
    def rows(self) -> int:
        return sum(count for _, count in self.ranges)


class Unplanned(Struct, frozen=True):
    """A range for which no replica could be asked: the task that reads it plans it, when there is one."""

    start: int
    stop: int
    clock: ClockState

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Plan(Struct, frozen=True):
    pieces: tuple[Piece | Shown, ...]
    end: int
    clock: ClockState
    """At `end`."""

    @property
    def rows(self) -> int:
        """At most."""
        return sum(piece.rows for piece in self.pieces)


class Planner:
    """Is shown headings in order, from the one that holds `start` on, and makes pieces of them.

    rows_per_piece: a piece is no longer, unless that made more than `MOST_PARTITIONS`. most_rows: the plan ends
    before it has more, but for a commit that has more by itself, since nobody may see half of it. wanted: rows of
    other positions are left out.
    """

    def __init__(
        self,
        start: int,
        stop: int,
        clock: Clock,
        rows_per_piece: int,
        most_rows: int | None = None,
        wanted: Wanted = EVERY,
    ) -> None:
        self.end = start
        """The plan's, so far."""
        self.full = stop <= start
        """Whether nothing more is taken."""
        self._stop = stop
        self._clock = clock
        self._rows_per_piece = max(rows_per_piece, -(-(stop - start) // MOST_PARTITIONS))
        self._most_rows = most_rows
        self._wanted = wanted
        self._rows = 0
        self._pieces: list[Piece | Shown] = []
        self._begun: tuple[int, ClockState] | None = None
        """Where the piece begins that is not finished, and the clock there."""
        self._rows_end = start
        """The end of the last batch with rows."""

    def see(self, heading: EntryBatch) -> None:
        ranges = self._wanted.within(_shown(heading))
        if self.full or (ranges and not self._has_room(sum(count for _, count in ranges))):
            self.full = True
            return
        if heading.position > self.end:  # what is between was truncated, by the user's leave
            self._finish()
        self.end = min(heading.end, self._stop)
        if heading.kind == "data":
            if self._most_rows is not None:
                self.end = min(self.end, heading.position + self._most_rows - self._rows)
            for start, count in self._wanted.within([(heading.position, self.end - heading.position)]):
                self._take(start, start + count)
        log_time = self._clock.see(heading.author, heading.time)
        if ranges:
            self._show(heading.position, ranges, log_time)
        if self.end - self._rows_end >= _GAP:
            self._finish()
        self.full = self.end >= self._stop or not self._has_room(1)

    def plan(self) -> Plan:
        self._finish()
        return Plan(tuple(self._pieces), self.end, self._clock.state)

    def _has_room(self, rows: int) -> bool:
        return self._most_rows is None or self._rows == 0 or self._rows + rows <= self._most_rows

    def _take(self, start: int, end: int) -> None:
        if self._begun is not None and start >= self._begun[0] + self._rows_per_piece:
            self._finish()
        if self._begun is None:
            self._begun = (start, self._clock.state)
        while end - self._begun[0] > self._rows_per_piece:
            # One that begins within a batch begins with the clock before it: its reader sees the rest of the batch.
            cut = self._begun[0] + self._rows_per_piece
            self._pieces.append(Piece(self._begun[0], cut, self._begun[1]))
            self._begun = (cut, self._clock.state)
        self._rows += end - start
        self._rows_end = end

    def _show(self, commit: int, ranges: Iterable[tuple[int, int]], log_time: int) -> None:
        for some in _cut(ranges, self._rows_per_piece):
            self._pieces.append(Shown(commit, some, log_time))
            self._rows += self._pieces[-1].rows

    def _finish(self) -> None:
        if self._begun is not None:
            start, clock = self._begun
            self._pieces.append(Piece(start, self._rows_end, clock))
            self._begun = None


def share(pieces: Iterable[Piece | Shown], rows: int) -> Iterator[tuple[Piece | Shown, ...]]:
    """Pieces that one task reads, at most so many rows together where that can be."""
    together: list[Piece | Shown] = []
    many = 0
    for piece in _smaller(pieces, rows):
        if together and many + piece.rows > rows:
            yield tuple(together)
            together, many = [], 0
        together.append(piece)
        many += piece.rows
    if together:
        yield tuple(together)


def _smaller(pieces: Iterable[Piece | Shown], rows: int) -> Iterator[Piece | Shown]:
    """What is shown by a commit may be cut again: all of it has the log's time of one place."""
    for piece in pieces:
        if isinstance(piece, Shown) and piece.rows > rows:
            yield from (Shown(piece.commit, some, piece.log_time) for some in _cut(piece.ranges, rows))
        else:
            yield piece


def _shown(heading: EntryBatch) -> list[tuple[int, int]]:
    """What it makes visible, if it is a commit."""
    if heading.kind != "commit":
        return []
    commit = commit_of(heading)
    return [] if commit is None else list(commit.ranges)


def _cut(ranges: Iterable[tuple[int, int]], rows: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """The same ranges in their order, in groups of at most so many rows."""
    group: list[tuple[int, int]] = []
    left = rows
    for position, count in ranges:
        while count:
            some = min(count, left)
            group.append((position, some))
            position, count, left = position + some, count - some, left - some
            if not left:
                yield tuple(group)
                group, left = [], rows
    if group:
        yield tuple(group)
