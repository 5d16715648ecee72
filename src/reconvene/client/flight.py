"""Messages on their way to the log together, and what became of them.

A flight is what one call appends, or all that single appends of one round of the loop bring: one request, one answer.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from reconvene.errors import OutcomeUnknown, ReconveneError
from reconvene.wire.client_log import Part

__all__ = ["Flight", "Landed", "gathered"]


class Landed(Struct, frozen=True):
    """They are on stable storage at a site."""

    parts: list[Part]
    """What became of them, in their order."""
    green: int
    """The green line then: no position is below it, but of what the log had before."""


class Flight:
    __slots__ = ("_order", "count", "landed", "messages", "number", "retried", "sent", "session", "size")

    def __init__(self, messages: list[bytes], session: bytes | None, number: int) -> None:
        self.messages = messages
        """None are kept once they have landed."""
        self.count = len(messages)
        self.size = sum(map(len, messages))
        self.session = session
        self.number = number
        self.sent = False
        """A site may have it."""
        self.retried = session is not None
        """It may have been sent before: by this process, or, under the program's own session, by an earlier one."""
        self.landed: asyncio.Future[Landed] = asyncio.get_running_loop().create_future()
        self._order: asyncio.Future[list[tuple[int, int]]] | None = None
        """Where they are, once someone has asked."""

    @property
    def order(self) -> "asyncio.Future[list[tuple[int, int]]] | None":
        """None: nobody has asked, or who did has been disappointed."""
        order = self._order
        if order is not None and order.done() and (order.cancelled() or order.exception() is not None):
            return None
        return order

    @order.setter
    def order(self, order: "asyncio.Future[list[tuple[int, int]]]") -> None:
        self._order = order

    def land(self, landed: Landed) -> None:
        self.messages = []
        if not self.landed.done():
            self.landed.set_result(landed)

    def fail(self, error: ReconveneError) -> None:
        self.messages = []
        if not self.landed.done():
            self.landed.set_exception(error)
            self.landed.exception()  # told to who waits; if nobody does any more, that is no fault

    def give_up(self, why: ReconveneError) -> None:
        """What was sent may have arrived, whatever happened then."""
        self.fail(OutcomeUnknown(f"{why}: it may or may not have been appended") if self.sent else why)


async def gathered(landed: Landed, find: Callable[[Part], Awaitable[list[tuple[int, int]]]]) -> list[tuple[int, int]]:
    """Where all parts are: (position, count) …; `find` waits for those that are not ordered yet."""
    places: list[tuple[int, int]] = []
    for part in landed.parts:
        if part.position is not None:
            places.append((part.position, part.count))
        elif part.author:
            places += await find(part)
        else:
            # Ordered, and nobody knows where: somewhere below the green line.
            places += [(max(landed.green - 1, 0), 1)] * part.count
    return places
