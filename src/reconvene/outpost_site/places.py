"""Where an outpost's messages are in the log, as far as it was told, and who waits for that."""

import asyncio
from bisect import bisect_right
from heapq import heappop, heappush
from itertools import count

from reconvene.errors import PlaceForgotten, ReconveneError

__all__ = ["OutpostPlaces"]

_KEPT = 100_000
"""Runs of messages whose places are remembered."""

Ranges = list[tuple[int, int]]


class OutpostPlaces:
    def __init__(self, name: str, green: int) -> None:
        """`green`: messages up to this counter are green, at places that are not known here."""
        self._name = name
        self._green = green
        self._firsts: list[int] = []
        self._runs: list[tuple[int, int]] = []
        """(count, position) of those; -1: not known."""
        self._order = count()
        self._waiting: list[tuple[int, int, int, asyncio.Future[Ranges | None]]] = []
        """A heap: (last counter, order, first counter, future)."""

    def add(self, first: int, many: int, position: int) -> None:
        """These are green."""
        self._firsts.append(first)
        self._runs.append((many, position))
        if len(self._firsts) > 2 * _KEPT:
            del self._firsts[:_KEPT], self._runs[:_KEPT]
        self._green = first + many - 1
        while self._waiting and self._waiting[0][0] <= self._green:
            last, _, start, future = heappop(self._waiting)
            if not future.done():
                self._answer(future, start, last)

    def find(self, first: int, many: int) -> "asyncio.Future[Ranges | None]":
        """Done once all of them are green. Fails with PlaceForgotten where a place is not known."""
        future: asyncio.Future[Ranges | None] = asyncio.get_running_loop().create_future()
        last = first + many - 1
        if last <= self._green:
            self._answer(future, first, last)
        else:
            heappush(self._waiting, (last, next(self._order), first, future))
        return future

    def _answer(self, future: "asyncio.Future[Ranges | None]", first: int, last: int) -> None:
        found: Ranges = []
        at = bisect_right(self._firsts, first) - 1
        while 0 <= at < len(self._firsts) and first <= last:
            many, position = self._runs[at]
            skip = first - self._firsts[at]
            some = min(many - skip, last - first + 1)
            if some <= 0 or position < 0:
                break
            if found and sum(found[-1]) == position + skip:
                found[-1] = (found[-1][0], found[-1][1] + some)
            else:
                found.append((position + skip, some))
            first, at = first + some, at + 1
        if first <= last:
            why = f"message {first} of outpost {self._name} is in the log, but its place is not known here any more"
            future.set_exception(PlaceForgotten(why))
            future.exception()  # marks it as retrieved: the client may have given up
        else:
            future.set_result(found)

    def close(self, error: ReconveneError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, _, future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()
