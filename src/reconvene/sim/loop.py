"""Virtual time: what happens next, and nothing else.

Given: handlers with the time at which they are to be called.
Promised: they are called in the order of their times, and of their scheduling where times are equal, which makes
a run the same whenever its handlers are.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

__all__ = ["NEVER", "Loop"]

NEVER = 1 << 62


class Loop:
    # Handlers and arguments meet again only when called, so their types can't be told apart here.
    __slots__ = ("heap", "now", "sequence")

    def __init__(self) -> None:
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self.sequence = count()

    def at(self, time: int, handler: Callable[[Any], None], argument: Any = None) -> None:
        assert time >= self.now, "nothing happens in the past"
        heappush(self.heap, (time, next(self.sequence), handler, argument))

    def run(self, until: int) -> None:
        """Everything up to and including `until`, which is then the time."""
        heap = self.heap
        while heap and heap[0][0] <= until:
            self.now, _, handler, argument = heappop(heap)
            handler(argument)
        self.now = max(self.now, until)

    def step(self, until: int) -> bool:
        """The next handler if it is due by `until`; else the time is `until`, and False."""
        if not self.heap or self.heap[0][0] > until:
            self.now = max(self.now, until)
            return False
        self.now, _, handler, argument = heappop(self.heap)
        handler(argument)
        return True
