"""Waits until a site's own messages are on stable storage there."""

import asyncio

from reconvene.errors import ReconveneError
from reconvene.runtime.log.interface import SiteLog

__all__ = ["durable"]


def durable(log: SiteLog, counter: int) -> "asyncio.Future[None]":
    """Done once the messages up to this counter are. Fails where that is not known."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(error: ReconveneError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    log.durable.when(counter, end)
    return future
