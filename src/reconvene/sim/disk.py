"""Stable storage that takes its time, and forgets at a crash what it had not synced.

Given: batches of writes, each to be synced as one.
Promised: batches become durable whole and in their order, and only then are reported; a crash keeps those that
were durable and nothing else.
"""

from collections.abc import Callable
from random import Random

from reconvene.core.effects import Persist
from reconvene.sim.loop import Loop

__all__ = ["Disk"]

LEAST_NS = 200_000
MOST_NS = 2_000_000


class Disk:
    __slots__ = ("_busy_until", "_crashes", "_loop", "_random", "_synced", "durable")

    def __init__(self, loop: Loop, random: Random, synced: Callable[[list[int]], None]) -> None:
        self.durable: dict[str, bytes] = {}
        self._loop = loop
        self._random = random
        self._synced = synced
        self._busy_until = 0
        self._crashes = 0

    def put(self, key: str, value: bytes) -> None:
        """Written and synced at once: how a process boots, before it does anything else."""
        self.durable[key] = value

    def write(self, batch: list[Persist]) -> None:
        start = max(self._loop.now, self._busy_until)
        self._busy_until = start + self._random.randint(LEAST_NS, MOST_NS)
        self._loop.at(self._busy_until, self._complete, (self._crashes, batch))

    def stall(self, for_ns: int) -> None:
        """Syncs that begin from now on wait this long first."""
        self._busy_until = max(self._loop.now, self._busy_until) + for_ns

    def crash(self) -> None:
        self._crashes += 1
        self._busy_until = 0

    def _complete(self, item: tuple[int, list[Persist]]) -> None:
        crashes, batch = item
        if crashes != self._crashes:
            return
        for write in batch:
            self.durable[write.key] = write.value
        self._synced([write.token for write in batch])
