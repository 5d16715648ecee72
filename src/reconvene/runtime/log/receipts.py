"""Who waits for this site's own messages: to be durable here, and to have their place in the order.

Both come about in the order of counters. So a batch costs one comparison with the first who waits, and a message
nothing. Positions of the last own batches are kept, for who asks late.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from reconvene.corel.batch import Heading
from reconvene.errors import ReconveneError, Unavailable

__all__ = ["Receipts"]

_KEPT = 50_000
"""Own batches whose positions are known at once."""
_LOOK_AT = 1_024
"""That wait: from so many on, those that were given up are looked for; then again from twice as many as are left."""


class Receipts:
    """`durable`: the counter up to which own messages are on stable storage; `ordered`: up to which they're green."""

    def __init__(self, durable: int, ordered: int, known: Iterable[tuple[int, int]]) -> None:
        """`known`: (first counter, position) of own green batches without gaps, up to the last one, in order."""
        self.durable = durable
        self.ordered = ordered
        self._firsts: list[int] = []
        self._positions: list[int] = []
        for first, position in known:
            self._firsts.append(first)
            self._positions.append(position)
        self._order = count()
        self._until_durable: list[tuple[int, int, asyncio.Future[None]]] = []
        self._until_ordered: list[tuple[int, int, asyncio.Future[int]]] = []
        self._look_at = _LOOK_AT

    @property
    def waiting(self) -> int:
        return len(self._until_durable) + len(self._until_ordered)

    def when_durable(self, counter: int) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if counter <= self.durable:
            future.set_result(None)
        else:
            heappush(self._until_durable, (counter, next(self._order), future))
            self._forget_done()
        return future

    def when_ordered(self, counter: int) -> "asyncio.Future[int]":
        """Fails with Unavailable where it is green, and its position is not at hand."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if counter > self.ordered:
            heappush(self._until_ordered, (counter, next(self._order), future))
            self._forget_done()
        else:
            position = self.position(counter)
            if position is None:
                future.set_exception(_forgotten(counter))
            else:
                future.set_result(position)
        return future

    def _forget_done(self) -> None:
        """Those who stopped waiting: in a minority people give up, and ask again."""
        if self.waiting < self._look_at:
            return
        self._until_durable = [found for found in self._until_durable if not found[2].done()]
        self._until_ordered = [found for found in self._until_ordered if not found[2].done()]
        heapify(self._until_durable)
        heapify(self._until_ordered)
        self._look_at = max(_LOOK_AT, 2 * self.waiting)

    def position(self, counter: int) -> int | None:
        """Of an own green message; None: it is not at hand."""
        at = bisect_right(self._firsts, counter) - 1
        return None if at < 0 else self._positions[at] + counter - self._firsts[at]

    def accepted(self, last: int) -> None:
        """Own messages up to this counter are on stable storage."""
        self.durable = max(self.durable, last)
        waiting = self._until_durable
        while waiting and waiting[0][0] <= last:
            future = heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def green(self, batch: Heading, position: int) -> None:
        """An own batch has its place."""
        self._firsts.append(batch.first)
        self._positions.append(position)
        if len(self._firsts) > 2 * _KEPT:
            del self._firsts[:_KEPT], self._positions[:_KEPT]
        last = self.ordered = batch.last
        if last > self.durable:
            self.accepted(last)
        waiting = self._until_ordered
        while waiting and waiting[0][0] <= last:
            counter, _, future = heappop(waiting)
            if not future.done():
                future.set_result(position + counter - batch.first)

    def covered(self, last: int) -> None:
        """Another replica's snapshot holds own messages up to this counter: they are green, nobody knows where."""
        if last <= self.ordered:
            return
        self.ordered = last
        self._firsts.clear()
        self._positions.clear()
        self.accepted(last)
        waiting = self._until_ordered
        while waiting and waiting[0][0] <= last:
            counter, _, future = heappop(waiting)
            if not future.done():
                future.set_exception(_forgotten(counter))

    def fail(self, error: ReconveneError) -> None:
        """Nobody will be told any more."""
        failing: list[asyncio.Future[None] | asyncio.Future[int]] = [future for _, _, future in self._until_durable]
        failing += [future for _, _, future in self._until_ordered]
        self._until_durable.clear()
        self._until_ordered.clear()
        for future in failing:
            if not future.done():
                future.set_exception(error)
                future.exception()  # who stopped waiting need not be told


def _forgotten(counter: int) -> Unavailable:
    return Unavailable(f"message {counter} is ordered, but its position is not at hand any more: read the log")
