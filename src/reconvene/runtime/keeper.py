"""Writes beside the loop: a slow disk delays what depends on it, and nothing else.

Given: what a turn wants persisted. Promised: tokens come back in order, on the loop, once their values are synced;
what arrives while a write is under way goes into the next one, together. Where the disk refuses, nothing comes back,
the reason is kept for everyone to see, and the write is tried again.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from reconvene.core.effects import Persist
from reconvene.storage.store import Store

__all__ = ["Keeper"]

_RETRY_S = 1.0


class Keeper:
    def __init__(self, store: Store, synced: Callable[[list[int]], None], failed: Callable[[str], None]) -> None:
        self.trouble: str | None = None
        """Why the last write failed, until one succeeds."""
        self._store = store
        self._synced = synced
        self._failed = failed
        self._waiting: list[Persist] = []
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeper")

    def persist(self, writes: list[Persist]) -> None:
        self._waiting += writes
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            writes, self._waiting = self._waiting, []
            values = {write.key: write.value for write in writes}
            while True:
                try:
                    await loop.run_in_executor(self._thread, self._store.put, values)
                    break
                except OSError as error:
                    if self.trouble is None:
                        self._failed(str(error))
                    self.trouble = str(error)
                    await asyncio.sleep(_RETRY_S)
            self.trouble = None
            self._synced([write.token for write in writes])
        self._writer = None

    async def close(self) -> None:
        """Ends the thread; a write that is under way is finished, one that the disk refuses is given up."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
