"""What this replica knows of client sessions' messages beyond the table that all share: where to wait for a retry.

Two maps, each bounded, neither of them part of the log: the messages that are here and not green (`Pending`), and the
positions of those that became green lately (`Positions`). After a restart both are made again from what is stored.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from reconvene.corel.batch import Heading
from reconvene.corel.clients.ranges import Ranges, include
from reconvene.corel.clients.sessions import MOST_NUMBER, Sessions, sound_sources
from reconvene.corel.keeping.bodies import Bodies

__all__ = ["MOST_RUNS", "Part", "Pending", "Positions"]

MOST_RUNS = 65_536
"""Of all sessions together: the positions of so many runs of messages are kept."""


class Part(Struct, frozen=True):
    """What became of some consecutive messages of an append under a session."""

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


class _Runs:
    """Ranges of numbers that do not overlap, each with what its first one has; the others' follow."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, int]] = []
        """(number, count, what)."""

    def add(self, number: int, count: int, what: int) -> None:
        if self.runs and self.runs[-1][0] < number:
            self.runs.append((number, count, what))
        else:
            insort(self.runs, (number, count, what))

    def find(self, number: int) -> tuple[int, int] | None:
        """(what it has, how many follow in its range, with it)."""
        at = bisect_right(self.runs, (number, MOST_NUMBER, MOST_NUMBER)) - 1
        if at < 0:
            return None
        first, count, what = self.runs[at]
        offset = number - first
        return (what + offset, count - offset) if offset < count else None

    def cut(self, number: int, count: int) -> None:
        """Forgets these numbers, as far as they are in the range of the first of them."""
        at = bisect_right(self.runs, (number, MOST_NUMBER, MOST_NUMBER)) - 1
        if at < 0:
            return
        first, had, what = self.runs[at]
        if number >= first + had:
            return
        kept = []
        if first < number:
            kept.append((first, number - first, what))
        if number + count < first + had:
            kept.append((number + count, first + had - number - count, what + number + count - first))
        self.runs[at : at + 1] = kept


class Pending:
    def __init__(self, green: Sessions) -> None:
        self._green = green
        self._runs: dict[bytes, dict[int, _Runs]] = {}
        """By session and author. An author does not take a number again that it has here."""
        self._known: dict[bytes, Ranges] = {}
        """Of the same sessions: the numbers that are here, green or not."""
        self._batches: dict[int, list[int]] = {}
        """By author: the first counters of the batches that hold these messages, rising."""

    def add(self, session: bytes, number: int, count: int, author: int, first: int) -> None:
        self._runs.setdefault(session, {}).setdefault(author, _Runs()).add(number, count, first)
        known = self._known.get(session)
        if known is None:
            known = self._known[session] = list(self._green.ranges(session))
        include(known, number, number + count - 1)

    def add_batch(self, heading: Heading, bodies: Bodies) -> None:
        if heading.sourced:
            self.note_batch(heading)
            for source in sound_sources(heading, bodies.get(heading.id)):
                self.add(source.session, source.number, source.count, heading.author, heading.first + source.start)

    def note_batch(self, heading: Heading) -> None:
        """Messages that were added are in this batch."""
        if heading.sourced:
            insort(self._batches.setdefault(heading.author, []), heading.first)

    def batch(self, author: int, counter: int) -> int | None:
        """The first counter of the last batch that begins no later than this message, which is here and not green:
        the batch that holds it, if one does."""
        firsts = self._batches.get(author, [])
        at = bisect_right(firsts, counter) - 1
        return None if at < 0 else firsts[at]

    def remove_batch(self, heading: Heading) -> None:
        """It is green."""
        firsts = self._batches.get(heading.author, [])
        at = bisect_left(firsts, heading.first)
        if at < len(firsts) and firsts[at] == heading.first:
            del firsts[at]

    def ranges(self, session: bytes) -> Ranges:
        """All numbers that are known here, green or not. Not to be changed."""
        known = self._known.get(session)
        return self._green.ranges(session) if known is None else known

    def remove(self, session: bytes, number: int, count: int, author: int) -> None:
        """These messages are green."""
        authors = self._runs.get(session, {})
        runs = authors.get(author)
        if runs is None:
            return
        runs.cut(number, count)
        if not runs.runs:
            del authors[author]
            if not authors:
                del self._runs[session], self._known[session]

    def highest(self, session: bytes) -> int:
        """The highest number that is here and not green; -1: there is none."""
        last = [runs.runs[-1] for runs in self._runs.get(session, {}).values()]
        return max((number + count - 1 for number, count, _ in last), default=-1)

    def find(self, session: bytes, number: int) -> tuple[int, int, int] | None:
        """(author, counter, how many follow, with it) of a message that is here and not green."""
        for author, runs in self._runs.get(session, {}).items():
            found = runs.find(number)
            if found is not None:
                return author, *found
        return None

    def restart(self, headings: Iterable[Heading], bodies: Bodies) -> None:
        """These batches are all that is here and not green."""
        self._runs.clear()
        self._known.clear()
        self._batches.clear()
        for heading in headings:
            self.add_batch(heading, bodies)


class Positions:
    def __init__(self) -> None:
        self._runs: dict[bytes, _Runs] = {}
        self._order: deque[tuple[bytes, int, int]] = deque()
        """(session, number, count), the oldest first."""

    def add(self, session: bytes, number: int, count: int, position: int) -> None:
        self._runs.setdefault(session, _Runs()).add(number, count, position)
        self._order.append((session, number, count))
        if len(self._order) > MOST_RUNS:
            oldest, first, many = self._order.popleft()
            runs = self._runs[oldest]
            runs.cut(first, many)
            if not runs.runs:
                del self._runs[oldest]

    def find(self, session: bytes, number: int) -> tuple[int, int] | None:
        """(position, how many follow it, with it)."""
        runs = self._runs.get(session)
        return None if runs is None else runs.find(number)

    def clear(self) -> None:
        self._runs.clear()
        self._order.clear()
