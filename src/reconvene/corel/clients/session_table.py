"""Client sessions: what of each is in the total order, so that an append counts once however often it is retried.

A session numbers its messages. Given: green batches in their order. Promised: a number counts where it is first in
the order; where it comes again it is *void*: it keeps its position and counts for nothing. The table is a function of
the total order alone, and so the same at every replica at the same green line.

The number of sessions is bounded: the one that was silent for longest is forgotten, and what it sends again is taken
again. Of a session that is remembered no number is forgotten. Its gaps are bounded where a replica takes its messages
(`once`): no replica takes a number by which it would know of more than MOST_RANGES ranges. Replicas that can't hear
each other may have taken MOST_RANGES each, and that is how long a row of this table can become.

The session of a transaction's commits is another kind: only its highest number is remembered, and with a number all
lower ones are taken, whether they came or not. These sessions have a bound of their own, so that a transaction of a
table that is written once a day is not forgotten because many clients come and go. So have the sessions of outposts:
one that is cut off for weeks still holds messages that the log may have.

The session of a cursor is a transaction's whose commits carry notes. The last note that counts is part of its row. A
cursor is never forgotten: where there are MOST_CURSORS of them, the first record of a further one is void. Only a
cursor that was dropped, whose note is empty, makes room for another. A cursor that is not in the table begins with
the number CURSOR_BEGINS and no other, so that a reader that held it before it was dropped does not bring it back.
"""

from collections.abc import Iterable, Iterator

from msgspec import DecodeError, Struct, msgpack

from reconvene.corel.batch import Heading, Kind, Source, messages_of, sources_of
from reconvene.corel.clients.commits import TRANSACTION, decode_commit
from reconvene.corel.clients.ranges import Ranges, has, include
from reconvene.corel.keeping.layout import session_key, table_end
from reconvene.errors import Malformed, Rejected
from reconvene.storage.tables import Clear, Op, Put, Reader

__all__ = [
    "CURSOR",
    "CURSOR_BEGINS",
    "MOST_CURSORS",
    "MOST_NUMBER",
    "MOST_RANGES",
    "MOST_SESSION_BYTES",
    "OUTPOST",
    "Row",
    "SessionTable",
    "check_session",
    "sound_sources",
]

MOST_SESSION_BYTES = 64
MOST_NUMBER = (1 << 62) - 1
MOST_RANGES = 64
"""Of a session's numbers, as one replica knows them when it takes another: one more than the gaps between them."""

OUTPOST = b"outpost "
"""How the session of an outpost begins."""
CURSOR = TRANSACTION + b"cursor:"
"""How the session of a cursor begins."""
CURSOR_BEGINS = 1
"""The number of a cursor's first record."""
MOST_CURSORS = 1_024

Row = tuple[bytes, bytes]
"""A session, and what is stored of it."""


class Taken(Struct, array_like=True, gc=False):
    """What is known of one session."""

    position: int
    """Of its last message, void or not: no two sessions have the same."""
    ranges: Ranges
    """The numbers that were taken."""
    commit: int = -1
    """Of a transaction: where its last commit stands that counts. -1: it is none."""
    note: bytes = b""
    """Of a cursor: what that commit carries."""

    def encoded(self) -> bytes:
        """As it is stored. Without a note as programs store it that do not know cursors."""
        return msgpack.encode(self if self.note else (self.position, self.ranges, self.commit))

    def take(self, first: int, last: int) -> Ranges:
        """Takes the numbers from `first` to `last`. Returns those of them that had been taken, as ranges."""
        ranges = self.ranges
        if self.commit >= 0:
            highest = ranges[-1][1] if ranges else -1
            self.ranges = [(0, max(highest, last))]
            return [(first, min(last, highest))] if first <= highest else []
        return include(ranges, first, last)


_TAKEN = msgpack.Decoder(Taken)


