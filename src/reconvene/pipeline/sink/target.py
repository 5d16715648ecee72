"""The replica that a task, or the driver, writes to: one that can order, and has room."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from reconvene.client.blocking import Log
from reconvene.client.loop_thread import LoopThread
from reconvene.client.site import Site
from reconvene.errors import InvalidArgument, ReconveneError, Rejected, Unavailable
from reconvene.pipeline.source.options import Access
from reconvene.pipeline.source.replicas import open_site

__all__ = ["Target"]

_log = logging.getLogger("reconvene.pipeline")

_CONNECT_S = 10.0
"""At most, for one address."""
_PAUSES_S = (0.1, 2.0)
"""Between rounds over all addresses: the first and the longest."""


class Target:
    """`with Target(access, start) as target:` is connected to a replica; `target.log` is the log there. Where that
    one is lost, the client goes on at another by itself.

    start: which address is tried first, so that tasks spread. Raises Unavailable where for the access's timeout none
    answers that can order, Rejected where all that answer refuse.
    """

    def __init__(self, access: Access, start: int) -> None:
        at = start % len(access.addresses)
        self._addresses = (*access.addresses[at:], *access.addresses[:at])
        self._timeout_s = access.timeout_s
        self._access = replace(access, timeout_s=min(access.timeout_s, _CONNECT_S))
        self._thread = LoopThread()
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        try:
            self.log = Log(self._thread, self._thread.run(self._open()).log)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._thread.over:
            self._thread.run(self._stack.aclose())
            self._thread.close()

    async def _open(self) -> Site:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout_s
        pause, longest = _PAUSES_S
        while True:
            troubles: list[ReconveneError] = []
            for at in range(len(self._addresses)):
                try:
                    return await self._try((*self._addresses[at:], *self._addresses[:at]))
                except ReconveneError as error:
                    troubles.append(error)
            if all(isinstance(error, Rejected | InvalidArgument) for error in troubles):
                raise Rejected(f"no replica takes what is to be written: {'; '.join(map(str, troubles))}")
            if loop.time() + pause > end:
                raise Unavailable(
                    f"for {self._timeout_s:g} s no replica could take and order what is to be written: "
                    f"{'; '.join(map(str, troubles))}"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _try(self, addresses: Sequence[str]) -> Site:
        """The first of them, with the others to go on at. Raises Unavailable where it can't order now."""
        async with AsyncExitStack() as stack:
            site = await open_site(stack, self._access, addresses[:1], follower=False)
            if not (await site.log.status()).primary:
                raise Unavailable(f"{addresses[0]}: site {site.name} is in no component that can order")
        async with AsyncExitStack() as stack:
            site = await open_site(stack, self._access, addresses, follower=False)
            self._stack = stack.pop_all()
            return site
