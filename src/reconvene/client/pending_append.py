"""An append that is not answered yet: its messages, and what became of them.

It holds the messages of one call, or of all single appends of one round of the loop: one request, one answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from reconvene.corel.batch import Kind
from reconvene.errors import OutcomeTimedOut, OutcomeUnknown, PlaceForgotten, ReconveneError
from reconvene.wire.client_log import Appended, Part

__all__ = ["PendingAppend", "Runs", "gathered"]

T = TypeVar("T")
Runs = list[tuple[int | None, int]]
"""Where messages are, in their order: (position, count) …; None where the log no longer knows."""


class SharedWait:
    """Many callers wait for one future. A caller that gives up does not end the wait of the others. Cheaper than
    one `asyncio.shield` for each."""

    __slots__ = ("_future", "_waiting")

    def __init__(self, future: "asyncio.Future[T]") -> None:
        self._future = future
        self._waiting: list[asyncio.Future[None]] = []
        future.add_done_callback(self._wake)

    async def wait(self) -> None:
        if not self._future.done():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def _wake(self, future: "asyncio.Future[T]") -> None:
        if not future.cancelled():
            future.exception()  # raised at every caller that waits; it may be that none does
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class PendingAppend:
    __slots__ = (
        "__weakref__",
        "_order",
        "_ordering",
        "_waiting",
        "count",
        "durable",
        "kind",
        "messages",
        "number",
        "resent",
        "retried",
        "sent",
        "session",
        "size",
    )

    def __init__(self, messages: list[bytes], session: bytes | None, number: int, kind: Kind = Kind.DATA) -> None:
        self.messages = messages
        """Empty once they are answered."""
        self.count = len(messages)
        self.size = sum(map(len, messages))
        self.session = session
        self.number = number
        """The number of the first in the session, from 1 on; 0: `Appends` numbers them when it sends them."""
        self.kind = kind
        self.sent = False
        """A site may have it."""
        self.resent = False
        """It was sent before, over a connection that was lost: that site may have accepted it."""
        self.retried = session is not None
        """It may have been sent before: by this process, or, under the program's own session, by an earlier one."""
        self.durable: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._waiting = SharedWait(self.durable)
        self._order: asyncio.Future[Runs] | None = None
        """Where they are, once a caller has asked."""
        self._ordering: SharedWait | None = None

    async def accepted(self) -> Appended:
        """Waits until they are durable. Raises the error that was passed to `fail`."""
        await self._waiting.wait()
        return self.durable.result()

    async def ordered(self, find: "Callable[[PendingAppend], Coroutine[Any, Any, Runs]]") -> Runs:
        """Returns where they are. `find` is called once for all callers, and again if it failed."""
        order = self._order
        if order is None or (order.done() and (order.cancelled() or order.exception() is not None)):
            order = self._order = asyncio.ensure_future(find(self))
            self._ordering = SharedWait(order)
        assert self._ordering is not None, "it was made with the order"
        await self._ordering.wait()
        return order.result()

    def succeed(self, appended: Appended) -> None:
        self.messages = []
        if not self.durable.done():
            self.durable.set_result(appended)

    def fail(self, error: ReconveneError) -> None:
        self.messages = []
        if not self.durable.done():
            self.durable.set_exception(error)
            self.durable.exception()  # the loop may end before the callers are woken

    def give_up(self, why: ReconveneError) -> None:
        """Fails it: with an unknown outcome if it was sent, since it may have arrived."""
        if self.sent:
            unknown = OutcomeTimedOut if isinstance(why, TimeoutError) else OutcomeUnknown
            why = unknown(f"{why}: it may or may not have been appended")
        self.fail(why)


Find = Callable[[Part], Awaitable[list[tuple[int, int]]]]


async def gathered(appended: Appended, find: Find) -> Runs:
    """Where all parts are; `find` waits for those that are not ordered yet."""
    places: Runs = []
    for part in appended.parts:
        if part.position is not None:
            places.append((part.position, part.count))
        elif part.author:
            places += await _found(part, find)
        else:
            places.append((None, part.count))
    return places


async def _found(part: Part, find: Find) -> Runs:
    """The site answers for a part as a whole: where it no longer knows all places, the halves are asked for."""
    try:
        return [*await find(part)]
    except PlaceForgotten:
        if part.count == 1:
            return [(None, 1)]
    half = part.count // 2
    rest = replace(part, first=part.first + half, count=part.count - half)
    return await _found(replace(part, count=half), find) + await _found(rest, find)
