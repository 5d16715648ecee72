"""Finds the positions of an author's messages, for clients that wait for them.

The index (`places`) covers the last batches. Older messages are searched for in the log.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from reconvene.corel.batch import Kind
from reconvene.corel.clients.refusals import SessionConflict
from reconvene.entries import EntryBatch
from reconvene.errors import PlaceForgotten, Unavailable
from reconvene.runtime.log.places import Places, Ranges, joined

__all__ = ["Finder"]

_BATCHES_AT_ONCE = 256
"""Batches that a search reads before it lets the site's other tasks run."""


class Readable(Protocol):
    """What a search needs of the log."""

    @property
    def base(self) -> int: ...

    @property
    def green(self) -> int: ...

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]: ...

    def placed(self, start: int) -> Iterator[tuple[str, int, int, int]]:
        """(author, first counter, count, position) of green batches, from the one that holds `start` on."""

    def counted(self, start: int, count: int) -> list[int | None]:
        """For green messages from `start` on: the position where each counts. A void message counts at the earlier
        position of the message that it repeats. None: not in memory (`origin` searches for it)."""

    async def origin(self, position: int) -> int | None:
        """For a green message that is void: the position of the message that it repeats, searched for in the whole
        readable log. None: that message is truncated."""


class Finder:
    def __init__(self, reader: Readable, places: Places) -> None:
        self._reader = reader
        self._places = places
        self._searching = asyncio.Lock()
        """Only one search of the log runs at a time."""

    async def find(self, author: str, first: int, count: int, since: int, retried: bool) -> Ranges:
        """The positions of an author's messages from `first` on, once all of them are green.

        since: none of them is below that position. retried: some of them may be retries of messages that the log has
        elsewhere, and count there. Raises Unavailable if the log no longer knows.
        """
        found = await self._places.ordered(author, first, count)
        if found is None:
            async with self._searching:
                found = await self._search(author, first, count, since)
        return await self._first_copies(found) if retried else found

    async def forwarded(self, places: "asyncio.Future[Ranges]", retried: bool) -> Ranges:
        """The same for messages of an outpost, whose places come from elsewhere (`forwarded`)."""
        found = await places
        return await self._first_copies(found) if retried else found

    async def _first_copies(self, found: Ranges) -> Ranges:
        counted: Ranges = []
        for start, many in found:
            counted += await self._counted(start, many)
        return joined(counted)

    async def _search(self, author: str, first: int, count: int, since: int) -> Ranges:
        found: Ranges = []
        position = since
        while count:
            if position < self._reader.base or position >= self._reader.green:
                raise Unavailable(
                    f"the log is truncated up to {self._reader.base}: the position of {author}'s message {first} "
                    "is not known any more"
                )
            for looked_at, (name, start, many, at) in enumerate(self._reader.placed(position)):
                position = at + many
                if name == author and first < start + many:
                    if first < start:
                        raise Unavailable(f"{author}'s message {first} is before position {since}")
                    some = min(start + many - first, count)
                    found.append((at + first - start, some))
                    first, count = first + some, count - some
                if not count or looked_at == _BATCHES_AT_ONCE:
                    break
            await asyncio.sleep(0)
        return joined(found)

    async def _counted(self, start: int, count: int) -> Ranges:
        """Maps a void message to the position of the message that it repeats. Raises PlaceForgotten if that is
        truncated."""
        if start < self._reader.base:
            raise PlaceForgotten(
                f"the log is truncated up to {self._reader.base}: whether the message at {start} repeats another one "
                "is not known any more"
            )
        counted: Ranges = []
        for at, place in enumerate(self._reader.counted(start, count), start):
            where = place if place is not None else await self._reader.origin(at)
            if where is None:
                raise PlaceForgotten(f"the message at {at} repeats one that is truncated: its place is not known")
            if where != at:
                self._expect_same(at, where)
            counted.append((where, 1))
        return counted

    def _expect_same(self, void: int, where: int) -> None:
        """Two partitioned sites may have accepted different data under the same number of a session."""
        if where < self._reader.base:
            return
        mine, first = (self._reader.read(position, 1, 1)[0] for position in (void, where))
        if mine.kind_number == Kind.DATA and mine.messages[0] != first.messages[0]:
            raise SessionConflict(
                f"the message at position {void} does not count: another one with other data, at {where}, has "
                "the same session and number and comes before it; append it again under a new number"
            )
