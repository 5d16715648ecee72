"""The log as a stream of events.

Promised: every message from the start on, in order, once. The event's id is its cursor, so that a reader goes on
after the last one that it has, at this site or another one. The log is read as fast as the reader takes it.
"""

import asyncio

from reconvene.entries import Truncated
from reconvene.errors import ReconveneError
from reconvene.runtime.http.api.documents import Failure, log_entry
from reconvene.runtime.http.api.pages import Cursor, read_page
from reconvene.runtime.http.api.refusals import REFUSED
from reconvene.runtime.http.api.streams import Stream, sse
from reconvene.runtime.log.interface import SiteLog
from reconvene.wire.client_log import FETCH_MESSAGES

__all__ = ["check_start", "follow"]


def check_start(port: SiteLog, start: Cursor) -> None:
    """Raises as `read_page` does."""
    port.check_readable()
    if start.position < port.base:
        raise Truncated(f"position {start.position} is not in the log any more: it begins at {port.base}", port.base)


async def follow(port: SiteLog, stream: Stream, at: Cursor, base64: bool) -> None:
    """Ends when the stream is over. Where the log can't be read on, the last event is an error."""
    news = asyncio.Event()
    unwatch = port.watch(lambda _: news.set())
    try:
        while not stream.over:
            news.clear()
            page = read_page(port, at, None, FETCH_MESSAGES)
            if page.entries:
                await stream.write(
                    b"".join(
                        sse("entry", log_entry(str(cursor), entry, base64), str(cursor))
                        for cursor, entry in page.entries
                    )
                )
            elif page.next == at:
                port.expect(at.position)
                await stream.idle(news)
            at = page.next
    except ReconveneError as error:
        await stream.write(sse("error", Failure(str(error), REFUSED)))
    finally:
        unwatch()
