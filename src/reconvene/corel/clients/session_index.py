"""Where the messages of client sessions are at this replica, by the session's own numbers: so that a retry is known.

A message that is here and not green has an author and a counter; one that became green lately has a position. Both
maps are bounded, and neither is part of the log. After a restart they are made again from what is stored.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque

from msgspec import Struct

from reconvene.corel.batch import Heading, Source
from reconvene.corel.clients.ranges import Ranges, include
from reconvene.corel.clients.session_table import MOST_NUMBER, SessionTable

__all__ = ["MOST_RUNS", "SessionIndex", "SessionRun"]

MOST_RUNS = 65_536
"""Of all sessions together: the positions of so many runs of messages are kept."""


class SessionRun(Struct, frozen=True):
    """Consecutive numbers of a session, and what became of their messages."""

    number: int
    """The session's, of the first of them."""
    count: int
    author: int | None = None
    """They are the messages from `first` on of this author. None: they are green, and whose they are is not known."""
    first: int = 0
    new: bool = False
    """They were taken now, not before."""
    position: int | None = None
    """Of green ones: from this position on. None: they are not green, or that is not known here any more."""
    incarnation: int = 0
    """Of the author, where it is known."""


class _Runs(Struct):
    """Ranges of numbers that do not overlap, each with the value of its first number; the others' values follow."""

    runs: list[tuple[int, int, int]] = []
    """(number, count, value)."""

    def add(self, number: int, count: int, value: int) -> None:
        if self.runs and self.runs[-1][0] < number:
            self.runs.append((number, count, value))
        else:
            insort(self.runs, (number, count, value))

    def find(self, number: int) -> tuple[int, int] | None:
        """(its value, how many follow in its range, with it)."""
        at = bisect_right(self.runs, (number, MOST_NUMBER, MOST_NUMBER)) - 1
        if at < 0:
            return None
        first, count, value = self.runs[at]
        offset = number - first
        return (value + offset, count - offset) if offset < count else None

    def next(self, number: int) -> int:
        """The first number of the first range that begins above this one; MOST_NUMBER + 1: there is none."""
        at = bisect_right(self.runs, (number, MOST_NUMBER, MOST_NUMBER))
        return self.runs[at][0] if at < len(self.runs) else MOST_NUMBER + 1

    def cut(self, number: int, count: int) -> None:
        """Forgets these numbers, as far as they are in the range of the first of them."""
        at = bisect_right(self.runs, (number, MOST_NUMBER, MOST_NUMBER)) - 1
        if at < 0:
            return
        first, had, value = self.runs[at]
        if number >= first + had:
            return
        kept = []
        if first < number:
            kept.append((first, number - first, value))
        if number + count < first + had:
            kept.append((number + count, first + had - number - count, value + number + count - first))
        self.runs[at : at + 1] = kept


class SessionIndex:
    def __init__(self, green: SessionTable) -> None:
        self._green = green
        self._counters: dict[bytes, dict[int, _Runs]] = {}
        """Not green: by session and author. An author does not take a number again that it has here."""
        self._known: dict[bytes, Ranges] = {}
        """Of the same sessions: the numbers that are here, green or not."""
        self._batches: dict[int, list[int]] = {}
        """By author: the first counters of the batches that hold these messages, rising."""
        self._positions: dict[bytes, _Runs] = {}
        """Green: by session."""
        self._placed: deque[tuple[bytes, int, int]] = deque()
        """(session, number, count) of those, the oldest first."""

    # -- what is not green

    def add(self, session: bytes, number: int, count: int, author: int, first: int) -> None:
        """So many numbers from `number` on are an author's messages from counter `first` on."""
        self._counters.setdefault(session, {}).setdefault(author, _Runs()).add(number, count, first)
        known = self._known.get(session)
        if known is None:
            known = self._known[session] = list(self._green.ranges(session))
        include(known, number, number + count - 1)

    def add_batch(self, heading: Heading) -> None:
        """Messages that were added are in this batch."""
        if heading.sourced:
            insort(self._batches.setdefault(heading.author, []), heading.first)

    def batch(self, author: int, counter: int) -> int | None:
        """The first counter of the last batch that begins no later than this message, which is here and not green:
        the batch that holds it, if one does."""
        firsts = self._batches.get(author, [])
        at = bisect_right(firsts, counter) - 1
        return None if at < 0 else firsts[at]

    def remove_batch(self, heading: Heading, sources: list[Source]) -> None:
        """It is green."""
        for source in sources:
            self._remove(source.session, source.number, source.count, heading.author)
        firsts = self._batches.get(heading.author, [])
        at = bisect_left(firsts, heading.first)
        if at < len(firsts) and firsts[at] == heading.first:
            del firsts[at]

    def _remove(self, session: bytes, number: int, count: int, author: int) -> None:
        authors = self._counters.get(session, {})
        runs = authors.get(author)
        if runs is None:
            return
        runs.cut(number, count)
        if not runs.runs:
            del authors[author]
            if not authors:
                del self._counters[session], self._known[session]

    def ranges(self, session: bytes) -> Ranges:
        """All numbers that are known here, green or not. Not to be changed."""
        known = self._known.get(session)
        return self._green.ranges(session) if known is None else known

    def clear_counters(self) -> None:
        """Forgets everything that is not green."""
        self._counters.clear()
        self._known.clear()
        self._batches.clear()

    # -- what became green

    def place(self, session: bytes, number: int, count: int, position: int) -> None:
        """So many numbers from `number` on are at the positions from `position` on."""
        self._positions.setdefault(session, _Runs()).add(number, count, position)
        self._placed.append((session, number, count))
        if len(self._placed) > MOST_RUNS:
            oldest, first, many = self._placed.popleft()
            runs = self._positions[oldest]
            runs.cut(first, many)
            if not runs.runs:
                del self._positions[oldest]

    def position(self, session: bytes, number: int) -> tuple[int, int] | None:
        """(position, how many follow it, with it)."""
        runs = self._positions.get(session)
        return None if runs is None else runs.find(number)

    def next_placed(self, session: bytes, number: int) -> int:
        """The next number above this one that begins a range whose position is known."""
        runs = self._positions.get(session)
        return MOST_NUMBER + 1 if runs is None else runs.next(number)

    def clear_positions(self) -> None:
        self._positions.clear()
        self._placed.clear()

    # -- both

    def highest(self, session: bytes) -> int:
        """The highest number that is known here, green or not; -1: none is."""
        highest = self._green.highest(session)
        for runs in self._counters.get(session, {}).values():
            number, count, _ = runs.runs[-1]
            highest = max(highest, number + count - 1)
        return highest

    def find(self, session: bytes, number: int, most: int) -> SessionRun | None:
        """Where this message is, with at most so many that follow it there. None: it is not known here."""
        if self._green.has(session, number):
            placed = self.position(session, number)
            if placed is None:
                return SessionRun(number, 1)
            return SessionRun(number, min(placed[1], most), position=placed[0])
        for author, runs in self._counters.get(session, {}).items():
            found = runs.find(number)
            if found is not None:
                return SessionRun(number, min(found[1], most), author, found[0])
        return None
