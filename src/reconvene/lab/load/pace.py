"""How many messages a writer with a given rate should have written by now."""

import time
from collections.abc import Iterator
from random import Random

__all__ = ["Pace", "bursts"]


class Pace:
    def __init__(self, catch_up_s: float) -> None:
        """After a delay, the writing of the last `catch_up_s` is made up for, and no more."""
        self._catch_up_s = catch_up_s
        self._done_until = time.monotonic()

    def due(self, rate: float) -> int:
        """How many messages to write now, at `rate` a second; 0 if it can't write, which is not made up for."""
        now = time.monotonic()
        if not rate:
            self._done_until = now
            return 0
        self._done_until = max(self._done_until, now - self._catch_up_s)
        count = int((now - self._done_until) * rate)
        self._done_until += count / rate
        return count


def bursts(count: int, random: Random, most: int) -> Iterator[int]:
    """`count` messages in bursts of random size."""
    while count > 0:
        burst = random.randint(1, min(count, most))
        count -= burst
        yield burst