class SessionTable:
    """The table as of one position. It is stored under `table`."""

    def __init__(self, table: bytes, most: int) -> None:
        self._table = table
        self._most = most
        self._sessions: dict[bytes, Taken] = {}
        """By last position, the lowest first …"""
        self._transactions: dict[bytes, Taken] = {}
        self._outposts: dict[bytes, Taken] = {}
        self._cursors: dict[bytes, Taken] = {}
        """… and so are these."""
        self._changed: dict[bytes, None] = {}
        """Not stored yet."""

    def __len__(self) -> int:
        return len(self._sessions) + len(self._transactions) + len(self._outposts) + len(self._cursors)

    def highest(self, session: bytes) -> int:
        """The highest number that was taken; -1: none is known."""
        taken = self._get(session)
        return -1 if taken is None else taken.ranges[-1][1]

    def has(self, session: bytes, number: int) -> bool:
        taken = self._get(session)
        return taken is not None and has(taken.ranges, number)

    def ranges(self, session: bytes) -> Ranges:
        """The numbers that were taken. Not to be changed."""
        taken = self._get(session)
        return [] if taken is None else taken.ranges

    def committed(self, session: bytes) -> tuple[int, int] | None:
        """Of a transaction: the number and the position of its last commit that counts."""
        taken = self._transactions.get(session)
        return None if taken is None else (taken.ranges[-1][1], taken.commit)

    def cursor(self, session: bytes) -> tuple[int, bytes] | None:
        """Of a cursor: the position of its last record that counts, and that one's note, which is empty if the cursor
        was dropped. None: there is no such cursor."""
        taken = self._cursors.get(session)
        return None if taken is None else (taken.commit, taken.note)

    def cursors(self) -> list[tuple[bytes, int, bytes]]:
        """(session, position, note) of every cursor that was not dropped, by session."""
        kept = sorted(self._cursors.items())
        return [(session, taken.commit, taken.note) for session, taken in kept if taken.note]

    def _get(self, session: bytes) -> Taken | None:
        kinds = (self._sessions, self._transactions, self._outposts, self._cursors)
        return next((taken for kind in kinds if (taken := kind.get(session)) is not None), None)

    # -- the total order

    def take(self, heading: Heading, body: bytes, position: int) -> tuple[int, ...]:
        """The batch is the next one in the order. Returns the indices of its void messages."""
        void: list[int] = []
        for source in sound_sources(heading, body):
            commits = heading.kind is Kind.COMMIT and source.session.startswith(TRANSACTION)
            if source.session.startswith(CURSOR):
                if not (commits and self._take_cursor(source, body, position)):
                    void += range(source.start, source.start + source.count)
            else:
                void += self._take(source, position, commits)
        return tuple(sorted(set(void)))

    def _take_cursor(self, source: Source, body: bytes, position: int) -> bool:
        """Whether a record of a cursor counts: it is the first that comes after the record that its writer saw."""
        session, at = source.session, position + source.start
        taken = self._cursors.get(session)
        try:
            note = decode_commit(messages_of(body)[source.start]).note
        except Malformed:
            return False
        if source.count != 1:
            return False
        if taken is None:
            if source.number != CURSOR_BEGINS or not self._room_for_cursor():
                return False
        elif source.number <= taken.ranges[-1][1]:
            return False
        self._cursors.pop(session, None)
        self._cursors[session] = Taken(at, [(0, source.number)], at, note)  # again the last
        self._changed[session] = None
        return True

    def _room_for_cursor(self) -> bool:
        """Forgets the cursor that was dropped first, if there are as many as may be."""
        if len(self._cursors) < MOST_CURSORS:
            return True
        dropped = next((session for session, taken in self._cursors.items() if not taken.note), None)
        if dropped is None:
            return False
        del self._cursors[dropped]
        self._changed[dropped] = None
        return True

    def _take(self, source: Source, position: int, commits: bool) -> Iterator[int]:
        session, last = source.session, source.number + source.count - 1
        taken = self._pop(session) or Taken(0, [])
        taken.position = position + source.start + source.count - 1
        if commits and (not taken.ranges or last > taken.ranges[-1][1]):
            taken.commit = taken.position
        sessions = self._like(session, taken)
        if len(sessions) >= self._most:
            oldest = next(iter(sessions))
            del sessions[oldest]
            self._changed[oldest] = None
        sessions[session] = taken  # again the last
        self._changed[session] = None
        for first, end in taken.take(source.number, last):
            for number in range(first, end + 1):
                yield source.start + number - source.number

    def _pop(self, session: bytes) -> Taken | None:
        kinds = (self._transactions, self._sessions, self._outposts)
        return next((taken for kind in kinds if (taken := kind.pop(session, None)) is not None), None)

    def _like(self, session: bytes, taken: Taken) -> dict[bytes, Taken]:
        """The sessions of the same kind, which have one bound."""
        if session.startswith(CURSOR):
            return self._cursors
        if taken.commit >= 0:
            return self._transactions
        return self._outposts if session.startswith(OUTPOST) else self._sessions

    # -- stable storage

    def load(self, tables: Reader) -> None:
        """Raises Malformed."""
        rows = [(key[1:], value) for key, value in tables.scan(self._table, table_end(self._table))]
        self._fill(rows)

    def restore(self, rows: Iterable[Row]) -> list[Op]:
        """This is the table from now on. Returns what makes it durable. Raises Malformed."""
        found = list(rows)
        self._fill(found)
        self._changed.clear()
        return [
            Clear(self._table, table_end(self._table)),
            *(Put(session_key(self._table, session), value) for session, value in found),
        ]

    def _fill(self, rows: Iterable[Row]) -> None:
        """Raises Malformed; then nothing has changed."""
        decoded = _decode(rows)
        self._sessions, self._transactions, self._outposts, self._cursors = {}, {}, {}, {}
        for session, taken in decoded:
            self._like(session, taken)[session] = taken

    def rows(self) -> Iterator[Row]:
        """All of it, to be sent; a later change does not show."""
        kinds = (self._sessions, self._transactions, self._outposts, self._cursors)
        return iter([(session, taken.encoded()) for kind in kinds for session, taken in kind.items()])

    def changes(self) -> list[Op]:
        """What makes the changes since it was last asked durable."""
        changed, self._changed = self._changed, {}
        found = ((session, self._get(session)) for session in changed)
        return [
            Put(session_key(self._table, session), None if taken is None else taken.encoded())
            for session, taken in found
        ]


