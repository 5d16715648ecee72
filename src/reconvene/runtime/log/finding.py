"""Where messages of an author are in the log, for clients that wait for that.

The index (`places`) answers for the last batches. What is older is looked for in the log.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from reconvene.corel.batch import Kind
from reconvene.entries import EntryBatch
from reconvene.errors import PlaceForgotten, Rejected, Unavailable
from reconvene.runtime.log.places import Places, Ranges, joined

__all__ = ["Finder"]

_BATCHES_AT_ONCE = 256
"""Looked through before other work of the site has its turn."""


class Readable(Protocol):
    """The log, as far as it is searched."""

    @property
    def base(self) -> int: ...

    @property
    def green(self) -> int: ...

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]: ...

    def placed(self, start: int) -> Iterator[tuple[str, int, int, int]]:
        """(author, first counter, count, position) of green batches, from the one that holds `start` on."""

    def counted(self, start: int, count: int) -> list[int | None]:
        """Of green messages, from `start` on: the position where each counts, which is an earlier one if it is void.
        None: that is not at hand (`origin` looks for it)."""

    async def origin(self, position: int) -> int | None:
        """Of a green message that is void: the position of the one that it repeats, looked for in all that can be
        read. None: it is truncated."""


class Finder:
    def __init__(self, reader: Readable, places: Places) -> None:
        self._reader = reader
        self._places = places
        self._searching = asyncio.Lock()
        """One search of the log at a time, whatever clients ask for."""

    async def find(self, author: str, first: int, count: int, since: int, retried: bool) -> Ranges:
        """Where messages `first` … of an author are, once all of them are green.

        since: none of them is below that position. retried: some of them may be retries of what the log has
        elsewhere, and count there. Raises Unavailable where the log no longer knows.
        """
        await self._places.when(author, first + count - 1)
        found = self._places.find(author, first, count)
        if found is None:
            async with self._searching:
                found = await self._search(author, first, count, since)
        if not retried:
            return found
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
                        raise Unavailable(f"{author}'s message {first} stands before position {since}")
                    some = min(start + many - first, count)
                    found.append((at + first - start, some))
                    first, count = first + some, count - some
                if not count or looked_at == _BATCHES_AT_ONCE:
                    break
            await asyncio.sleep(0)
        return joined(found)

    async def _counted(self, start: int, count: int) -> Ranges:
        """Of what is void: where the message counts that it repeats. Raises PlaceForgotten if that is truncated."""
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
        """Two sites may have taken a session's number with different data, while they could not hear each other."""
        if where < self._reader.base:
            return
        mine, first = (self._reader.read(position, 1, 1)[0] for position in (void, where))
        if mine.kind_number == Kind.DATA and mine.messages[0] != first.messages[0]:
            raise Rejected(
                f"the message at position {void} counts for nothing: another one with other data, at {where}, has "
                "the same session and number and comes before it; append it under a new number"
            )
