"""What one process has received by ISIS and its program has not read, with a limit.

There is one queue for all groups of the process: what it receives in one group may be caused by what it received in
another. Beyond the limit the process is cut off: what waits is dropped, the process leaves its groups, and its reader
gets an error with the reason.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from reconvene.client.isis_place import Place
from reconvene.core.groups import events
from reconvene.errors import ReconveneError, Unavailable
from reconvene.wire.client_isis import (
    IsisBlocked,
    IsisCasts,
    IsisFailed,
    IsisLeft,
    IsisViewed,
    IsisWideReceived,
    IsisWideTold,
)

__all__ = ["IsisQueue", "Item", "Renamed"]

_SMALL_BYTES = 200
_MEMBER_BYTES = 16


class Renamed(NamedTuple):
    """A place in the queue: the identity before it is over."""

    was: events.Process
    me: events.Process


Item = IsisCasts | IsisViewed | IsisLeft | IsisFailed | IsisBlocked | IsisWideReceived | IsisWideTold | Renamed


class IsisQueue:
    def __init__(self, limit_bytes: int, limit_messages: int, on_cut: Callable[[str], None]) -> None:
        self._limit_bytes = limit_bytes
        self._limit_messages = limit_messages
        self._on_cut = on_cut
        self._waiting: deque[tuple[Item, Place | None, int, int]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._bytes = 0
        self._messages = 0
        self.put_in = 0
        """Items that have come."""
        self.taken_out = 0
        """Of those: items that were read."""
        self._ended = False
        self._error: ReconveneError | None = None

    def put(self, item: Item, place: Place | None = None) -> None:
        if self._ended:
            return
        count = 1
        if type(item) is IsisCasts:
            count = len(item.payloads)
            size = sum(map(len, item.payloads))
        elif type(item) is IsisWideReceived:
            size = len(item.payload)
        else:
            size = _SMALL_BYTES + (_MEMBER_BYTES * len(item.members) if isinstance(item, IsisViewed) else 0)
        self._waiting.append((item, place, size, count))
        self.put_in += 1
        self._bytes += size
        self._messages += count
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if self._bytes > self._limit_bytes or self._messages > self._limit_messages:
            why = (
                f"{self._messages} casts of {self._bytes} bytes waited unread, beyond the limit of"
                f" {self._limit_messages} messages or {self._limit_bytes} bytes: this process was cut off"
            )
            self._waiting.clear()
            self.end(Unavailable(why))
            self._on_cut(why)

    @property
    def empty(self) -> bool:
        return not self._waiting

    def first(self) -> tuple[Item, Place | None]:
        item, place, _, _ = self._waiting[0]
        return item, place

    def drop_first(self) -> None:
        _, _, size, count = self._waiting.popleft()
        self.taken_out += 1
        self._bytes -= size
        self._messages -= count

    async def wait(self) -> bool:
        """Waits for the next item. Returns False if there will be none, or raises why."""
        while not self._waiting:
            if self._error is not None:
                raise type(self._error)(str(self._error))
            if self._ended:
                return False
            if self._waiter is not None and not self._waiter.done():
                raise RuntimeError("this process's events are being read already: one reader a process")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return True

    def end(self, error: ReconveneError | None) -> None:
        """Nothing more will be put. What waits can still be read; then the error is raised, or reading ends."""
        if not self._ended:
            self._ended = True
            self._error = error
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
