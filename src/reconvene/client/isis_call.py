"""A cast that asks for replies, as the process that asked has it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from reconvene.client.isis_events import ProcessFailed, Reply, Unreachable
from reconvene.errors import OutcomeTimedOut, OutcomeUnknown
from reconvene.ids import message_id

__all__ = ["Call", "CallItem", "OpenCall"]

CallItem = Reply | ProcessFailed | Unreachable


class Call:
    """From `cbcast`, `abcast` and `gbcast`. `async for reply in call` yields a Reply of each destination that
    answers, and a ProcessFailed of each that fails before it does, as they come; an Unreachable of each whose cluster
    is out of reach. It ends when as many have come as were asked for. A cast that asks for no replies has none."""

    __slots__ = ("_counter", "_ended", "_error", "_got", "_incarnation", "_site", "_until", "_waiter", "_whole")

    def __init__(self, site: str, incarnation: int, until: float | None) -> None:
        """`until`: by the loop's clock."""
        self._site = site
        self._incarnation = incarnation
        self._counter = 0
        self._until = until
        self._got: deque[CallItem] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._whole = False
        """The reader waits for all of it."""
        self._ended = False
        self._error: str | None = None

    @property
    def id(self) -> str:
        """SITE:INCARNATION:COUNTER of the cast, unique in the cluster; the same in traces. Of a cast to several
        clusters: CLUSTER/SITE:INCARNATION:COUNTER."""
        return message_id(self._site, self._incarnation, self._counter)

    def __aiter__(self) -> AsyncIterator[Reply | ProcessFailed | Unreachable]:
        """Raises OutcomeTimedOut at the cast's `timeout`, and OutcomeUnknown where this process was killed meanwhile:
        the cast may or may not have been received."""
        return self

    async def __anext__(self) -> Reply | ProcessFailed | Unreachable:
        while not self._got:
            if self._error is not None:
                raise OutcomeUnknown(self._error)
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        return self._got.popleft()

    async def replies(self) -> list[Reply | ProcessFailed | Unreachable]:
        """All that come, in a list."""
        while not self._ended:
            await self._wait(whole=True)
        return [reply async for reply in self]

    async def first(self) -> Reply:
        """The first reply. Raises OutcomeUnknown where every destination failed, or got out of reach, before it
        answered."""
        async for reply in self:
            if isinstance(reply, Reply):
                return reply
        raise OutcomeUnknown(f"cast {self.id}: no destination replied; those that failed may have received it")

    async def _wait(self, *, whole: bool = False) -> None:
        """`whole`: until the end, else until the next one."""
        if self._waiter is not None and not self._waiter.done():
            raise RuntimeError(f"the replies to cast {self.id} are being read already: one reader a call")
        self._waiter = asyncio.get_running_loop().create_future()
        self._whole = whole
        if self._until is None:
            await self._waiter
            return
        try:
            async with asyncio.timeout_at(self._until):
                await self._waiter
        except TimeoutError:
            raise OutcomeTimedOut(f"cast {self.id}: not all replies came in time") from None


class OpenCall(Call):
    """As the link has it."""

    __slots__ = ()

    def sent(self, counter: int) -> None:
        self._counter = counter

    def put(self, reply: CallItem) -> None:
        self._got.append(reply)
        if not self._whole:
            self._wake()

    def end(self, error: str | None = None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
