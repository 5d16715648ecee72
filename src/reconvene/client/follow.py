"""Reading the log in order, from any position on."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from reconvene.client.arguments import check_timeout
from reconvene.client.log_link import LogLink
from reconvene.client.time_limits import in_time
from reconvene.client.transactions import Rows
from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import Commit
from reconvene.entries import Entry, EntryBatch, Truncated, commit_of
from reconvene.errors import TimedOut
from reconvene.wire.client_log import FETCH_BYTES, FETCH_MESSAGES, Fetched

__all__ = ["Follow", "headings", "read", "staged"]

T = TypeVar("T")


class Follow:
    """An iterator over entries. Read it from one task; a read that is cancelled loses nothing. The end of an
    `async with` block drops what was read ahead.

    It reads ahead one chunk, of about half a megabyte. If the connection is lost, the next read waits until a site
    answers again, however long that takes. It goes on at the same position, at the same or another site: positions
    are the same everywhere. `Site.connected` says whether there is a connection now.
    """

    def __init__(self, link: LogLink, start: int, stop: int | None, control: bool) -> None:
        self._link = link
        self._stop = stop
        self._control = control
        self._next = start
        """The position after all that was fetched."""
        self._position = start
        self._batches: deque[EntryBatch] = deque()
        self._rows: tuple[EntryBatch, Rows] | None = None
        """A commit that it has come to, and what that makes visible."""
        self._entries: Iterator[Entry] = iter(())
        self._begun: EntryBatch | None = None
        """What `_entries` go through …"""
        self._at = start
        """… and the position after the last of them that was read."""
        self._ahead: asyncio.Task[Fetched] | None = None

    @property
    def position(self) -> int:
        """Where it goes on: all that is below it was read. Inside a transaction it is the commit's own position: a
        reader that goes on there reads the transaction from its beginning."""
        return self._position

    @property
    def control(self) -> bool:
        """Whether it also returns what is not the application's."""
        return self._control

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def __aiter__(self) -> AsyncIterator[Entry]:
        """Ends at `stop`, where there is one. Raises Truncated where the log no longer has what comes next."""
        return self

    async def __anext__(self) -> Entry:
        entry = await self._next_entry(None)
        if entry is None:
            raise StopAsyncIteration
        return entry

    async def entries(self, timeout: float | None = None) -> AsyncIterator[Entry]:
        """As `async for entry in follow`; with `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            try:
                entry = await self._next_entry(timeout)
            except TimedOut:
                return
            if entry is None:
                return
            yield entry

    async def _next_entry(self, timeout: float | None) -> Entry | None:
        while True:
            entry = next(self._entries, None)
            if entry is not None:
                assert self._begun is not None, "it is where entries come from"
                self._at = entry.position + 1
                self._position = self._begun.passed(self._at)
                return entry
            if self._begun is not None:
                self._position, self._begun = self._begun.next, None
            batch = await self._in_time(timeout, self._next_batch())
            if batch is None:
                return None
            self._begun, self._at = batch, batch.position
            self._entries = batch.entries(self._control)

    async def batches(self, timeout: float | None = None) -> AsyncIterator[EntryBatch]:
        """The same with many entries at a time: faster, since no object is made for each. Batches of changes come
        with `control` only; void messages are among the messages, and `void` says which. A reader goes on at the
        batch's `next`. With `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            try:
                batch = await self.next_batch(timeout)
            except TimedOut:
                return
            if batch is None:
                return
            yield batch

    async def next_batch(self, timeout: float | None = None) -> EntryBatch | None:
        """The next of `batches`; None at the end. What is left of a batch that was begun entry by entry comes first.
        Raises TimeoutError where nothing comes in `timeout` s. May be cancelled: nothing is lost."""
        return await self._in_time(timeout, self._next_of_application())

    async def _next_of_application(self) -> EntryBatch | None:
        while True:
            batch = await self.next_of_any_kind()
            if batch is None or batch.kind == "data" or self._control:
                return batch

    async def next_of_any_kind(self, timeout: float | None = None) -> EntryBatch | None:
        """The same, with batches that hold nothing of the application's: for a reader that has to know how far it
        is. A commit comes itself, with `more`, and then its messages; what is staged also comes at its own place."""
        return await self._in_time(timeout, self._next_of_any_kind())

    async def _in_time(self, timeout: float | None, work: Coroutine[Any, Any, T]) -> T:
        if timeout is None:
            return await work
        return await in_time(timeout, work, f"nothing was ordered from {self._position} on in {timeout} s")

    async def _next_of_any_kind(self) -> EntryBatch | None:
        begun, self._begun, self._entries = self._begun, None, iter(())
        if begun is not None and self._at < begun.end:
            batch: EntryBatch | None = begun.cut(self._at, None)
        else:
            if begun is not None:
                self._position = begun.next
            batch = await self._next_batch()
        if batch is not None:
            self._position = batch.next
        return batch

    def ready(self) -> bool:
        """Whether the next read need not wait."""
        if self._begun is not None and self._at < self._begun.end:
            return True
        return bool(self._batches) if self._rows is None else self._rows[1].ready()

    # -- chunks

    async def _next_batch(self) -> EntryBatch | None:
        """A commit with what it makes visible after it; where that turns out to be nothing, the commit again."""
        if self._rows is not None:
            batch, rows = self._rows
            some = await rows.next()
            if some is None or not some.more:
                self._rows = None
            return batch if some is None else some
        while not self._batches:
            if self._stop is not None and self._next >= self._stop:
                return None
            self._take(await self._chunk())
        batch = self._batches.popleft()
        commit = None if self._control else commit_of(batch)
        if commit is None or not commit.ranges:
            return batch
        self._rows = batch, Rows(self._link, batch.position, commit.ranges)
        return batch.at_commit(batch.position, True, Kind.COMMIT)

    async def _chunk(self) -> Fetched:
        if self._ahead is None:
            return await self._link.fetch(self._next, FETCH_MESSAGES, FETCH_BYTES, True)
        ahead = self._ahead
        try:
            return await asyncio.shield(ahead)
        finally:
            # Also where it failed: the next read asks again. A cancelled read leaves it for the next one.
            if ahead.done():
                self._ahead = None

    def _take(self, chunk: Fetched) -> None:
        if self._next < chunk.base:
            raise Truncated(
                f"position {self._next} is not in the log any more: it begins at {chunk.base}", chunk.base
            )
        if not chunk.batches:
            return
        for batch in chunk.batches:
            part = batch.cut(self._next, self._stop)
            if part.messages:
                self._batches.append(part)
                self._next = part.end
        if self._next < chunk.green and (self._stop is None or self._next < self._stop):
            # This site has more, so it answers at once. Where the connection is lost before it does, the fetch has to
            # wait for the next one, as any other does: hence `wait`.
            self._ahead = asyncio.ensure_future(self._link.fetch(self._next, FETCH_MESSAGES, FETCH_BYTES, True))
            self._ahead.add_done_callback(_heed)


