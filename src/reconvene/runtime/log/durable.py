"""Appends that wait until they are on stable storage at this site.

Own messages become durable in the order of their counters. So a sync costs one comparison with the first waiter, and
a message costs nothing.
"""

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count

from reconvene.errors import ReconveneError

__all__ = ["DurableWaiters"]

_LOOK_AT = 1_024
"""When this many wait, cancelled waiters are removed; the next time at twice as many as are left."""


class DurableWaiters:
    def __init__(self, durable: int) -> None:
        """`durable`: the counter up to which own messages are on stable storage."""
        self._durable = durable
        self._order = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._look_at = _LOOK_AT

    def when(self, counter: int) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if counter <= self._durable:
            future.set_result(None)
            return future
        heappush(self._waiting, (counter, next(self._order), future))
        if len(self._waiting) >= self._look_at:
            self._waiting = [waiting for waiting in self._waiting if not waiting[2].done()]
            heapify(self._waiting)
            self._look_at = max(_LOOK_AT, 2 * len(self._waiting))
        return future

    def reached(self, counter: int) -> None:
        """Own messages up to this counter are on stable storage."""
        self._durable = max(self._durable, counter)
        while self._waiting and self._waiting[0][0] <= counter:
            future = heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: ReconveneError) -> None:
        """Fails all waiters: no further message becomes durable under the present counters."""
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as retrieved: the client may have given up
