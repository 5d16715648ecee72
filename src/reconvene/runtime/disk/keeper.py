"""Writes beside the loop: a slow disk delays what depends on it, and nothing else.

Given: the writes of turns, each with its token. Promised: tokens come back in order, on the loop, once what they
stand for is synced; all that waits when a write begins goes into one transaction with one sync. Where the disk
refuses, nothing comes back, the reason is kept for everyone to see, and the write is tried again.

One thread takes from a plain queue and calls back; a task and a future for each write would cost more than the sync
of a good disk. It looks for more work before the loop has heard of the last, so the disk does not wait for the loop.
What waits is bounded by those who hand it over: a site has few writes outstanding, the log has its limits.
"""

import asyncio
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, Protocol

from reconvene.stack.turn import Write
from reconvene.storage.tables import Op

__all__ = ["Keeper", "Writable"]

_RETRY_S = 1.0


class Writable(Protocol):
    """What a keeper needs of storage.tables.Tables."""

    def write(self, ops: Sequence[Op]) -> None: ...


class _Job(NamedTuple):
    ops: Sequence[Op]
    tokens: list[int]


class Keeper:
    """Made on its loop. `synced` is called on it with tokens, `failed` with the reason once for each time that the
    disk begins to refuse."""

    def __init__(
        self,
        store: Writable,
        synced: Callable[[list[int]], None],
        failed: Callable[[str], None],
    ) -> None:
        self.trouble: str | None = None
        """Why the last write failed, until one succeeds."""
        self._store = store
        self._synced = synced
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = Event()
        self._thread: Thread | None = None

    def write(self, writes: Sequence[Write]) -> None:
        """A turn's: surely in one transaction."""
        self._jobs.put(_Job([op for write in writes for op in write.ops], [write.token for write in writes]))
        if self._thread is None:
            # A process that ends without closing is a crash like others, which the store survives.
            self._thread = Thread(target=self._run, name="keeper", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Ends the thread; what was handed over is still written, but what the disk refuses is given up.

        Nothing is called any more."""
        self._closing.set()
        if self._thread is not None:
            self._jobs.put(None)
            await self._loop.run_in_executor(None, self._thread.join)

    # -- on the loop

    def _done(self, job: _Job) -> None:
        if self._closing.is_set():
            return
        self.trouble = None
        self._synced(job.tokens)

    def _refused(self, why: str) -> None:
        if self._closing.is_set():
            return
        first = self.trouble is None
        self.trouble = why
        if first:
            self._failed(why)

    # -- in the thread

    def _run(self) -> None:
        closing = False
        while not closing:
            job, closing = self._next()
            try:
                if job is not None and self._kept(job):
                    self._loop.call_soon_threadsafe(self._done, job)
            except RuntimeError:
                return  # the loop is closed: there is no one left to tell

    def _next(self) -> tuple[_Job | None, bool]:
        """All that waits, as one, and whether it is the last; waits where there is nothing."""
        first = self._jobs.get()
        jobs: list[_Job | None] = [first]
        try:
            while jobs[-1] is not None:
                jobs.append(self._jobs.get_nowait())
        except Empty:
            pass
        closing = jobs[-1] is None
        found = [job for job in jobs if job is not None]
        if len(found) <= 1:
            return (found[0] if found else None), closing
        ops = [op for job in found for op in job.ops]
        return _Job(ops, [token for job in found for token in job.tokens]), closing

    def _kept(self, job: _Job) -> bool:
        """Tries until it is; False where it is given up."""
        while True:
            try:
                self._store.write(job.ops)
                return True
            except Exception as error:
                # Also one that no disk raises: whatever the reason, it is not durable, and no thread may end unseen.
                self._loop.call_soon_threadsafe(self._refused, str(error))
            if self._closing.wait(_RETRY_S):
                return False
