"""An append that is not answered yet: its messages, and what became of them.

It holds the messages of one call, or of all single appends of one round of the loop: one request, one answer.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from reconvene.client.time_limits import within
from reconvene.corel.batch import Kind
from reconvene.errors import OutcomeTimedOut, OutcomeUnknown, ReconveneError
from reconvene.wire.client_log import Appended

__all__ = ["APPEND_BYTES", "APPEND_MESSAGES", "PendingAppend", "Runs"]

APPEND_BYTES = 256 << 10
APPEND_MESSAGES = 4_096
"""What one append carries, but for one longer message."""

Runs = list[tuple[int | None, int]]
"""Where messages are, in their order: (position, count) …; None where the log no longer knows."""


class PendingAppend:
    __slots__ = (
        "__weakref__",
        "_appended",
        "_order",
        "_unordered",
        "_waiting",
        "count",
        "done",
        "error",
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
        self.size = sum(map(len, messages)) if messages else 0
        self.session = session
        self.number = number
        """The number of the first in the session, from 1 on; 0: `Appends` numbers them when it sends them."""
        self.kind = kind
        self.sent = False
        """A site may have it."""
        self.resent = False
        """It was sent before, over a connection that was lost: that site may have accepted it."""
        self.retried = number > 0
        """It may have been sent before: by this process, or, under the program's own session, by an earlier one."""
        self.done = False
        """It is answered: the messages are durable, or there is an error."""
        self.error: ReconveneError | None = None
        self._appended: Appended | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._order: asyncio.Future[Runs] | None = None
        """Where they are, once a caller has asked …"""
        self._unordered: list[asyncio.Future[None]] = []
        """… and those that wait for it."""

    async def accepted(self, timeout: float | None = None) -> Appended:
        """Waits until they are durable, for any number of callers. Each waits for a future of its own, so that one
        that gives up does not end the wait of the others: cheaper than `asyncio.shield` for each.

        Raises the error that it ended with, OutcomeTimedOut after `timeout` s."""
        if timeout is not None:
            return await within(timeout, self.accepted(), "durable")
        if not self.done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        if self._appended is None:
            return self.result()
        return self._appended

    def result(self) -> Appended:
        """Once it is done. Raises the error that it ended with."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # each caller raises it anew
        assert self._appended is not None, "an append is done with an answer or with an error"
        return self._appended

    async def ordered(self, find: "Callable[[PendingAppend], Coroutine[Any, Any, Runs]]") -> Runs:
        """Returns where they are. `find` is called once for all callers, and again if it failed."""
        order = self._order
        if order is None or (order.done() and (order.cancelled() or order.exception() is not None)):
            order = self._order = asyncio.ensure_future(find(self))
            self._unordered = []
            order.add_done_callback(partial(_found, self._unordered))
        if not order.done():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unordered.append(waiter)
            await waiter
        return order.result()

    def end(self, appended: Appended | None, error: ReconveneError | None = None) -> None:
        """The answer: what became of the messages, or an error."""
        if self.done:
            return
        self.done, self._appended, self.error = True, appended, error
        self.messages = []
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting = []

    def give_up(self, why: ReconveneError) -> None:
        """Fails it: with an unknown outcome if it was sent, since it may have arrived."""
        if self.sent:
            unknown = OutcomeTimedOut if isinstance(why, TimeoutError) else OutcomeUnknown
            why = unknown(f"{why}: it may or may not have been appended")
        self.end(None, why)


def _found(waiting: "list[asyncio.Future[None]]", order: "asyncio.Future[Runs]") -> None:
    if not order.cancelled():
        order.exception()  # raised at every caller that waits; it may be that none does
    for waiter in waiting:
        if not waiter.done():
            waiter.set_result(None)