def sound_sources(heading: Heading, body: bytes) -> list[Source]:
    """A batch's sources that make sense: the same bytes, and the same answer, at every replica."""
    if not heading.sourced:
        return []
    try:
        found = sources_of(body)
    except Malformed:
        return []
    return [
        source
        for source in found
        if 1 <= len(source.session) <= MOST_SESSION_BYTES
        and 0 <= source.number <= MOST_NUMBER
        and source.start >= 0
        and 1 <= source.count <= heading.count - source.start
    ]


def check_session(session: bytes, number: int, count: int = 1) -> None:
    """Of so many messages, the first of which has this number. Raises Rejected."""
    if not 1 <= len(session) <= MOST_SESSION_BYTES:
        raise Rejected(f"a session's name has 1 to {MOST_SESSION_BYTES} bytes, not {len(session)}")
    if not 0 <= number <= MOST_NUMBER - count + 1:
        raise Rejected(
            f"expected session numbers from 1 (of a transaction: from 0) to {MOST_NUMBER},"
            f" got {count} from {number} on"
        )


def _decode(rows: Iterable[Row]) -> list[tuple[bytes, Taken]]:
    """By last position."""
    found: list[tuple[bytes, Taken]] = []
    for session, value in rows:
        try:
            taken = _TAKEN.decode(value)
        except (DecodeError, RecursionError) as error:
            raise Malformed(f"a client session of the log: {error}") from None
        if not 1 <= len(session) <= MOST_SESSION_BYTES or not _sound(taken):
            raise Malformed(f"a client session of the log: {session.hex()} with {taken}")
        found.append((session, taken))
    found.sort(key=lambda row: row[1].position)
    return found


def _sound(taken: Taken) -> bool:
    ends = [end for found in taken.ranges for end in found]
    rising = all(first <= last for first, last in taken.ranges) and ends == sorted(ends)
    return bool(ends) and rising
