"""Stable storage that takes its time, and forgets at a crash what it had not synced.

Given: batches of writes, each to be synced as one: a site's values, and the log's operations with them.
Promised: batches become durable whole and in their order, and only then are reported; a crash keeps those that
were durable and nothing else. What is read is what is durable.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from reconvene.core.effects import Persist
from reconvene.sim.loop import Loop
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op, Put

__all__ = ["Disk"]

LEAST_NS = 200_000
MOST_NS = 2_000_000


class _Write(NamedTuple):
    crashes: int
    """How many there had been when it began: after another one it is forgotten."""
    batch: list[Persist]
    ops: Sequence[Op]
    log_token: int | None


class Disk:
    """`durable` has the site's values; `get`, `scan`, `last` and `keys` read the log's (storage.tables.Reader)."""

    __slots__ = (
        "_busy_until", "_crashes", "_logged", "_loop", "_random", "_refused", "_refuses_until", "_synced", "_tables",
        "durable", "sync_ns",
    )  # fmt: skip

    def __init__(
        self,
        loop: Loop,
        random: Random,
        synced: Callable[[list[int]], None],
        logged: Callable[[list[int]], None] | None = None,
    ) -> None:
        self.durable: dict[str, bytes] = {}
        self.sync_ns = (LEAST_NS, MOST_NS)
        """What a sync takes: anything between these."""
        self._tables = MemoryTables()
        self._loop = loop
        self._random = random
        self._synced = synced
        self._logged = logged
        self._busy_until = 0
        self._crashes = 0
        self._refuses_until = 0
        self._refused: list[_Write] = []

    # -- reading the log's

    def get(self, key: bytes) -> bytes | None:
        return self._tables.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._tables.scan(start, end)

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        return self._tables.last(start, end)

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return self._tables.keys(start, end)

    # -- writing

    def put(self, key: str, value: bytes) -> None:
        """Written and synced at once: how a process boots, before it does anything else."""
        self.durable[key] = value

    def put_log(self, ops: Sequence[Op]) -> None:
        """The same for the log's."""
        self._tables.write(ops)

    def write(self, batch: list[Persist], ops: Sequence[Op] = (), log_token: int | None = None) -> None:
        """One transaction. Its tokens come back by `synced`, and `log_token` by `logged`, in this order."""
        start = max(self._loop.now, self._busy_until)
        self._busy_until = start + self._random.randint(*self.sync_ns)
        self._loop.at(self._busy_until, self._complete, _Write(self._crashes, batch, ops, log_token))

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
        """The log's value under this key raises Malformed from now on, until another is written there."""
        self._tables.corrupt(key)

    def copy(self) -> tuple[dict[str, bytes], list[Op]]:
        """All that is durable, as a snapshot of the machine would have it."""
        return dict(self.durable), [Put(key, value) for key, value in self._tables.scan(b"", b"\xff" * 64)]

    def put_back(self, copy: tuple[dict[str, bytes], list[Op]]) -> None:
        """The disk is again what it was when it was copied. Its process must be down."""
        durable, ops = copy
        self.durable = dict(durable)
        self._tables = MemoryTables()
        self._tables.write(ops)

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
        for write in writes:
            for persist in write.batch:
                self.durable[persist.key] = persist.value
            self._tables.write(write.ops)
        # All of them are durable before the first is told of: to be told may end in a crash.
        for crashes, batch, _, log_token in writes:
            if batch and crashes == self._crashes:
                self._synced([persist.token for persist in batch])
            if log_token is not None and self._logged is not None and crashes == self._crashes:
                self._logged([log_token])
