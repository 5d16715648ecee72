"""Server-sent events to one reader.

Promised: a reader that takes too little is cut off. What waits for it is bounded: by one write for a stream that
reads when it may write, and by its own limit for one that is given events.
"""

import asyncio
from collections.abc import Callable

import msgspec
from aiohttp import web

__all__ = ["CutOff", "EventResponse", "Stream", "sse"]

STALL_S = 30.0
"""A reader that does not take a piece in this time is cut off."""
PIECE_BYTES = 64 << 10
BEAT_S = 15.0
"""So often an idle stream sends a comment, so that proxies keep it and a dead reader is noticed."""
LOOK_S = 1.0
"""So often an idle stream looks whether its reader is gone."""
_BEAT = b":\n\n"
_RETRY_MS = 1_000


class CutOff(Exception):
    """The reader was too slow."""


class EventResponse(web.StreamResponse):
    cut_off = False
    """The reader was too slow."""


def sse(event: str, document: object, cursor: str | None = None) -> bytes:
    lines = b"" if cursor is None else b"id: %s\n" % cursor.encode()
    return lines + b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(document))


class Stream:
    def __init__(self, request: web.Request, cut: Callable[[], None], closing: asyncio.Event) -> None:
        """`cut` closes the connection at once. `closing`: the site stops."""
        self._request = request
        self.cut = cut
        self._closing = closing
        self._idle_s = 0.0
        self.response = EventResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})

    async def begin(self) -> None:
        self.response.headers["X-Content-Type-Options"] = "nosniff"
        self.response.force_close()
        await self.response.prepare(self._request)
        await self.write(b"retry: %d\n\n" % _RETRY_MS)

    @property
    def over(self) -> bool:
        """The site stops, or the reader is gone."""
        transport = self._request.transport
        return self._closing.is_set() or transport is None or transport.is_closing()

    async def write(self, data: bytes) -> None:
        """Raises CutOff, or ConnectionError if the reader is gone."""
        self._idle_s = 0.0
        for at in range(0, len(data), PIECE_BYTES):
            try:
                async with asyncio.timeout(STALL_S):
                    await self.response.write(data[at : at + PIECE_BYTES])
            except TimeoutError:
                raise CutOff from None

    async def idle(self, news: asyncio.Event) -> None:
        """Waits a while for news."""
        try:
            async with asyncio.timeout(LOOK_S):
                await news.wait()
        except TimeoutError:
            idle_s = self._idle_s + LOOK_S
            if idle_s >= BEAT_S and not self.over:
                await self.write(_BEAT)
            else:
                self._idle_s = idle_s
