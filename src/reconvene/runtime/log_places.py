"""Where in the log the messages of a replica are, once they are somewhere.

The site's own are asked for by their counters; those of another replica, which a client appended there before it came
here, are looked for in the log as it grows.
"""

import asyncio
from collections.abc import Callable

from reconvene.errors import ReconveneError, Unavailable
from reconvene.runtime.log_port import LogPort

__all__ = ["Places", "Positions", "joined"]

Positions = list[tuple[int, int]]
"""(position, count) …, in the order of the messages."""

_CHUNK_MESSAGES = 8_192
_CHUNK_BYTES = 512 << 10


class Places:
    """Of one client's messages."""

    def __init__(self, port: LogPort) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Positions]] = set()
        self._sought: dict[tuple[str, int], _Sought] = {}
        self._next = 0
        """The position that is looked at next, while something is looked for."""
        self._looking: Callable[[], None] | None = None
        self._due = False

    def find(self, author: str, first: int, count: int, since: int, retried: bool) -> "asyncio.Future[Positions]":
        """Done once all of them are ordered. Fails with Unavailable where the log no longer knows.

        since: none of them is below it. retried: some of them may be retries of what the log has elsewhere.
        """
        if author != self._port.name:
            return self._seek(author, first, count, since)
        task = self._loop.create_task(self._own(first, count, since, retried))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for sought in self._sought.values():
            sought.future.cancel()
        self._sought.clear()
        self._rest()

    # -- the site's own

    async def _own(self, first: int, count: int, since: int, retried: bool) -> Positions:
        try:
            # The last is ordered after the others.
            end = await self._port.ordered(first + count - 1)
            if retried:
                return joined([(await self._port.ordered(first + at), 1) for at in range(count)])
            start = end if count == 1 else await self._port.ordered(first)
            return await self._between(first, start, count, end)
        except Unavailable:
            return await self._seek(self._port.name, first, count, since)

    async def _between(self, first: int, start: int, count: int, end: int) -> Positions:
        """Messages of one author keep their order, so as many positions as messages are those without a gap."""
        if end - start == count - 1:
            return [(start, count)]
        half = count // 2
        before, after = await self._port.ordered(first + half - 1), await self._port.ordered(first + half)
        left = await self._between(first, start, half, before)
        right = await self._between(first + half, after, count - half, end)
        return joined(left + right)

    # -- others'

    def _seek(self, author: str, first: int, count: int, since: int) -> "asyncio.Future[Positions]":
        sought = _Sought(author, first, count, since, self._loop.create_future())
        if since < self._port.base:
            sought.future.set_exception(
                Unavailable(f"the log is truncated up to {self._port.base}: where {author}'s message {first} is "
                            "is not known any more")
            )  # fmt: skip
            return sought.future
        self._next = min(self._next, since) if self._sought else since
        self._sought[author, first] = sought
        if self._looking is None:
            self._looking = self._port.watch(lambda _: self._look_soon())
        self._look_soon()
        return sought.future

    def _look_soon(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """A chunk at a time: others have their turn in between."""
        self._due = False
        for key, sought in list(self._sought.items()):
            if sought.future.done():
                del self._sought[key]
        if not self._sought:
            self._rest()
            return
        port = self._port
        if self._next >= port.green:
            return
        try:
            batches = port.read(self._next, _CHUNK_MESSAGES, _CHUNK_BYTES)
        except ReconveneError as error:
            for sought in self._sought.values():
                if not sought.future.done():
                    sought.future.set_exception(Unavailable(f"where it is is not known any more: {error}"))
            self._sought.clear()
            self._rest()
            return
        for batch in batches:
            length = len(batch.messages)
            self._next = batch.position + length
            for sought in self._sought.values():
                if sought.author == batch.author:
                    sought.see(batch.first, length, batch.position)
        self._look_soon()

    def _rest(self) -> None:
        if self._looking is not None:
            self._looking()
            self._looking = None


def joined(places: Positions) -> Positions:
    """The same, with those that follow each other as one."""
    found: Positions = []
    for position, count in places:
        if found and sum(found[-1]) == position:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((position, count))
    return found


class _Sought:
    __slots__ = ("author", "count", "first", "found", "future", "seen", "since")

    def __init__(self, author: str, first: int, count: int, since: int, future: "asyncio.Future[Positions]") -> None:
        self.author = author
        self.first = first
        self.count = count
        self.since = since
        self.future = future
        self.found: Positions = []
        self.seen = 0
        """How many of them, from the first on."""

    def see(self, first: int, length: int, position: int) -> None:
        """Messages `first` … of its author's, at `position` …"""
        at = self.first + self.seen - first
        if self.future.done() or not 0 <= at < length:
            return
        more = min(length - at, self.count - self.seen)
        self.found.append((position + at, more))
        self.seen += more
        if self.seen == self.count:
            self.future.set_result(joined(self.found))
