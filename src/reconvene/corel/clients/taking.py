"""The client sessions at one replica, together: the shared table, what is void, and where retries wait.

Given: every batch that is logged here, and every one that becomes green, in order. Promised: what a client sends
again is known by its session's numbers, before it is green and after, also after a restart and a recovery.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import DecodeError, msgpack

from reconvene.corel.batch import Heading
from reconvene.corel.clients.retries import Part, Pending, Positions
from reconvene.corel.clients.sessions import Row, Sessions, sound_sources
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.layout import FOLDED, SESSIONS, VOIDS, table_end, void_key
from reconvene.errors import Malformed
from reconvene.storage.tables import Clear, Op, Put, Reader

__all__ = ["LOOKED_BACK", "Taking"]

LOOKED_BACK = 4_096
"""Green batches whose positions are looked up again at a start."""


class Taking:
    def __init__(self, tables: Reader, bodies: Bodies, most: int) -> None:
        self.green = Sessions(SESSIONS, most)
        """As of the green line …"""
        self.folded = Sessions(FOLDED, most)
        """… and as of the base."""
        self.pending = Pending(self.green)
        self._positions = Positions()
        self._tables = tables
        self._bodies = bodies
        self._voids: dict[int, tuple[int, ...]] = {}
        """By position of the batch; as far as storage may not show them yet."""
        self.green.load(tables)
        self.folded.load(tables)

    def look_back(self, placed: Iterable[tuple[int, Heading]], waiting: Iterable[Heading]) -> None:
        """At the start: the last green batches, and all that is not green."""
        for position, heading in placed:
            if heading.sourced:
                self._note(heading, self._bodies.get(heading.id), position, self.voids(position, heading))
        self.pending.restart(waiting, self._bodies)

    # -- the total order

    def take(self, heading: Heading, body: bytes, position: int) -> list[Op]:
        """A batch with sources is green. Gives what is to be written with its place, beside `changes`."""
        for source in sound_sources(heading, body):
            self.pending.remove(source.session, source.number, source.count, heading.author)
        self.pending.remove_batch(heading)
        void = self.green.take(heading, body, position)
        self._note(heading, body, position, void)
        if not void:
            return []
        self._voids[position] = void
        return [Put(void_key(position), msgpack.encode(void))]

    def _note(self, heading: Heading, body: bytes, position: int, void: tuple[int, ...]) -> None:
        for source in sound_sources(heading, body):
            start = source.start
            for index in (*(index for index in void if index >= start), heading.count):
                end = min(index, source.start + source.count)
                if start < end:
                    number = source.number + start - source.start
                    self._positions.add(source.session, number, end - start, position + start)
                start = index + 1

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
            raise Malformed(f"what is void at {position}: {error}") from None

    def positions(self, position: int, heading: Heading) -> list[int | None]:
        """Of each message of a green batch: where in the order it counts. None: that is not known here any more."""
        found: list[int | None] = list(range(position, position + heading.count))
        void = self.voids(position, heading)
        if void:
            for source in sound_sources(heading, self._bodies.get(heading.id)):
                for index in void:
                    if source.start <= index < source.start + source.count:
                        original = self._positions.find(source.session, source.number + index - source.start)
                        found[index] = None if original is None else original[0]
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

    # -- retries

    def parts(self, session: bytes, number: int, count: int) -> Iterator[Part]:
        """The numbers from `number` on, by what is known of them; what is `new` is nowhere here."""
        end = number + count
        fresh = number
        beyond = max(self.green.highest(session), self.pending.highest(session))
        while number < end and number <= beyond:
            part = self._known(session, number, end - number)
            if part is None:
                number += 1
                continue
            if fresh < number:
                yield Part(fresh, number - fresh, new=True)
            yield part
            number = fresh = number + part.count
        if fresh < end:
            yield Part(fresh, end - fresh, new=True)

    def _known(self, session: bytes, number: int, most: int) -> Part | None:
        if self.green.has(session, number):
            placed = self._positions.find(session, number)
            if placed is None:
                return Part(number, 1)
            return Part(number, min(placed[1], most), position=placed[0])
        waiting = self.pending.find(session, number)
        if waiting is None:
            return None
        author, first, follow = waiting
        return Part(number, min(follow, most), author, first)

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
        self._positions.clear()
        self._voids.clear()
        ops.append(Clear(VOIDS, table_end(VOIDS)))
        return ops
