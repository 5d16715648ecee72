"""The way through a range of positions: at whichever replica has what comes next.

Promised: every position of the range once, in order. Where a replica dies, is behind, or no longer has what comes
next, another one is asked for exactly what follows, since positions are the same at all of them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from reconvene.client.log import Log
from reconvene.client.loop_thread import LoopThread
from reconvene.client.site import Site
from reconvene.entries import EntryBatch, Truncated
from reconvene.errors import Malformed, ReconveneError, Rejected, Unavailable
from reconvene.pipeline.source.options import Access
from reconvene.pipeline.source.replicas import open_site

__all__ = ["How", "Lost", "Route", "read_batches", "read_headings"]

_log = logging.getLogger("reconvene.source")

_STALL_S = 2.0
"""Without anything new, for another replica to be asked."""
_LOOK_S = 0.05
"""Between two looks at whether the connection still stands."""
_PAUSES_S = (0.1, 2.0)
"""After a round over all replicas: the first pause, and the longest."""
_COMPLAIN_S = 30.0
"""How often a reader that waits reports it."""
_TOGETHER = 16_384
"""Messages that are handed over together, more or less."""


class Lost(Rejected):
    """Positions that were asked for are truncated at every replica that answers; `base` is the first that is not."""

    def __init__(self, position: int, base: int) -> None:
        super().__init__(
            f"position {position} is not in the log any more: it was truncated, and begins at {base}; start at "
            f"{base} or later, or set failOnDataLoss to false to go on there"
        )
        self.position = position
        self.base = base


class How(Struct, frozen=True):
    """How a range is read."""

    first: int = 0
    """Which of the addresses is asked first."""
    patient: bool = False
    """It waits for a replica for as long as it takes; else it raises Unavailable where there is no progress for the
    time that `access` gives."""
    fail_on_loss: bool = True
    """False: what was truncated is left out, with a warning; else it raises Lost."""


class Placed(Protocol):
    @property
    def end(self) -> int: ...


P = TypeVar("P", bound=Placed)
Opening = Callable[[Log, int, int], AsyncIterator[list[P]]]


class Route(Generic[P]):
    """`opening` gives what a log has from a position on and before another; it may end early, or wait."""

    def __init__(self, access: Access, start: int, stop: int, opening: Opening[P], how: How) -> None:
        self.position = start
        self._stop = stop
        self._access = access
        self._opening = opening
        self._patient = how.patient
        self._next = how.first
        """Which address is asked next."""
        self._stack = AsyncExitStack()
        self._site: Site | None = None
        self._found: AsyncIterator[list[P]] | None = None
        self._bases: dict[str, int] = {}
        """By address, of those that have truncated what comes next: since the last progress, as all below."""
        self._why: dict[str, str] = {}
        self._asked = 0
        self._progress_at = self._complained_at = time.monotonic()

    async def next(self) -> list[P] | None:
        """What comes next; None at the end. Raises Lost, Unavailable."""
        while self.position < self._stop:
            address = self._access.addresses[self._next % len(self._access.addresses)]
            try:
                some = await self._take(address)
            except Truncated as error:
                self._bases[address] = error.first
                await self._leave(f"{address}: {error}")
            except (ReconveneError, TimeoutError) as error:
                await self._leave(str(error) or f"{address}: has nothing from position {self.position} on yet")
            else:
                self.position = some[-1].end
                self._bases.clear()
                self._why.clear()
                self._asked = 0
                self._progress_at = self._complained_at = time.monotonic()
                return some
        await self.close()
        return None

    def skip_to(self, position: int) -> None:
        """Goes on there."""
        self.position = position
        self._bases.clear()

    async def close(self) -> None:
        stack, self._stack = self._stack, AsyncExitStack()
        self._site = self._found = None
        await stack.aclose()

    async def _take(self, address: str) -> list[P]:
        if self._site is None or self._found is None:
            self._site = await open_site(self._stack, self._access, address)
            self._found = self._opening(self._site.log, self.position, self._stop)
        coming = asyncio.ensure_future(anext(self._found, None))
        try:
            end = time.monotonic() + _STALL_S
            while not (await asyncio.wait([coming], timeout=_LOOK_S))[0]:
                if not self._site.connected:
                    raise Unavailable(f"{address}: the connection was lost")
                if time.monotonic() > end:
                    raise TimeoutError
            some = coming.result()
        finally:
            coming.cancel()
        if not some:
            raise TimeoutError  # it ends before the range does: it is behind
        return some

    async def _leave(self, why: str) -> None:
        """For the next address. Raises where there is no use in going on."""
        await self.close()
        addresses = self._access.addresses
        self._why[addresses[self._next % len(addresses)]] = why
        self._next += 1
        self._asked += 1
        if self._asked % len(addresses):
            return
        now = time.monotonic()
        late = now - self._progress_at > self._access.timeout_s
        if self._bases and (late or len(self._bases) == len(addresses)):
            raise Lost(self.position, min(self._bases.values()))
        trouble = f"no replica has positions {self.position} to {self._stop - 1}: {'; '.join(self._why.values())}"
        if late and not self._patient:
            raise Unavailable(f"{trouble}; start one, or correct `addresses`")
        if now - self._complained_at > _COMPLAIN_S:
            self._complained_at = now
            _log.warning("waiting: %s", trouble)
        first, longest = _PAUSES_S
        await asyncio.sleep(min(longest, first * 2.0 ** min(self._asked // len(addresses), 10)))


def read_batches(thread: LoopThread, access: Access, start: int, stop: int, how: How) -> Iterator[list[EntryBatch]]:
    """All kinds of batches, cut to the range."""
    return _walk(thread, Route(access, start, stop, _batches, how), how.fail_on_loss)


def read_headings(thread: LoopThread, access: Access, start: int, stop: int, how: How) -> Iterator[list[EntryBatch]]:
    """The first is cut at `start`; the last may go on beyond `stop`."""
    return _walk(thread, Route(access, start, stop, _headings, how), how.fail_on_loss)


def _walk(thread: LoopThread, route: Route[P], fail_on_loss: bool) -> Iterator[list[P]]:
    try:
        while True:
            try:
                some = thread.run(route.next())
            except Lost as lost:
                if fail_on_loss:
                    raise
                _log.warning("positions %d to %d were truncated, and are left out", lost.position, lost.base - 1)
                route.skip_to(lost.base)
                continue
            if some is None:
                return
            yield some
    finally:
        if not thread.over:
            thread.run(route.close())


async def _headings(log: Log, start: int, stop: int) -> AsyncIterator[list[EntryBatch]]:
    async for some in log.headings(start, stop):
        yield some


async def _batches(log: Log, start: int, stop: int) -> AsyncIterator[list[EntryBatch]]:
    follow = log.follow(start, stop=stop, control=True)
    while True:
        some: list[EntryBatch] = []
        messages = 0
        while (batch := await follow.next_batch()) is not None:
            if not batch.messages:
                raise Malformed("an empty batch of the log")
            some.append(batch)
            messages += len(batch.messages)
            if messages >= _TOGETHER or not follow.ready():
                break
        if not some:
            return
        yield some