async def read(link: LogLink, start: int, stop: int | None, control: bool) -> list[Entry]:
    """What there is now from `start` on, and before `stop`."""
    found: list[Entry] = []
    at, end = start, stop
    while end is None or at < end:
        chunk = await link.fetch(at, FETCH_MESSAGES, FETCH_BYTES, False)
        if at < chunk.base:
            raise Truncated(f"position {at} is not in the log any more: it begins at {chunk.base}", chunk.base)
        if end is None:
            end = chunk.green  # what is ordered meanwhile is not waited for
        if not chunk.batches:
            break
        for batch in chunk.batches:
            part = batch.cut(at, end)
            if part.messages:
                commit = None if control else commit_of(part)
                if commit is not None:
                    found += await _rows(link, part.position, commit)
                found += part.entries(control)
                at = part.end
    return found


async def _rows(link: LogLink, position: int, commit: Commit) -> list[Entry]:
    rows, found = Rows(link, position, commit.ranges), list[Entry]()
    while (batch := await rows.next()) is not None:
        found += batch.entries()
    return found


async def headings(link: LogLink, start: int, stop: int | None) -> AsyncIterator[list[EntryBatch]]:
    """What there is now from `start` on, and before `stop`. A batch that `start` cuts
    begins there; the last one may go on beyond `stop`."""
    at, end = start, stop
    while end is None or at < end:
        chunk = await link.headings(at, FETCH_MESSAGES)
        if at < chunk.base:
            raise Truncated(f"position {at} is not in the log any more: it begins at {chunk.base}", chunk.base)
        if end is None:
            end = chunk.green
        found = [heading for heading in chunk.batches if heading.position < end]
        if not found:
            return
        yield found
        at = found[-1].end


async def staged(link: LogLink, commit: int, ranges: Iterable[tuple[int, int]]) -> AsyncIterator[EntryBatch]:
    rows = Rows(link, commit, ranges)
    while (batch := await rows.next()) is not None:
        yield batch


def _heed(task: "asyncio.Task[Fetched]") -> None:
    """Marks its error as seen: the reader may have stopped."""
    if not task.cancelled():
        task.exception()
