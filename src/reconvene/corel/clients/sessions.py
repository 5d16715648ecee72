"""The client sessions at one replica: the table that all replicas share, which messages are void, and where a
session's messages are.

Given: every batch that is logged here, and every one that becomes green, in order. Promised: what a client sends
again is recognized by its session's numbers, before it is green and after, also after a restart and a recovery.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import DecodeError, msgpack

from reconvene.corel.batch import Heading, Source
from reconvene.corel.clients.ranges import Ranges, has, include
from reconvene.corel.clients.session_index import SessionIndex, SessionRun
from reconvene.corel.clients.session_table import Row, SessionTable, sound_sources
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.layout import FOLDED, SESSIONS, VOIDS, table_end, void_key
from reconvene.errors import Malformed
from reconvene.storage.tables import Clear, Op, Put, Reader

__all__ = ["LOOKED_BACK", "Sessions"]

LOOKED_BACK = 4_096
"""Green batches whose positions are looked up again at a start."""


def _numbers(sources: Iterable[Source], indices: Iterable[int]) -> dict[bytes, Ranges]:
    """By session of an outpost: the numbers of these messages of a batch."""
    found: dict[bytes, Ranges] = {}
    wanted = sorted(indices)
    for source in sources:
        if source.origin is not None:
            ranges = found.setdefault(source.session, [])
            for index in wanted:
                if source.start <= index < source.start + source.count:
                    number = source.number + index - source.start
                    include(ranges, number, number)
    return found


class Sessions:
    def __init__(self, tables: Reader, bodies: Bodies, most: int) -> None:
        self.green = SessionTable(SESSIONS, most)
        """As of the green line …"""
        self.folded = SessionTable(FOLDED, most)
        """… and as of the base."""
        self.index = SessionIndex(self.green)
        """Where messages are, green or not. `Once` adds those that it takes."""
        self._tables = tables
        self._bodies = bodies
        self._voids: dict[int, tuple[int, ...]] = {}
        """By position of the batch; as far as storage may not show them yet."""
        self.green.load(tables)
        self.folded.load(tables)

    def look_back(self, placed: Iterable[tuple[int, Heading]]) -> None:
        """At the start: the last green batches."""
        whole: bool | None = None
        for position, heading in placed:
            if whole is None:
                whole = position == 0
            if heading.sourced:
                body, void = self._bodies.get(heading.id), self.voids(position, heading)
                # A void message of an outpost may be a copy of one that is not looked at: its place is left unknown.
                earlier = {} if whole else _numbers(sound_sources(heading, body), void)
                self._place(heading, body, position, void, earlier)

    def restart(self, headings: Iterable[Heading]) -> None:
        """These batches are all that is here and not green."""
        self.index.clear_counters()
        for heading in headings:
            self.add_batch(heading)

    # -- what is not green

    def add_batch(self, heading: Heading) -> None:
        """A batch came from elsewhere."""
        if heading.sourced:
            self.index.add_batch(heading)
            for source in sound_sources(heading, self._bodies.get(heading.id)):
                self.index.add(
                    source.session, source.number, source.count, heading.author, heading.first + source.start
                )

    def close_batch(self, heading: Heading) -> None:
        """Messages that were added are in this batch."""
        self.index.add_batch(heading)

    # -- the total order

    def take(self, heading: Heading, body: bytes, position: int) -> list[Op]:
        """A batch with sources is green. Returns what is to be written with its place, beside `changes`."""
        sources = sound_sources(heading, body)
        self.index.remove_batch(heading, sources)
        earlier = {
            source.session: list(self.green.ranges(source.session)) for source in sources if source.origin is not None
        }
        void = self.green.take(heading, body, position)
        self._place(heading, body, position, void, earlier)
        if not void:
            return []
        self._voids[position] = void
        return [Put(void_key(position), msgpack.encode(void))]

    def _place(
        self, heading: Heading, body: bytes, position: int, void: tuple[int, ...], earlier: Mapping[bytes, Ranges]
    ) -> None:
        """`earlier`: by session of an outpost, numbers that stand before this batch in the order."""
        for source in sound_sources(heading, body):
            if source.origin is not None:
                self._place_forwarded(source, position, earlier.get(source.session, []))
                continue
            start = source.start
            for index in (*(index for index in void if index >= start), heading.count):
                end = min(index, source.start + source.count)
                if start < end:
                    number = source.number + start - source.start
                    self.index.place(source.session, number, end - start, position + start)
                start = index + 1

    def _place_forwarded(self, source: Source, position: int, earlier: Ranges) -> None:
        """An outpost's number is where it came first, also if a client's session makes it void there. The index may
        have forgotten where that was, so it alone can't tell whether this is the first copy."""
        number, end = source.number, source.number + source.count
        while number < end:
            placed = self.index.position(source.session, number)
            if placed is not None:
                number += placed[1]
                continue
            if has(earlier, number):
                number += 1
                continue
            at = position + source.start + number - source.number
            known = next((first for first, _ in earlier if first > number), end)
            fresh = min(self.index.next_placed(source.session, number), known, end) - number
            self.index.place(source.session, number, fresh, at)
            number += fresh

    def changes(self) -> list[Op]:
        """What makes the tables durable, in the write of the green line."""
        return [*self.green.changes(), *self.folded.changes()]

    def stored(self, green: int) -> None:
        """Storage shows everything below `green`."""
        for position in [position for position in self._voids if position < green]:
            del self._voids[position]

    def voids(self, position: int, heading: Heading) -> tuple[int, ...]:
        """Of a green batch: the indices of its messages that count for nothing."""
        if not heading.sourced:
            return ()
        found = self._voids.get(position)
        if found is not None:
            return found
        stored = self._tables.get(void_key(position))
        if stored is None:
            return ()
        try:
            return msgpack.decode(stored, type=tuple[int, ...])
        except DecodeError as error:
            raise Malformed(f"the void messages at {position}: {error}") from None

    def positions(self, position: int, heading: Heading) -> list[int | None]:
        """Of each message of a green batch: where in the order it counts. None: that is not known here any more."""
        found: list[int | None] = list(range(position, position + heading.count))
        void = self.voids(position, heading)
        if void:
            for source in sound_sources(heading, self._bodies.get(heading.id)):
                for index in void:
                    if source.start <= index < source.start + source.count:
                        place = self.place_of(source.session, source.number + index - source.start)
                        if source.origin is None or place != position + index:
                            found[index] = place
        return found

    def session_of(self, heading: Heading, index: int) -> tuple[bytes, int] | None:
        """Under which session's number a message of a batch was sent."""
        for source in sound_sources(heading, self._bodies.get(heading.id)):
            if source.start <= index < source.start + source.count:
                return source.session, source.number + index - source.start
        return None

    def index_of(self, heading: Heading, session: bytes, number: int) -> int | None:
        """Which message of a batch was sent under a session's number."""
        if heading.sourced:
            for source in sound_sources(heading, self._bodies.get(heading.id)):
                if source.session == session and source.number <= number < source.number + source.count:
                    return source.start + number - source.number
        return None

    def forwarded(self, heading: Heading) -> list[Source]:
        """Of a batch with an outpost's messages: which they are, in order; they are all of it. Empty: it has none."""
        if not heading.sourced:
            return []
        found = sound_sources(heading, self._bodies.get(heading.id))
        return [source for source in found if source.origin is not None]

    def place_of(self, session: bytes, number: int) -> int | None:
        """Of a session's number that became green: its position, if that is still known."""
        placed = self.index.position(session, number)
        return None if placed is None else placed[0]

    def confirmed(self, session: bytes, first: int, most: int) -> list[tuple[int, int, int]]:
        """What is green of a session's numbers from `first` on without a gap, at most so many: (number, count,
        position) …; a position of -1 is not known here any more."""
        found: list[tuple[int, int, int]] = []
        end = next((last + 1 for low, last in self.green.ranges(session) if low <= first <= last), first)
        end = min(end, first + most)
        while first < end:
            placed = self.index.position(session, first)
            position, count = (-1, 1) if placed is None else placed
            count = min(count, end - first)
            if found and position < 0 and found[-1][2] < 0:
                found[-1] = (found[-1][0], found[-1][1] + count, -1)
            else:
                found.append((first, count, position))
            first += count
        return found

    # -- retries

    def parts(self, session: bytes, number: int, count: int) -> Iterator[SessionRun]:
        """The numbers from `number` on, by what is known of them; what is `new` is nowhere here."""
        end = number + count
        fresh = number
        highest = self.index.highest(session)
        while number < end and number <= highest:
            part = self.index.find(session, number, end - number)
            if part is None:
                number += 1
                continue
            if fresh < number:
                yield SessionRun(fresh, number - fresh, new=True)
            yield part
            number = fresh = number + part.count
        if fresh < end:
            yield SessionRun(fresh, end - fresh, new=True)

    def forget_positions(self) -> None:
        """Where green messages are is not known any more, as after very many others."""
        self.index.clear_positions()

    # -- truncation, and another replica's base

    def fold(self, heading: Heading, body: bytes, position: int) -> list[Op]:
        """The batch goes into the base."""
        if not heading.sourced:
            return []
        void = self.folded.take(heading, body, position)
        return [Put(void_key(position), None)] if void else []

    def restore(self, rows: Sequence[Row]) -> list[Op]:
        """The table as of another replica's base, which is the green line now. Raises Malformed."""
        ops: list[Op] = [*self.green.restore(rows), *self.folded.restore(rows)]
        self.index.clear_positions()
        self._voids.clear()
        ops.append(Clear(VOIDS, table_end(VOIDS)))
        return ops
