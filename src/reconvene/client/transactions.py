"""Transactions as readers see them: at a commit's place in the order, all messages that it names, or none."""

import asyncio
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from reconvene.client.log_link import LogLink
from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import TRANSACTION, Range
from reconvene.entries import EntryBatch, Truncated
from reconvene.errors import Malformed
from reconvene.wire.client_log import FETCH_BYTES, MOST_COLLECTED, Fetched

__all__ = ["Rows", "heed", "session_of"]

_NAME_BYTES = 32


def session_of(name: str) -> bytes:
    """Of a transaction: the session of its commits."""
    return TRANSACTION + blake2b(name.encode(), digest_size=_NAME_BYTES).digest()


class Rows:
    """Staged messages that a commit at `position` names, in the order of its list. What is read ahead is about a
    megabyte.

    A read that is cancelled loses nothing. Any site can be asked: positions are the same everywhere.
    """

    def __init__(self, link: LogLink, position: int, ranges: Iterable[Range]) -> None:
        self._link = link
        self._position = position
        self._left = deque(ranges)
        self._ready: deque[EntryBatch] = deque()
        self._ahead: asyncio.Task[Fetched] | None = None

    async def next(self) -> EntryBatch | None:
        """None at the end. Raises Truncated where some of it is not in the log any more."""
        while self._left and len(self._ready) < 2:  # one ahead: the last one has to say so
            await self._fetch()
        if not self._ready:
            return None
        batch = self._ready.popleft()
        return batch.at_commit(self._position, bool(self._ready), Kind.DATA)

    def ready(self) -> bool:
        """Whether `next` need not wait."""
        return len(self._ready) > 1 or not self._left

    async def _fetch(self) -> None:
        if self._ahead is None:
            self._ahead = self._ask()
        ahead = self._ahead
        try:
            chunk = await asyncio.shield(ahead)
        finally:
            if ahead.done():
                self._ahead = None
        if chunk.batches:
            self._take(chunk.batches)
            if self._left:
                self._ahead = self._ask()
            return
        position = self._left[0][0]
        if position < chunk.base:
            raise Truncated(
                f"the transaction that is committed at {self._position} has lost messages: it begins at {position}, "
                f"the log at {chunk.base}",
                self._position + 1,
            )
        # This site is behind the one that reported the commit: wait until it has these messages.
        await self._link.fetch(position, 1, 1, True)

    def _ask(self) -> "asyncio.Task[Fetched]":
        ranges = [self._left[at] for at in range(min(len(self._left), MOST_COLLECTED))]
        asked = asyncio.ensure_future(self._link.collect(ranges, FETCH_BYTES))
        asked.add_done_callback(heed)
        return asked

    def _take(self, batches: list[EntryBatch]) -> None:
        for batch in batches:
            position, count = self._left[0]
            if batch.position != position or len(batch) > count:
                raise Malformed(f"the site gave messages from {batch.position} on, not those from {position} on")
            if batch.kind == "staged":  # anything else is seen at its own place
                self._ready.append(batch)
            if len(batch) == count:
                self._left.popleft()
            else:
                self._left[0] = (position + len(batch), count - len(batch))


def heed(task: "asyncio.Future[Any]") -> None:
    """Marks its error as seen: the reader may have stopped."""
    if not task.cancelled():
        task.exception()
