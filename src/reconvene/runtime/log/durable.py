"""Appends that wait until they are on stable storage at this site.

Own messages become durable in the order of their counters. So a sync costs one comparison with the first waiter, and
a message costs nothing.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from reconvene.errors import ReconveneError
from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.wire.client_log import Appended
from reconvene.world import world

__all__ = ["DurableWaiters"]

Then = Callable[[Appended, ReconveneError | None], None]
"""Called once, with the append: without an error when its messages are durable, with the error that leaves it unknown
otherwise."""


class DurableWaiters:
    def __init__(self, durable: int) -> None:
        """`durable`: the counter up to which own messages are on stable storage."""
        self.times = Histogram()
        """How long appends waited; not those that were durable already, as retries are."""
        self._durable = durable
        self._now = world().monotonic_ns
        self._order = count()
        self._waiting: list[tuple[int, int, Appended, Then, int]] = []
        """A heap: (counter, order, append, then, when it came)."""

    def when(self, appended: Appended, author: str, then: Then) -> None:
        """Calls `then` once those of the append's messages that are its author's own, and have no position, are on
        stable storage: at once, if they are."""
        counter = 0
        for part in appended.parts:
            if part.author == author and part.position is None:
                counter = max(counter, part.first + part.count - 1)
        if counter <= self._durable:
            then(appended, None)
        else:
            heappush(self._waiting, (counter, next(self._order), appended, then, self._now()))

    def reached(self, counter: int) -> None:
        """Own messages up to this counter are on stable storage."""
        self._durable = max(self._durable, counter)
        if not self._waiting or self._waiting[0][0] > counter:
            return
        now, note = self._now(), self.times.note
        while self._waiting and self._waiting[0][0] <= counter:
            _, _, appended, then, came = heappop(self._waiting)
            note((now - came) / 1e9)
            then(appended, None)

    def restart(self, durable: int, error: ReconveneError) -> None:
        """Own messages are counted anew, and up to `durable` they are on stable storage. What waits fails: no further
        message becomes durable under the counters before."""
        waiting, self._waiting = self._waiting, []
        self._durable = durable
        for _, _, appended, then, _ in waiting:
            then(appended, error)
