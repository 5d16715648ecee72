"""Appends that wait until they are on stable storage at this site.

Own messages become durable in the order of their counters. So a sync costs one comparison with the first waiter, and
a message costs nothing.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from reconvene.errors import ReconveneError

__all__ = ["DurableWaiters"]

Then = Callable[[ReconveneError | None], None]
"""Called once: without an error when the messages are durable, with the error that leaves it unknown otherwise."""


class DurableWaiters:
    def __init__(self, durable: int) -> None:
        """`durable`: the counter up to which own messages are on stable storage."""
        self._durable = durable
        self._order = count()
        self._waiting: list[tuple[int, int, Then]] = []
        """A heap: (counter, order, then)."""

    def when(self, counter: int, then: Then) -> None:
        """Calls `then` once own messages up to this counter are on stable storage: at once, if they are."""
        if counter <= self._durable:
            then(None)
        else:
            heappush(self._waiting, (counter, next(self._order), then))

    def reached(self, counter: int) -> None:
        """Own messages up to this counter are on stable storage."""
        self._durable = max(self._durable, counter)
        while self._waiting and self._waiting[0][0] <= counter:
            heappop(self._waiting)[2](None)

    def restart(self, durable: int, error: ReconveneError) -> None:
        """Own messages are counted anew, and up to `durable` they are on stable storage. What waits fails: no further
        message becomes durable under the counters before."""
        waiting, self._waiting = self._waiting, []
        self._durable = durable
        for _, _, then in waiting:
            then(error)
