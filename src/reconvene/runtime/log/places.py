"""Where in the log the messages of a replica are, once they are somewhere.

The site's own are asked for by their counters; those of another replica, which a client appended there before it came
here, are looked for in the log as it grows.
"""

import asyncio
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count

from reconvene.corel.batch import Kind
from reconvene.errors import ReconveneError, Rejected, Unavailable
from reconvene.runtime.log.interface import LogPort

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
        self._sought: dict[str, list[tuple[int, int, _Sought]]] = {}
        """By author, heaps: the counter that it needs next."""
        self._numbers = count()
        self._next = 0
        """The position that is looked at next, while something is looked for."""
        self._looking: Callable[[], None] | None = None
        self._due = False

    def find(self, author: str, first: int, count: int, since: int, retried: bool) -> "asyncio.Future[Positions]":
        """Done once all of them are ordered. Fails with Unavailable where the log no longer knows.

        since: none of them is below it. retried: some of them may be retries of what the log has elsewhere.
        """
        if author != self._port.name and not retried:
            return self._seek(author, first, count, since)
        task = self._loop.create_task(self._find(author, first, count, since, retried))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for sought in self._all():
            sought.future.cancel()
        self._rest()

    async def _find(self, author: str, first: int, count: int, since: int, retried: bool) -> Positions:
        own = author == self._port.name
        places = await (self._own(first, count, since) if own else self._seek(author, first, count, since))
        if not retried:
            return places
        counted: Positions = []
        for start, many in places:
            counted += await self._counted(start, many)
        return joined(counted)

    async def _counted(self, start: int, count: int) -> Positions:
        """Of what is void: where the message counts that it repeats."""
        if start < self._port.base:
            return [(start, count)]
        counted: Positions = []
        for at, place in enumerate(self._port.counted(start, count), start):
            where = place if place is not None else await self._port.origin(at)
            if where is not None and where != at:
                self._expect_same(at, where)
            counted.append((at if where is None else where, 1))
        return counted

    def _expect_same(self, void: int, where: int) -> None:
        """Two sites may have taken a session's number with different data, while they could not hear each other."""
        if where < self._port.base:
            return
        mine, first = (self._port.read(position, 1, 1)[0] for position in (void, where))
        if mine.kind_number == Kind.DATA and mine.messages[0] != first.messages[0]:
            raise Rejected(
                f"the message at position {void} counts for nothing: another one with other data, at {where}, has "
                "the same session and number and comes before it; append it under a new number"
            )

    # -- the site's own

    async def _own(self, first: int, count: int, since: int) -> Positions:
        try:
            # The last is ordered after the others.
            end = await self._port.ordered(first + count - 1)
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

    def _seek(self, author: str, first: int, many: int, since: int) -> "asyncio.Future[Positions]":
        sought = _Sought(first, many, self._loop.create_future())
        if since < self._port.base:
            sought.future.set_exception(
                Unavailable(f"the log is truncated up to {self._port.base}: where {author}'s message {first} is "
                            "is not known any more")
            )  # fmt: skip
            return sought.future
        self._next = min(self._next, since) if self._sought else since
        heappush(self._sought.setdefault(author, []), (first, next(self._numbers), sought))
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
        if all(sought.future.done() for sought in self._all()):
            self._rest()
            return
        port = self._port
        if self._next >= port.green:
            return
        try:
            batches = port.read(self._next, _CHUNK_MESSAGES, _CHUNK_BYTES)
        except ReconveneError as error:
            self._give_up(f"where it is is not known any more: {error}")
            return
        for batch in batches:
            length = len(batch.messages)
            self._next = batch.position + length
            self._see(batch.author, batch.first, length, batch.position)
        self._look_soon()

    def _see(self, author: str, first: int, length: int, position: int) -> None:
        """Messages `first` … of an author's are at `position` …"""
        heap = self._sought.get(author, [])
        while heap and heap[0][0] < first + length:
            sought = heappop(heap)[2]
            if not sought.future.done() and sought.see(first, length, position):
                heappush(heap, (sought.next, next(self._numbers), sought))

    def _all(self) -> "Iterator[_Sought]":
        return (sought for heap in self._sought.values() for _, _, sought in heap)

    def _give_up(self, why: str) -> None:
        for sought in self._all():
            if not sought.future.done():
                sought.future.set_exception(Unavailable(why))
        self._rest()

    def _rest(self) -> None:
        self._sought.clear()
        if self._looking is not None:
            self._looking()
            self._looking = None


def joined(places: Positions) -> Positions:
    """The same, with those that follow each other as one."""
    found: Positions = []
    for position, many in places:
        if found and sum(found[-1]) == position:
            found[-1] = (found[-1][0], found[-1][1] + many)
        else:
            found.append((position, many))
    return found


class _Sought:
    __slots__ = ("_found", "_left", "future", "next")

    def __init__(self, first: int, count: int, future: "asyncio.Future[Positions]") -> None:
        self.future = future
        self.next = first
        """The counter of the next message that is looked for."""
        self._left = count
        self._found: Positions = []

    def see(self, first: int, length: int, position: int) -> bool:
        """Messages `first` … of its author's are at `position` …; is there more to look for?"""
        at = self.next - first
        if at < 0:
            self.future.set_exception(Unavailable("it stands before where it was looked for"))
            return False
        more = min(length - at, self._left)
        self._found.append((position + at, more))
        self.next += more
        self._left -= more
        if self._left:
            return True
        self.future.set_result(joined(self._found))
        return False
