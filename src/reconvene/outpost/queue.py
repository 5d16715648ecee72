"""What an outpost accepted and has not read back green: on stable storage, in the order of its counters.

Promised: messages get their counters at once; what arrives during a sync shares the next one; what waits is bounded;
a client that sends a number of its session again gets the message that it has here.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct, msgpack

from reconvene.corel.clients.ranges import Ranges, include
from reconvene.corel.clients.refusals import check_gaps, check_room, other_data
from reconvene.corel.clients.session_table import check_session
from reconvene.errors import Rejected
from reconvene.outpost.layout import (
    ENTRIES,
    RECORD,
    Record,
    Stored,
    decode_stored,
    entry_counter,
    entry_key,
)
from reconvene.outpost.limits import OutpostLimits
from reconvene.storage.tables import Clear, Op, Put, Reader

__all__ = ["Batch", "Queue", "Taken"]

_TABLE_END = bytes((ENTRIES[0] + 1,))


class Taken(Struct, frozen=True):
    """What became of consecutive messages of an append: they are the outpost's messages from `first` on."""

    count: int
    first: int
    incarnation: int
    new: bool


class Batch(Struct):
    """Messages that are stored under one key."""

    first: int
    count: int
    size: int
    """Of its messages, in bytes."""
    incarnation: int
    time: int
    stored: Stored | None = None
    """None: it has to be read from storage."""

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class _Open:
    """Messages that were appended together and are in no batch yet."""

    __slots__ = ("messages", "number", "session")

    def __init__(self, messages: Sequence[bytes], session: bytes | None, number: int) -> None:
        self.messages = messages
        self.session = session
        self.number = number


