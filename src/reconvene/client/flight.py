"""Messages on their way to the log together, and what became of them.

A flight is what one call appends, or all that single appends of one round of the loop bring: one request, one answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from reconvene.corel.batch import Kind
from reconvene.errors import OutcomeTimedOut, OutcomeUnknown, PlaceForgotten, ReconveneError
from reconvene.wire.client_log import Appended, Part

__all__ = ["Flight", "Runs", "gathered"]

T = TypeVar("T")
Runs = list[tuple[int | None, int]]
"""Where messages are, in their order: (position, count) …; None where the log no longer knows."""


class Crowd:
    """Many who wait for one future; who gives up does not end the others' wait. Cheaper than a shield for each."""

    __slots__ = ("_future", "_waiting")

    def __init__(self, future: "asyncio.Future[T]") -> None:
        self._future = future
        self._waiting: list[asyncio.Future[None]] = []
        future.add_done_callback(self._let_go)

    async def wait(self) -> None:
        if not self._future.done():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def _let_go(self, future: "asyncio.Future[T]") -> None:
        if not future.cancelled():
            future.exception()  # told to who waits; if nobody does any more, that is no fault
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class Flight:
    __slots__ = (
        "__weakref__",
        "_order",
        "_ordering",
        "_waiting",
        "count",
        "kind",
        "landed",
        "messages",
        "number",
        "retried",
        "sent",
        "session",
        "size",
    )

    def __init__(self, messages: list[bytes], session: bytes | None, number: int, kind: Kind = Kind.DATA) -> None:
        self.messages = messages
        """None are kept once they have landed."""
        self.count = len(messages)
        self.size = sum(map(len, messages))
        self.session = session
        self.number = number
        """Of the first of them in the session, from 1 on; 0: the link gives it when it sends them."""
        self.kind = kind
        self.sent = False
        """A site may have it."""
        self.retried = session is not None
        """It may have been sent before: by this process, or, under the program's own session, by an earlier one."""
        self.landed: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._waiting = Crowd(self.landed)
        self._order: asyncio.Future[Runs] | None = None
        """Where they are, once someone has asked."""
        self._ordering: Crowd | None = None

    async def arrived(self) -> Appended:
        """Waits until they have landed. Raises what `fail` was told."""
        await self._waiting.wait()
        return self.landed.result()

    async def ordered(self, find: "Callable[[Flight], Coroutine[Any, Any, Runs]]") -> Runs:
        """Where they are. `find` is asked once for all who wait, and again if it failed."""
        order = self._order
        if order is None or (order.done() and (order.cancelled() or order.exception() is not None)):
            order = self._order = asyncio.ensure_future(find(self))
            self._ordering = Crowd(order)
        assert self._ordering is not None, "it was made with the order"
        await self._ordering.wait()
        return order.result()

    def land(self, landed: Appended) -> None:
        self.messages = []
        if not self.landed.done():
            self.landed.set_result(landed)

    def fail(self, error: ReconveneError) -> None:
        self.messages = []
        if not self.landed.done():
            self.landed.set_exception(error)
            self.landed.exception()  # the loop may end before the crowd is told

    def give_up(self, why: ReconveneError) -> None:
        """What was sent may have arrived, whatever happened then."""
        if self.sent:
            unknown = OutcomeTimedOut if isinstance(why, TimeoutError) else OutcomeUnknown
            why = unknown(f"{why}: it may or may not have been appended")
        self.fail(why)


Find = Callable[[Part], Awaitable[list[tuple[int, int]]]]


async def gathered(landed: Appended, find: Find) -> Runs:
    """Where all parts are; `find` waits for those that are not ordered yet."""
    places: Runs = []
    for part in landed.parts:
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
