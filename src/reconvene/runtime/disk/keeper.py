"""Writes to disk in a thread: a slow disk delays what depends on a write, and nothing else.

Given: the writes of turns, each with its token. Promised: tokens are reported in order, on the loop, once their
writes are synced. Everything that waits when a write begins goes into one transaction with one sync. While the disk
refuses, nothing is reported, the reason is in `trouble`, and the write is tried again.

One thread takes writes from a plain queue and calls back. A task and a future for each write would cost more than the
sync of a good disk. The thread begins the next write before the loop has handled the last one, so the disk does not
wait for the loop. The callers bound what waits: a site has few writes outstanding, and the log has its limits.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, Protocol

from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.stack.turn import Write
from reconvene.storage.tables import Op

__all__ = ["Keeper", "Writable"]

_RETRY_S = 1.0


class Writable(Protocol):
    """The part of storage.tables.Tables that a keeper needs."""

    def write(self, ops: Sequence[Op]) -> None: ...


class _Job(NamedTuple):
    ops: Sequence[Op]
    tokens: list[int]


class Keeper:
    """To be created on its loop, on which it calls back: `synced` with tokens, and `failed` with the reason each time
    that the disk begins to refuse."""

    def __init__(
        self,
        store: Writable,
        synced: Callable[[list[int]], None],
        failed: Callable[[str], None],
    ) -> None:
        self.trouble: str | None = None
        """Why the last write failed, until one succeeds."""
        self.commits = Histogram()
        self._began_at: float | None = None
        """When the write that is under way was first tried."""
        self._store = store
        self._synced = synced
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = Event()
        self._thread: Thread | None = None

    def write(self, writes: Sequence[Write]) -> None:
        """The writes of one turn go into one transaction."""
        self._jobs.put(_Job([op for write in writes for op in write.ops], [write.token for write in writes]))
        if self._thread is None:
            # Ending the process without closing is like a crash, which the store survives.
            self._thread = Thread(target=self._run, name="keeper", daemon=True)
            self._thread.start()

    def writing_s(self) -> float:
        began = self._began_at
        return 0.0 if began is None else time.monotonic() - began

    async def close(self) -> None:
        """Ends the thread. Pending writes are still done, but not tried again if the disk refuses. No callback is
        called any more."""
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
                return  # the loop is closed: nobody waits for the result

    def _next(self) -> tuple[_Job | None, bool]:
        """Everything that waits, as one write, and whether it is the last. Blocks while nothing waits."""
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
        """Tries until the write is durable; False if the thread is closed meanwhile."""
        self._began_at = time.monotonic()
        while True:
            began = time.monotonic()
            try:
                self._store.write(job.ops)
                self.commits.note(time.monotonic() - began)
                self._began_at = None
                return True
            except Exception as error:
                # Any exception counts: whatever the reason, the write is not durable, and the thread must not end
                # silently.
                self._loop.call_soon_threadsafe(self._refused, str(error))
            if self._closing.wait(_RETRY_S):
                return False
