"""Appends under a client session: each number is taken once, or the append is refused as a whole.

Given: a replica's tables of sessions, and what it has accepted. Promised, before anything is taken:

- A number that is known here, green or not, is not taken again. The answer says what became of it.
- A number that could not be remembered is refused. A session's numbers, green or not, may have MOST_RANGES - 1 gaps
  as far as this replica knows them. One that makes no further gap is always taken.
- A number that is known here with other data is refused, as long as the log holds the first message and this replica
  knows where. The commits of a transaction are an exception: the first commit of a version counts, also where a later
  one differs.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from reconvene.corel.batch import BatchId, Heading, Kind, Origin, Source, messages_of
from reconvene.corel.clients.accepting import Accepting, shifted
from reconvene.corel.clients.commits import TRANSACTION
from reconvene.corel.clients.ranges import length_with
from reconvene.corel.clients.refusals import check_gaps, other_data
from reconvene.corel.clients.session_index import SessionRun
from reconvene.corel.clients.session_table import CURSOR, MOST_RANGES, MOST_SESSION_BYTES, check_session
from reconvene.corel.clients.sessions import Sessions
from reconvene.corel.paper.queue import Queue
from reconvene.errors import Rejected, Unavailable

__all__ = ["Once"]


class Once:
    def __init__(self, sessions: Sessions, queue: Queue, accepting: Accepting) -> None:
        self._sessions = sessions
        self._index = sessions.index
        self._queue = queue
        self._accepting = accepting

    def append(
        self,
        messages: Sequence[bytes],
        session: bytes,
        number: int,
        kind: Kind,
        origin: Origin | None = None,
        inner: Sequence[Source] = (),
    ) -> list[SessionRun]:
        """Takes what is new of these messages. Returns what became of all of them, in order. Raises Rejected,
        Unavailable; then it took none. `inner`: of an outpost's messages, the sessions of its clients."""
        check_session(session, number, len(messages))
        if session.startswith(CURSOR) and kind is not Kind.COMMIT:
            raise Rejected(f"sessions that begin with {CURSOR.decode()} are for the records of cursors")
        accepting, own = self._accepting, self._queue.own
        assert own is not None, "it is a replica"
        known = self._index.ranges(session)
        if known and number == known[-1][1] + 1:
            parts = [SessionRun(number, len(messages), new=True)]  # nearly always: all new, and no further gap
        else:
            parts = self._parts(messages, session, number, kind)
        for at, part in enumerate(parts):
            if part.new:
                skipped = part.number - number
                some = messages if len(parts) == 1 else messages[skipped : skipped + part.count]
                within = shifted(inner, skipped, part.count, 0) if inner else ()
                first = accepting.append(some, kind, session, part.number, origin, within)
                self._index.add(session, part.number, part.count, own, first)
                parts[at] = SessionRun(part.number, part.count, own, first, True, None, accepting.incarnation)
        return parts

    def _parts(self, messages: Sequence[bytes], session: bytes, number: int, kind: Kind) -> list[SessionRun]:
        """These messages, by what is known of them. Raises where they are not taken."""
        commits = kind is Kind.COMMIT and session.startswith(TRANSACTION)
        parts = list(self._sessions.parts(session, number, len(messages)))
        chosen = [messages[part.number - number :][: part.count] for part in parts]
        if not commits and any(part.new for part in parts):
            check_gaps(self._index.ranges(session), session, number, len(messages))
        for at, (part, some) in enumerate(zip(parts, chosen, strict=True)):
            if not part.new:
                parts[at] = self._known(part, session, None if commits else some)
        self._accepting.check([one for part, some in zip(parts, chosen, strict=True) if part.new for one in some])
        return parts

    def forward(
        self,
        messages: Sequence[bytes],
        session: bytes,
        number: int,
        after: int,
        origin: Origin,
        inner: Sequence[Source],
    ) -> list[SessionRun]:
        """The same for messages that an outpost forwards in their order. Those up to `after` are green somewhere.
        Raises Unavailable also if the message before the first is neither green nor known here: it has to come
        before them."""
        check_session(session, number, len(messages))
        before = next(self._sessions.parts(session, number - 1, 1))
        if number > after + 1 and before.new:
            raise Unavailable(
                f"outpost {origin.outpost}: message {number} came before message {number - 1}: expected them in order"
            )
        # A client that left more gaps than the log remembers is not known again, but holds nothing up.
        known = [
            source
            for source in inner
            if 1 <= len(source.session) <= MOST_SESSION_BYTES
            and not source.session.startswith(TRANSACTION)
            and length_with(self._index.ranges(source.session), source.number, source.number + source.count - 1)
            <= MOST_RANGES
        ]
        return self.append(messages, session, number, Kind.DATA, origin, known)

    def _known(self, part: SessionRun, session: bytes, data: Sequence[bytes] | None) -> SessionRun:
        """The same with its id, as far as that is known. Raises Rejected where it is not this data; None: any is."""
        heading: Heading | None
        if part.position is not None:
            if part.position < self._queue.base.position:
                return part
            position, heading = next(self._queue.greens.read(part.position))
            at = part.position - position
            found = replace(part, author=heading.author, first=heading.first + at, incarnation=heading.incarnation)
            there = messages_of(self._queue.bodies.get(heading.id))[at : at + part.count]
        elif part.author is not None:
            incarnation, there = self._waiting(part.author, part.first, part.count)
            found = replace(part, incarnation=incarnation)
        else:
            return part
        for index, one in enumerate(data or ()):
            if one != there[index]:
                raise other_data(session, part.number + index)
        return found

    def _waiting(self, author: int, first: int, count: int) -> tuple[int, list[bytes]]:
        """(incarnation, data) of messages that are here and not green."""
        bodies = self._queue.bodies
        incarnation = self._accepting.incarnation
        found: list[bytes] = []
        while len(found) < count:
            counter = first + len(found)
            first_of = self._index.batch(author, counter)
            heading = None if first_of is None else bodies.heading(BatchId(author, first_of))
            if heading is None or counter > heading.last:
                found += self._accepting.waiting(counter, count - len(found))
                break
            incarnation = heading.incarnation
            at = counter - heading.first
            found += messages_of(bodies.get(heading.id))[at : at + count - len(found)]
        assert len(found) == count, "what is pending is in a batch, or waits for one"
        return incarnation, found
