"""The positions of messages in the log: one index for all authors, and the futures that wait for a position.

An author's messages become green in the order of their counters. So a batch costs one comparison with the first
waiter for its author, and a message costs nothing. The index covers the last batches, of all authors together; `None`
means that a message is green but not in the index.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count

from reconvene.errors import ReconveneError

__all__ = ["Places", "Ranges", "joined"]

Ranges = list[tuple[int, int]]
"""(position, count) …, in the order of the messages."""

_KEPT = 65_536
"""Batches in the index."""
_LOOK_AT = 1_024
"""When this many wait for one author, cancelled waiters are removed; the next time at twice as many as are left."""


class _Author:
    __slots__ = ("counts", "firsts", "last", "look_at", "positions", "start", "waiting")

    def __init__(self, last: int) -> None:
        self.last = last
        """The counter of its last green message."""
        self.firsts: list[int] = []
        self.counts: list[int] = []
        self.positions: list[int] = []
        """First counter, count and position of its batches in the index, which follow each other without gaps."""
        self.start = 0
        """How many of them, from the first on, are out of the index and not removed from the lists yet."""
        self.waiting: list[tuple[int, int, asyncio.Future[Ranges | None], int]] = []
        """A heap: (last counter, order, future, first counter)."""
        self.look_at = _LOOK_AT


class Places:
    def __init__(self) -> None:
        self._authors: dict[str, _Author] = {}
        self._order = count()
        self._indexed: deque[_Author] = deque()
        """The author of each batch in the index, the oldest batch first."""

    @property
    def waiting(self) -> int:
        return sum(len(author.waiting) for author in self._authors.values())

    # -- questions

    def ordered(self, author: str, first: int, many: int) -> "asyncio.Future[Ranges | None]":
        """Done once `many` messages of an author, from counter `first` on, are green. The result is what `find`
        returns then."""
        future: asyncio.Future[Ranges | None] = asyncio.get_running_loop().create_future()
        known = self._author(author)
        last = first + many - 1
        if last <= known.last:
            future.set_result(_find(known, first, last))
            return future
        heappush(known.waiting, (last, next(self._order), future, first))
        if len(known.waiting) >= known.look_at:
            known.waiting = [waiting for waiting in known.waiting if not waiting[2].done()]
            heapify(known.waiting)
            known.look_at = max(_LOOK_AT, 2 * len(known.waiting))
        return future

    def find(self, author: str, first: int, many: int) -> Ranges | None:
        """The positions of `many` green messages of an author, from counter `first` on. None: some are not
        indexed."""
        return _find(self._author(author), first, first + many - 1)

    # -- what happens in the log

    def restart(self, lasts: Mapping[str, int]) -> None:
        """Clears the index. `lasts`: by author, the counter of its last green message; the positions are unknown."""
        self._indexed.clear()
        for name in dict.fromkeys((*self._authors, *lasts)):
            author = self._author(name)
            author.firsts, author.counts, author.positions, author.start = [], [], [], 0
            self._reached(author, max(author.last, lasts.get(name, 0)))

    def look_back(self, batches: Iterable[tuple[str, int, int, int]]) -> None:
        """Fills the index at the start, with (author, first counter, count, position) of the last green batches."""
        for name, first, many, position in batches:
            self._add(self._author(name), first, many, position)

    def green(self, name: str, first: int, many: int, position: int) -> None:
        """A batch of that author has become green."""
        author = self._author(name)
        self._add(author, first, many, position)
        self._reached(author, first + many - 1)

    def fail(self, author: str, error: ReconveneError) -> None:
        """Fails all waiters for this author: none of its further messages becomes green."""
        known = self._author(author)
        waiting, known.waiting = known.waiting, []
        for _, _, future, _ in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as retrieved: the client may have given up

    def close(self, error: ReconveneError) -> None:
        for author in list(self._authors):
            self.fail(author, error)

    def _author(self, name: str) -> _Author:
        author = self._authors.get(name)
        if author is None:
            author = self._authors[name] = _Author(0)
        return author

    def _add(self, author: _Author, first: int, many: int, position: int) -> None:
        author.firsts.append(first)
        author.counts.append(many)
        author.positions.append(position)
        self._indexed.append(author)
        if len(self._indexed) > _KEPT:
            oldest = self._indexed.popleft()
            oldest.start += 1
            if 2 * oldest.start > len(oldest.firsts):
                cut, oldest.start = oldest.start, 0
                del oldest.firsts[:cut], oldest.counts[:cut], oldest.positions[:cut]

    def _reached(self, author: _Author, counter: int) -> None:
        author.last = counter
        while author.waiting and author.waiting[0][0] <= counter:
            last, _, future, first = heappop(author.waiting)
            if not future.done():
                future.set_result(_find(author, first, last))


def _find(author: _Author, first: int, last: int) -> Ranges | None:
    at = bisect_right(author.firsts, first) - 1
    if at < author.start:
        return None
    found: Ranges = []
    while first <= last and at < len(author.firsts):
        skipped = first - author.firsts[at]
        some = min(author.counts[at] - skipped, last - first + 1)
        found.append((author.positions[at] + skipped, some))
        first, at = first + some, at + 1
    if first <= last:
        return None
    return found if len(found) == 1 else joined(found)


def joined(ranges: Ranges) -> Ranges:
    """The same ranges, with adjacent ones merged."""
    found: Ranges = []
    for position, many in ranges:
        if found and sum(found[-1]) == position:
            found[-1] = (found[-1][0], found[-1][1] + many)
        else:
            found.append((position, many))
    return found
