"""A site's disk in virtual time.

Given: what a site wants written. Promised, as runtime.disk.keeper does: all that waits when a write begins goes into
one transaction, which takes some time and is durable as a whole or not at all; tokens come back in order; what the
disk refuses is tried again, and the reason is reported. A crash loses what was not durable. Whether a write that was
under way made it is drawn from the seed: then it is durable, and the site does not know it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from errno import EIO, ENOSPC
from os import strerror
from pathlib import Path
from random import Random
from typing import NamedTuple

from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.sim.disk import LEAST_NS, MOST_NS
from reconvene.sim.loop import Loop
from reconvene.stack.turn import Write
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Clear, Op, Put

__all__ = ["SimDisk"]

_RETRY_NS = 1_000_000_000


class _Job(NamedTuple):
    ops: list[Op]
    tokens: list[int]


class SimDisk:
    """A runtime.outside.Disk. It outlives the processes of its machine."""

    def __init__(self, timeline: Loop, random: Random) -> None:
        self.timeline = timeline
        self.store = SimStore(self)
        self.errno = 0
        """Why it refuses to write; 0: it does not."""
        self.slower_ns = 0
        """What a sync takes on top of its usual time."""
        self._random = random
        self._keeper: SimKeeper | None = None

    def open(self, path: Path, max_bytes: int) -> "SimStore":
        return self.store

    def keeper(
        self, store: object, synced: Callable[[list[int]], None], failed: Callable[[str], None]
    ) -> "SimKeeper":
        assert store is self.store
        self._keeper = SimKeeper(self, synced, failed)
        return self._keeper

    # -- faults

    def fill(self) -> None:
        self.errno = ENOSPC

    def fail(self) -> None:
        self.errno = EIO

    def mend(self) -> None:
        self.errno = 0
        self.slower_ns = 0

    def crash(self) -> None:
        """The process that wrote is gone."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.crash(completes=self._random.random() < 0.5)

    # -- what a write meets

    def sync_ns(self) -> int:
        return self._random.randint(LEAST_NS, MOST_NS) + self.slower_ns

    def check(self) -> None:
        """Raises OSError where it refuses."""
        if self.errno:
            raise OSError(self.errno, strerror(self.errno))


class SimStore(MemoryTables):
    """A runtime.outside.Store: all that is durable."""

    __slots__ = ("_disk", "used_bytes")

    def __init__(self, disk: SimDisk) -> None:
        super().__init__()
        self._disk = disk
        self.used_bytes = 0

    def get(self, key: bytes | str) -> bytes | None:
        return super().get(key.encode() if isinstance(key, str) else key)

    def room(self) -> None:
        """It has no size."""

    def put(self, values: Mapping[str, bytes]) -> None:
        self.write([Put(key.encode(), value) for key, value in values.items()])

    def write(self, ops: Sequence[Op]) -> None:
        self._disk.check()
        super().write(ops)

    def _put(self, key: bytes, value: bytes) -> None:
        self.used_bytes += len(value) - len(self._values[key]) if key in self._values else len(key) + len(value)
        super()._put(key, value)

    def _delete(self, key: bytes) -> None:
        self.used_bytes -= len(key) + len(self._values[key]) if key in self._values else 0
        super()._delete(key)

    def _clear(self, op: Clear) -> None:
        self.used_bytes -= sum(len(key) + len(self._values[key]) for key in self._between(op.start, op.end))
        super()._clear(op)


class SimKeeper:
    """A runtime.outside.Keeping, of one life of the site."""

    def __init__(self, disk: SimDisk, synced: Callable[[list[int]], None], failed: Callable[[str], None]) -> None:
        self.trouble: str | None = None
        self.commits = Histogram()
        self._began_ns = 0
        self._disk = disk
        self._synced = synced
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._jobs: list[_Job] = []
        self._writing: _Job | None = None
        self._closing: asyncio.Future[None] | None = None
        self._over = False

    def write(self, writes: Sequence[Write]) -> None:
        self._jobs.append(_Job([op for write in writes for op in write.ops], [write.token for write in writes]))
        if self._writing is None:
            self._begin()

    def writing_s(self) -> float:
        return 0.0 if self._writing is None else (self._disk.timeline.now - self._began_ns) / 1e9

    async def close(self) -> None:
        if self._writing is not None:
            self._closing = self._loop.create_future()
            await self._closing
        self._over = True

    def crash(self, completes: bool) -> None:
        if self._writing is not None and completes and not self._over and not self._disk.errno:
            self._disk.store.write(self._writing.ops)
        self._over = True

    # -- the disk at work

    def _begin(self) -> None:
        jobs, self._jobs = self._jobs, []
        self._began_ns = self._disk.timeline.now
        self._writing = _Job([op for job in jobs for op in job.ops], [token for job in jobs for token in job.tokens])
        self._try()

    def _try(self, _: object = None) -> None:
        if not self._over:
            self._disk.timeline.at(self._disk.timeline.now + self._disk.sync_ns(), self._end)

    def _end(self, _: object) -> None:
        job = self._writing
        if self._over or job is None:
            return
        try:
            self._disk.store.write(job.ops)
        except OSError as error:
            if self._closing is not None:
                self._closed()
                return
            self._soon(self._refused, str(error))
            self._disk.timeline.at(self._disk.timeline.now + _RETRY_NS, self._try)
            return
        self._writing = None
        self.commits.note((self._disk.timeline.now - self._began_ns) / 1e9)
        if self._closing is None:
            self._soon(self._done, job)
        if self._jobs:
            self._begin()
        elif self._closing is not None:
            self._closed()

    def _closed(self) -> None:
        closing = self._closing
        self._over = True
        if closing is not None:
            self._soon(closing.set_result, None)

    # -- in the process

    def _soon(self, callback: Callable[..., object], argument: object) -> None:
        self._loop.call_soon(callback, argument, context=self._context)

    def _done(self, job: _Job) -> None:
        if self._closing is None:
            self.trouble = None
            self._synced(job.tokens)

    def _refused(self, why: str) -> None:
        first = self.trouble is None
        self.trouble = why
        if first and self._closing is None:
            self._failed(why)
