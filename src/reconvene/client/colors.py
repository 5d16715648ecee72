"""Changes of colour, as a program reads them."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self

from reconvene.client.arguments import check_timeout
from reconvene.entries import ColorChange
from reconvene.errors import ReconveneError

__all__ = ["ColorChanges"]


class ColorChanges:
    """From `log.colors`. Read it from one task. The end of an `async with` block ends the watch at the site."""

    def __init__(self, changes: AsyncGenerator[list[ColorChange], None], timeout: float | None) -> None:
        self._changes = changes
        self._timeout = check_timeout(timeout)
        self._ready: deque[ColorChange] = deque()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._changes.aclose()

    def __aiter__(self) -> AsyncIterator[ColorChange]:
        return self

    async def __anext__(self) -> ColorChange:
        while not self._ready:
            try:
                async with asyncio.timeout(self._timeout):
                    self._ready.extend(await anext(self._changes))
            except TimeoutError as error:
                if isinstance(error, ReconveneError):
                    raise
                raise StopAsyncIteration from None
        return self._ready.popleft()
