"""The way back: a client that went on at another site returns to the first of its addresses.

Given: a link that is connected, and not there. Promised: it moves when the first site lets it in, is in the primary
component, and has all of the log that this client has seen; and then at a quiet moment: nothing but reads that wait
for new entries is under way, which go on at the same position, and the client is in no group, since a membership ends
with its connection. So no call fails because of the move.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from reconvene.client.channel import Channel
from reconvene.client.requests import Requests
from reconvene.errors import ReconveneError
from reconvene.wire.client_log import LogStatus
from reconvene.wire.clients import Health
from reconvene.world import world

__all__ = ["Returning", "pauses"]

_log = logging.getLogger("reconvene.client")

_LOOK_S = (5.0, 60.0)
"""Between two looks at the first site: the first pause and the longest, each more or less by half."""
_QUIET_S = 5.0
"""How long a quiet moment is waited for before the site is asked once more how it is."""


class Moving(Protocol):
    """What this needs of the link that it is a part of."""

    requests: Requests
    timeout_s: float
    channel: Channel | None

    @property
    def quiet(self) -> bool: ...

    @property
    def seen(self) -> int:
        """The log's green line, as far as this client knows of it."""

    def move(self, channel: Channel) -> None:
        """This is the connection from now on; the present one is closed."""


class Returning:
    def __init__(self, link: Moving, home: Callable[[], Awaitable[Channel]]) -> None:
        """`home` connects to the first address. Raises ReconveneError."""
        self._link = link
        self._home = home
        self._task: asyncio.Task[None] | None = None
        self._ready: Channel | None = None
        """To the first site, which is well: only a quiet moment is waited for."""
        self._moved = asyncio.Event()

    def begin(self) -> None:
        """The link is connected to another site than the first."""
        self.end()
        self._moved.clear()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        """There is nowhere to return from."""
        if self._task is not None:
            self._task.cancel()
        self._ready = None

    async def close(self) -> None:
        """The link has ended: so has this, when it returns."""
        self.end()
        if self._task is not None:
            await asyncio.wait([self._task])

    def consider(self) -> None:
        """Something was answered: this may be a quiet moment."""
        ready = self._ready
        if ready is not None and not ready.closed and self._link.channel is not None and self._link.quiet:
            self._ready = None
            self._moved.set()
            self._link.move(ready)

    async def _run(self) -> None:
        for pause in pauses(*_LOOK_S):
            await asyncio.sleep(pause)
            try:
                await self._look()
            except ReconveneError as error:
                _log.debug("not back at the first site yet: %s", error)
            if self._moved.is_set():
                return

    async def _look(self) -> None:
        """Returns when the link has moved, or the first site is not well."""
        channel = await self._home()
        try:
            while not channel.closed and await self._is_well(channel):
                self._ready = channel
                self.consider()
                try:
                    async with asyncio.timeout(_QUIET_S):
                        await self._moved.wait()
                    return
                except TimeoutError:
                    self._ready = None
        finally:
            if not self._moved.is_set():
                self._ready = None
                channel.close()
                await channel.wait_closed()

    async def _is_well(self, channel: Channel) -> bool:
        requests = self._link.requests
        try:
            async with asyncio.timeout(self._link.timeout_s):
                if await requests.add(channel, Health(requests.number())) != "primary":
                    return False
                if not self._link.seen:
                    return True
                status = await requests.add(channel, LogStatus(requests.number()))
        except TimeoutError:
            return False
        green = status.get("green") if isinstance(status, dict) else None
        return isinstance(green, int) and green >= self._link.seen


def pauses(pause: float, longest: float) -> Iterator[float]:
    """Each twice the one before it, up to the longest; each more or less by half."""
    while True:
        yield pause * world().uniform(0.5, 1.5)
        pause = min(2 * pause, longest)