class Queue:
    def __init__(self, name: str, tables: Reader, record: Record, limits: OutpostLimits) -> None:
        self._name = name
        self._tables = tables
        self._limits = limits
        self.record = record
        self.green = record.green
        """Messages up to this counter are green."""
        self.durable = record.green
        """Messages up to this counter are on stable storage."""
        self.batches: deque[Batch] = deque()
        """Those that are not all green, in order; the last ones may be being synced."""
        self._open: deque[_Open] = deque()
        self._syncing: list[Batch] = []
        self.messages = 0
        """How many wait, all included …"""
        self.bytes = 0
        """… and how many bytes they have."""
        self._cached = 0
        self._sessions: dict[bytes, list[tuple[int, int, int]]] = {}
        """Of clients, with messages here: (number, count, first) …, rising."""
        self._written_green = record.green
        self._load()
        self.next = (self.batches[-1].last if self.batches else self.green) + 1
        """The counter of the next message."""

    def _load(self) -> None:
        for key, value in self._tables.scan(ENTRIES, _TABLE_END):
            stored = decode_stored(value)
            first, count = entry_counter(key), len(stored.messages)
            if first + count - 1 <= self.green:
                continue
            size = sum(map(len, stored.messages))
            batch = Batch(first, count, size, stored.incarnation, stored.time)
            self._keep(batch, stored)
            self.batches.append(batch)
            waits = first + count - 1 - max(self.green, first - 1)
            self.messages += waits
            self.bytes += size if waits == count else sum(map(len, stored.messages[count - waits :]))
            for session, number, start, many in stored.sources:
                self._note(session, number, many, first + start)
            self.durable = batch.last

    # -- accepting

    def append(self, messages: Sequence[bytes], session: bytes | None = None, number: int = 0) -> list[Taken]:
        """Takes all of them that are new, or raises: Rejected (too large, a number with other data), Unavailable at
        the limit."""
        if not messages:
            raise Rejected("nothing to append")
        if session is None:
            if number:
                raise Rejected(f"number {number} without a session: expected both or neither")
            self._check(messages)
            return [self._take(messages, None, 0)]
        check_session(session, number, len(messages))
        parts = list(self._known(session, number, len(messages)))
        fresh = [messages[start : start + count] for start, count, first in parts if first is None]
        self._check([message for some in fresh for message in some])
        if fresh:
            check_gaps(self._ranges(session), session, number, len(messages))
        for start, count, first in parts:
            if first is not None:
                self._expect_same(session, number + start, first, messages[start : start + count])
        found: list[Taken] = []
        for start, count, first in parts:
            some = messages[start : start + count]
            if first is None:
                found.append(self._take(some, session, number + start))
            else:
                found += self._pieces(first, count)
        return found

    def _check(self, messages: Sequence[bytes]) -> None:
        limits = self._limits
        waiting, most = (self.messages, self.bytes), (limits.messages, limits.bytes)
        check_room(messages, limits.message_bytes, waiting, most, f"outpost {self._name}: ")

    def _ranges(self, session: bytes) -> Ranges:
        ranges: Ranges = []
        for known, many, _ in self._sessions.get(session, ()):
            include(ranges, known, known + many - 1)
        return ranges

    def _take(self, messages: Sequence[bytes], session: bytes | None, number: int) -> Taken:
        first = self.next
        self.next += len(messages)
        self.messages += len(messages)
        self.bytes += sum(map(len, messages))
        self._open.append(_Open(messages, session, number))
        if session is not None:
            self._note(session, number, len(messages), first)
        return Taken(len(messages), first, self.record.incarnation, True)

    def _note(self, session: bytes, number: int, count: int, first: int) -> None:
        runs = self._sessions.setdefault(session, [])
        if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2] + runs[-1][1] == first:
            runs[-1] = (runs[-1][0], runs[-1][1] + count, runs[-1][2])
        else:
            runs.append((number, count, first))
            runs.sort()

    def _known(self, session: bytes, number: int, count: int) -> Iterator[tuple[int, int, int | None]]:
        """(start, count, counter of the first, or None where they are not here) of an append's messages."""
        runs = self._sessions.get(session, [])
        at = number
        while at < number + count:
            index = bisect_right(runs, (at, 1 << 62, 0)) - 1
            if index >= 0 and at < runs[index][0] + runs[index][1]:
                known, many, first = runs[index]
                some = min(known + many, number + count) - at
                yield at - number, some, first + at - known
            else:
                end = runs[index + 1][0] if index + 1 < len(runs) else number + count
                some = min(end, number + count) - at
                yield at - number, some, None
            at += some

    def _expect_same(self, session: bytes, number: int, first: int, messages: Sequence[bytes]) -> None:
        for index, (mine, one) in enumerate(zip(self._from(first), messages, strict=False)):
            if mine is not None and mine != one:
                raise other_data(session, number + index)

    def _from(self, counter: int) -> Iterator[bytes | None]:
        """Messages from a counter on, in batches or not; None: it is green."""
        for batch in self.batches:
            if batch.last >= counter:
                while counter < batch.first:
                    yield None
                    counter += 1
                yield from self.read(batch).messages[counter - batch.first :]
                counter = batch.last + 1
        first = (
            self.batches[-1].last + 1 if self.batches else self.next - sum(len(run.messages) for run in self._open)
        )
        for run in self._open:
            if counter < first + len(run.messages):
                yield from run.messages[max(counter - first, 0) :]
            first += len(run.messages)

    def _pieces(self, first: int, count: int) -> Iterator[Taken]:
        """The same messages with their incarnations."""
        end = first + count
        for batch in self.batches:
            if first < end and batch.first <= first <= batch.last:
                some = min(batch.last + 1, end) - first
                yield Taken(some, first, batch.incarnation, False)
                first += some
        if first < end:
            yield Taken(end - first, first, self.record.incarnation, False)

    def close(self, time: int) -> list[Op]:
        """Makes batches of what was appended, unless earlier ones are being synced. Returns what is to be written."""
        if not self._open or self._syncing:
            return []
        ops: list[Op] = []
        taken = 0
        first = self.next - sum(len(run.messages) for run in self._open)
        while self._open and taken < self._limits.close_bytes:
            stored, size = self._next(time)
            batch = Batch(first, len(stored.messages), size, stored.incarnation, time)
            self._keep(batch, stored, must=True)
            self.batches.append(batch)
            self._syncing.append(batch)
            ops.append(Put(entry_key(first), msgpack.encode(stored)))
            first += batch.count
            taken += size
        return ops

    def _next(self, time: int) -> tuple[Stored, int]:
        most, most_messages = self._limits.batch_bytes, self._limits.batch_messages
        stored = Stored(self.record.incarnation, time, [], [])
        size = 0
        while self._open and size < most and len(stored.messages) < most_messages:
            run = self._open[0]
            at = 0
            for message in run.messages:
                if stored.messages and (size + len(message) > most or len(stored.messages) == most_messages):
                    break
                stored.messages.append(message)
                size += len(message)
                at += 1
            if at and run.session is not None:
                stored.sources.append((run.session, run.number, len(stored.messages) - at, at))
            if at < len(run.messages):
                run.messages = run.messages[at:]
                run.number += at
                break
            self._open.popleft()
        return stored, size

    def synced(self) -> list[Batch]:
        """What `close` made last is on stable storage. Returns it."""
        synced, self._syncing = self._syncing, []
        if synced:
            self.durable = synced[-1].last
            for batch in synced:
                if self._cached > self._limits.cache_bytes:
                    self._drop(batch)
        return synced

    # -- reading

    def waiting(self) -> Iterator[tuple[int, int, int]]:
        """What is in batches and not green: (first, count, incarnation that accepted them) …"""
        for batch in self.batches:
            first = max(batch.first, self.green + 1)
            yield first, batch.last + 1 - first, batch.incarnation

    def read(self, batch: Batch) -> Stored:
        """Raises Malformed where storage is damaged."""
        if batch.stored is not None:
            return batch.stored
        value = self._tables.get(entry_key(batch.first))
        assert value is not None, "what is not green is kept"
        return decode_stored(value)

    def _keep(self, batch: Batch, stored: Stored, must: bool = False) -> None:
        if must or self._cached + batch.size <= self._limits.cache_bytes:
            batch.stored = stored
            self._cached += batch.size

    def _drop(self, batch: Batch) -> None:
        if batch.stored is not None:
            batch.stored = None
            self._cached -= batch.size

    # -- what became green

    def confirm(self, through: int) -> None:
        """Messages up to this counter are green."""
        assert through <= self.durable, "only what is durable is forwarded"
        while self.batches and self.batches[0].first <= through:
            batch = self.batches[0]
            stored = self.read(batch)
            start = max(self.green + 1 - batch.first, 0)
            end = min(through, batch.last) - batch.first + 1
            if start < end:
                self.messages -= end - start
                self.bytes -= sum(map(len, stored.messages[start:end]))
            if batch.last > through:
                break
            for session, number, _, many in stored.sources:
                self._forget(session, number, many)
            self._drop(batch)
            self.batches.popleft()
        self.green = max(self.green, through)

    def _forget(self, session: bytes, number: int, count: int) -> None:
        runs = self._sessions.get(session, [])
        kept: list[tuple[int, int, int]] = []
        for known, many, first in runs:
            if known < number + count and number < known + many:
                if known < number:
                    kept.append((known, number - known, first))
                if number + count < known + many:
                    cut = number + count - known
                    kept.append((number + count, many - cut, first + cut))
            else:
                kept.append((known, many, first))
        if kept:
            self._sessions[session] = kept
        else:
            self._sessions.pop(session, None)

    def trim(self) -> list[Op]:
        """What deletes the green messages from storage; nothing where that was asked for before."""
        if self.green == self._written_green:
            return []
        self._written_green = self.green
        self.record.green = self.green
        first = self.batches[0].first if self.batches else self.green + 1
        return [Clear(ENTRIES, entry_key(first)), Put(RECORD, msgpack.encode(self.record))]
