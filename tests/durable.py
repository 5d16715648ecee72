"""Waits until a site's own messages are on stable storage there."""

import asyncio

from reconvene.errors import ReconveneError
from reconvene.runtime.log.interface import SiteLog
from reconvene.wire.client_log import Appended, Part

__all__ = ["durable"]


def durable(log: SiteLog, counter: int) -> "asyncio.Future[None]":
    """Done once the messages up to this counter are. Fails where that is not known."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(appended: Appended, error: ReconveneError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    log.durable.when(Appended(0, [Part(1, log.author, 1, counter, True)], 0), log.author, end)
    return future
