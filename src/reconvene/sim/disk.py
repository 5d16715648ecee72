"""Stable storage that takes its time, and forgets at a crash what it had not synced.

Given: the writes of turns, each to be synced as one.
Promised: they become durable whole and in their order, and only then are reported; a crash keeps those that were
durable and nothing else. What is read is what is durable.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from reconvene.sim.loop import Loop
from reconvene.stack.turn import Write
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op, Put

__all__ = ["Disk"]

LEAST_NS = 200_000
MOST_NS = 2_000_000


class _Write(NamedTuple):
    crashes: int
    """How many there had been when it began: after another one it is forgotten."""
    writes: Sequence[Write]


class Disk:
    """What is durable is read as from any tables (storage.tables.Reader)."""

    __slots__ = (
        "_busy_until", "_crashes", "_loop", "_random", "_refused", "_refuses_until", "_synced", "_tables", "sync_ns",
    )  # fmt: skip

    def __init__(self, loop: Loop, random: Random, synced: Callable[[int], None]) -> None:
        self.sync_ns = (LEAST_NS, MOST_NS)
        """What a sync takes: anything between these."""
        self._tables = MemoryTables()
        self._loop = loop
        self._random = random
        self._synced = synced
        self._busy_until = 0
        self._crashes = 0
        self._refuses_until = 0
        self._refused: list[_Write] = []

    # -- reading

    def get(self, key: bytes) -> bytes | None:
        return self._tables.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._tables.scan(start, end)

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        return self._tables.last(start, end)

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return self._tables.keys(start, end)

    # -- writing

    def put(self, ops: Sequence[Op]) -> None:
        """Written and synced at once: how a process boots, before it does anything else."""
        self._tables.write(ops)

    def write(self, writes: Sequence[Write]) -> None:
        """One transaction. The tokens come back by `synced`, one after the other."""
        start = max(self._loop.now, self._busy_until)
        self._busy_until = start + self._random.randint(*self.sync_ns)
        self._loop.at(self._busy_until, self._complete, _Write(self._crashes, writes))

    # -- faults

    def stall(self, for_ns: int) -> None:
        """Syncs that begin from now on wait this long first."""
        self._busy_until = max(self._loop.now, self._busy_until) + for_ns

    def refuse(self, for_ns: int) -> None:
        """A full disk: every write that would complete in this time fails, and is tried again after it, in order."""
        self._refuses_until = max(self._refuses_until, self._loop.now + for_ns)

    @property
    def trouble(self) -> str | None:
        """Why the last write failed, until one succeeds."""
        return "No space left on device" if self._refused else None

    def corrupt(self, key: bytes) -> None:
        """The value under this key raises Malformed from now on, until another is written there."""
        self._tables.corrupt(key)

    def copy(self) -> list[Op]:
        """All that is durable, as a snapshot of the machine would have it."""
        return [Put(key, value) for key, value in self._tables.scan(b"", b"\xff" * 64)]

    def put_back(self, copy: Sequence[Op]) -> None:
        """The disk is again what it was when it was copied. Its process must be down."""
        self._tables = MemoryTables()
        self._tables.write(copy)

    def crash(self) -> None:
        self._crashes += 1
        self._busy_until = 0
        self._refused.clear()

    def _complete(self, write: _Write) -> None:
        if write.crashes != self._crashes:
            return
        if self._refused:
            self._refused.append(write)  # it stays behind those that are tried again
        elif self._loop.now < self._refuses_until:
            self._refused.append(write)
            self._loop.at(self._refuses_until, self._try_again, self._crashes)
        else:
            self._report([write])

    def _try_again(self, crashes: int) -> None:
        if crashes != self._crashes:
            return
        if self._loop.now < self._refuses_until:
            self._loop.at(self._refuses_until, self._try_again, crashes)
            return
        refused, self._refused = self._refused, []
        self._report(refused)

    def _report(self, writes: list[_Write]) -> None:
        for each in writes:
            for write in each.writes:
                self._tables.write(write.ops)
        # All of them are durable before the first is reported: the report may end in a crash.
        for each in writes:
            for write in each.writes:
                if each.crashes == self._crashes:
                    self._synced(write.token)
