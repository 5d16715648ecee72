"""Reads a replica's part of the log for clients.

The cost is per batch and per request: messages are decoded only when they are read.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

from msgspec.structs import replace

from reconvene.corel.batch import Heading, Kind, messages_of
from reconvene.corel.events import Color
from reconvene.corel.replica import Replica
from reconvene.entries import EntryBatch
from reconvene.errors import Malformed, Rejected, Unavailable

__all__ = ["LogReader"]

_LOG_KINDS = frozenset({Kind.CHANGE, Kind.COMMIT})
"""Batches with messages of the log itself, which are small."""
_HEADING_BYTES = 4 << 20
"""The most bytes of bodies that are read for one answer with headings: a heading is at the beginning of its batch's
body, and storage returns the whole body."""
_BATCHES_AT_ONCE = 256
"""Batches that a search reads before it lets the site's other tasks run."""


class LogReader:
    """Implements what `interface` and `finding` describe. `damaged` is called once, when a stored value turns out to
    be corrupt."""

    def __init__(self, replica: Replica, author: Callable[[int], str], damaged: Callable[[str], None]) -> None:
        self._replica = replica
        self._author = author
        self._damaged = damaged
        self.damage: str | None = None
        """What could not be read back. While it is set, the site accepts no messages, until it is restarted."""

    @property
    def base(self) -> int:
        return self._replica.queue.base.position

    @property
    def green(self) -> int:
        return self._replica.green

    def check_readable(self) -> None:
        """If the log has continued without this site, its messages are old and may differ from the log's history."""
        left_out = self._replica.left_out
        if left_out is not None:
            raise Rejected(left_out)

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        self._expect_readable(start)
        found: list[EntryBatch] = []
        if start == self.green:
            return found
        with self._noting_damage():
            for position, heading in self._replica.read(start):
                body = self._replica.body(heading)
                batch = self._batch(position, heading, messages_of(body))
                found += [one.cut(start) for one in self._authored(batch, heading) if one.end > start]
                messages -= heading.count
                size -= len(body)
                if messages <= 0 or size <= 0:
                    break
        return found

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        self._expect_readable(start)
        found: list[EntryBatch] = []
        looked_at = 0
        if start == self.green:
            return found
        with self._noting_damage():
            for position, heading in self._replica.read(start):
                own = heading.kind in _LOG_KINDS
                messages = messages_of(self._replica.body(heading)) if own else []
                batch = self._batch(position, heading, messages, heading.count)
                found += [one.cut(start) for one in self._authored(batch, heading) if one.end > start]
                looked_at += heading.size
                if len(found) >= batches or looked_at >= _HEADING_BYTES:
                    break
        return found

    def _expect_readable(self, start: int) -> None:
        self.check_readable()
        if start < self.base:
            raise Rejected(f"position {start} is truncated: the log begins at {self.base}")
        if start > self.green:
            raise Rejected(f"position {start} is beyond the green line, which is at {self.green}")

    def _batch(self, position: int, heading: Heading, messages: list[bytes], left_out: int = 0) -> EntryBatch:
        return EntryBatch(
            position, self._author(heading.author), heading.incarnation, heading.first, heading.time, heading.kind,
            messages, self._replica.voids(position, heading), left_out,
        )  # fmt: skip

    def _authored(self, batch: EntryBatch, heading: Heading) -> list[EntryBatch]:
        """The same under the names of those who accepted the messages: outposts, where these forwarded them."""
        sources = self._replica.forwarded(heading)
        if not sources:
            return [batch]
        found: list[EntryBatch] = []
        for source in sources:
            assert source.origin is not None, "it is an outpost's"
            position = batch.position + source.start
            some = batch.cut(position, position + source.count)
            found.append(
                replace(
                    some, author=source.origin.outpost, incarnation=source.origin.incarnation, first=source.number
                )
            )
        return found

    def placed(self, start: int) -> Iterator[tuple[str, int, int, int]]:
        with self._noting_damage():
            for position, heading in self._replica.read(start):
                yield self._author(heading.author), heading.first, heading.count, position

    def counted(self, start: int, count: int) -> list[int | None]:
        found: list[int | None] = []
        with self._noting_damage():
            for position, heading in self._replica.read(start):
                found += self._replica.positions(position, heading)[max(start - position, 0) :]
                if len(found) >= count:
                    break
        return found[:count]

    async def origin(self, position: int) -> int | None:
        with self._noting_damage():
            start, heading = next(self._replica.read(position))
            wanted = self._replica.session_of(heading, position - start)
            for read, (start, heading) in enumerate(self._replica.read(self.base)):
                if start >= position or wanted is None:
                    break
                index = self._replica.index_of(heading, *wanted)
                if index is not None:
                    return start + index
                if read % _BATCHES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return None

    def pending(self, messages: int, newest: bool = False) -> list[tuple[Color, EntryBatch]]:
        self.check_readable()
        found: list[tuple[Color, EntryBatch]] = []
        position = self.green
        with self._noting_damage():
            for color, heading in self._newest_pending() if newest else self._pending():
                if messages <= 0:
                    break
                if heading.kind is not Kind.DATA:
                    continue
                messages -= heading.count
                batch = EntryBatch(
                    position, self._author(heading.author), heading.incarnation, heading.first, heading.time,
                    heading.kind, messages_of(self._replica.body(heading)),
                )  # fmt: skip
                found += [(color, one) for one in self._authored(batch, heading)]
                position = batch.end
        if newest:
            found.reverse()
        return found

    def _pending(self) -> Iterator[tuple[Color, Heading]]:
        queue = self._replica.queue
        for entry in queue.pending():
            yield entry.color, entry.heading
        for waiting in queue.accepted:
            yield Color.RED, waiting.heading

    def _newest_pending(self) -> Iterator[tuple[Color, Heading]]:
        queue = self._replica.queue
        for waiting in reversed(queue.accepted):
            yield Color.RED, waiting.heading
        for entry in chain(reversed(queue.red), reversed(queue.yellow)):
            yield entry.color, entry.heading

    def snapshot(self, name: str) -> tuple[int, int] | None:
        newest = self._replica.snapshots.newest.get(name)
        return None if newest is None else (newest.position, newest.size)

    def read_snapshot(self, offset: int, size: int, name: str) -> bytes:
        with self._noting_damage():
            return self._replica.snapshots.read(name, offset, size)

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        """Raises Unavailable if storage is damaged."""
        try:
            yield
        except Malformed as error:
            raise self.note_damage(error) from None

    def note_damage(self, error: Malformed) -> Unavailable:
        if self.damage is None:
            self.damage = str(error)
            self._damaged(self.damage)
        return Unavailable(str(error))
