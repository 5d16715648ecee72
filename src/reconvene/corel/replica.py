"""One replica of the log: the COReL algorithm, sans-IO, above a site's configurations and agreed messages.

Given: the site's events in their order (`take`), what applications append, and a report of each sync. Promised: the
paper's properties 3.1, 3.2, 3.6 to 3.8; nothing is reported, acknowledged or sent before what it depends on is
durable.

A turn is any number of inputs; then `pump`, while the site takes what is in `outgoing`; then `flush`, which returns
what is to be written and what happened. docs/log.md explains the whole.
"""

from collections.abc import Collection, Iterator, Sequence

from reconvene.corel.batch import BatchId, Heading, Kind, Origin, Source
from reconvene.corel.clients.session_index import SessionRun
from reconvene.corel.keeping.layout import Place, Record
from reconvene.corel.messages import FORCE, INIT, Force, Init
from reconvene.corel.paper.phases import Phase
from reconvene.corel.replicas.administration import check_forced, check_init, make_change
from reconvene.corel.replicas.losses import Losses, losses
from reconvene.corel.replicas.reasons import reason, whatif
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.corel.running import LogEffects, Running
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import UNNAMED

__all__ = ["LogEffects", "Replica"]


class Replica(Running):
    """What others may ask of a replica, beside its turns."""

    # -- the log

    @property
    def green(self) -> int:
        """The green line: how many messages are in the total order here."""
        return self.queue.green

    @property
    def base(self) -> int:
        """Positions below it are truncated."""
        return self.queue.base.position

    @property
    def own(self) -> int | None:
        """The number that its own messages have as their author; None: it is no replica."""
        return self.queue.own

    def body(self, heading: Heading) -> bytes:
        """Of a batch that is here. Raises Damaged."""
        return self.queue.bodies.get(heading.id)

    def read(self, position: int) -> Iterator[tuple[int, Heading]]:
        """Green batches in order, from the one that holds `position`, which must not be below the base."""
        return self.queue.greens.read(position)

    def places(self, start: int, end: int) -> Iterator[Place]:
        """Batches that are green or yellow here, from one position to before another."""
        return self.queue.places(start, end)

    def stored_green_ids(self, start: int) -> Iterator[tuple[int, BatchId]]:
        """(position, id) of the green batches on stable storage from a position on."""
        return self.queue.greens.stored_ids(start)

    def not_green(self) -> Iterator[Heading]:
        """All batches that are here and not green, in order; last those that only this replica has."""
        return self.queue.headings()

    def voids(self, position: int, heading: Heading) -> tuple[int, ...]:
        """Of a green batch: the indices of messages that are a client's retries of earlier ones."""
        return self.sessions.voids(position, heading)

    def positions(self, position: int, heading: Heading) -> list[int | None]:
        """Of each message of a green batch: where it counts, which is elsewhere if it is void. None: that is not
        known here any more."""
        return self.sessions.positions(position, heading)

    def session_of(self, heading: Heading, index: int) -> tuple[bytes, int] | None:
        """Under which session's number a message of a batch was sent."""
        return self.sessions.session_of(heading, index)

    def index_of(self, heading: Heading, session: bytes, number: int) -> int | None:
        """Which message of a batch was sent under a session's number."""
        return self.sessions.index_of(heading, session, number)

    def session_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """The table of client sessions as of the green line."""
        return self.sessions.green.rows()

    def committed(self, session: bytes) -> tuple[int, int] | None:
        """Of a transaction: the number and the position of its last commit that counts."""
        return self.sessions.green.committed(session)

    def cursor(self, session: bytes) -> tuple[int, bytes] | None:
        """Of a cursor: the position of its last record that counts, and the note there, which is empty where the
        cursor was dropped."""
        return self.sessions.green.cursor(session)

    def cursors(self) -> list[tuple[bytes, int, bytes]]:
        """(session, position of the last record, note) of every cursor that was not dropped, by session."""
        return self.sessions.green.cursors()

    # -- the replica among others

    @property
    def phase(self) -> Phase:
        return self.configuration.handler.phase

    @property
    def primary(self) -> int:
        """The number of the primary component that it is in; 0: none."""
        return self.configuration.primary

    @property
    def participants(self) -> tuple[str, ...]:
        return self.configuration.handler.participants

    @property
    def malformed(self) -> int:
        """Messages of the log that could not be decoded, or that no correct replica sends."""
        return self._malformed + self.configuration.malformed

    @property
    def step(self) -> str:
        """Where it is, in words, for tables of what was tested."""
        if self.phase is Phase.OPEN:
            if self.configuration.held:
                return "log: establish"
            return "log: primary" if self.primary else "log: minority"
        return f"log: {self.phase.value}"

    @property
    def record(self) -> Record:
        """The durable variables. Not to be changed from outside."""
        return self._writes.record

    @property
    def replicas(self) -> ReplicaSet:
        """The set of replicas, as of the green line."""
        return self._replicas.set

    def pending_sets(self) -> list[ReplicaSet]:
        """The set at the green line, and those that pending changes would make of it."""
        return self._replicas.pending_sets()

    @property
    def green_lines(self) -> dict[str, int]:
        """By site: the highest green line that it reported."""
        return self._replicas.green_lines

    def would_order(self, lost: Collection[str]) -> bool:
        """Whether all replicas but these could order if they met now, as far as it is known here."""
        return self._voting.would_order(lost)

    @property
    def why(self) -> str:
        """Why this component may or may not order, in one sentence."""
        apart = self.left_out or self.waits
        if apart is not None:
            return apart
        recovering = None if self.phase is Phase.OPEN else self.phase.value
        return reason(self._voting, self.participants, self.record.names, primary=self.primary, recovering=recovering)

    def whatif(self, lost: Collection[str]) -> dict[str, object]:
        """What losing these sites would stop. Raises Rejected where one is no replica."""
        for name in sorted(lost):
            if self.replicas.number_of(name) is None:
                raise Rejected(f"log: {name} is none of its replicas: {', '.join(self.replicas.names())}")
        return whatif(self._voting, self.participants, lost, self.record.names, self.primary)

    def name_of(self, number: int) -> str:
        """Of an author: its site's name, also where it is no replica any more. A replica whose site was another one
        before has its number in its name, for it counts its messages from 1 again: SITE#NUMBER."""
        names = self.record.names
        name = names.get(number, "")
        first = min((known for known, other in names.items() if other == name), default=number)
        return name if name and first == number else f"{name}#{number}"

    @property
    def keeps(self) -> bool:
        """This site keeps the log at all."""
        return self._standing.keeps

    @property
    def is_replica(self) -> bool:
        """It keeps the log, and accepts messages."""
        return self._standing.accepts

    @property
    def left_out(self) -> str | None:
        """Why the log goes on without what this site holds, if it does: then it should not be read here either."""
        return self._standing.left_out

    @property
    def waits(self) -> str | None:
        """Why it accepts nothing yet, where it is a replica: its storage is empty, and belongs to no log so far."""
        return self._standing.waits(self.participants)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Sites of this configuration that came under a replica's name with another storage."""
        return self._standing.strangers

    @property
    def behind(self) -> dict[str, str]:
        """By name: replicas of this configuration whose storage is older than what others know of it, and why."""
        return self._standing.behind

    @property
    def may_begin(self) -> bool:
        """An operator has said that a new log may begin here."""
        return self._standing.begin is not None

    @property
    def begun(self) -> bool:
        """Something was accepted, logged or attempted here."""
        record, queue = self.record, self.queue
        known = queue.green or queue.entries or queue.accepted
        return bool(known or record.last_attempted_primary or record.last_committed_primary)

    # -- applications

    def append(self, messages: Sequence[bytes], kind: Kind = Kind.DATA) -> int:
        """Takes messages. Returns the counter of the first among its author's: Accepted reports when they are
        durable, Green where they are in the order.

        Raises Rejected (too large, no replica), Unavailable at a limit; then it took none.
        """
        if not self._standing.accepts:
            self.check_accepts()
        return self.accepting.append(messages, kind)

    def append_once(
        self, messages: Sequence[bytes], session: bytes, number: int, kind: Kind = Kind.DATA
    ) -> list[SessionRun]:
        """The same under a client session, whose own number the first message has; the others follow. What is known
        here of the session, green or not, is not taken again. Returns what became of all of them, in order.

        Raises Rejected also where a number can't be remembered, or was taken with other data (`once`). Where two
        replicas took the same number, the first in the order counts, and the other is void (`Sessions.voids`).
        """
        if not self._standing.accepts:
            self.check_accepts()
        return self._once.append(messages, session, number, kind)

    def forward(
        self,
        messages: Sequence[bytes],
        session: bytes,
        number: int,
        after: int,
        origin: Origin,
        inner: Sequence[Source] = (),
    ) -> list[SessionRun]:
        """Takes messages that an outpost accepted, under the session of its own: the first one is its message
        `number`, and those up to `after` are green somewhere. `inner`: the sessions of its clients.

        Only in a primary component, which orders them at once: elsewhere they would wait no better than at the
        outpost, and would be another copy once it has forwarded them to another site. Raises as `append_once`.
        """
        self.check_accepts()
        if not self.primary:
            raise Unavailable(
                f"site {self.name} is in no primary component: an outpost forwards to a site that can order"
            )
        return self._once.forward(messages, session, number, after, origin, inner)

    def forwarded(self, heading: Heading) -> list[Source]:
        """Of a batch with an outpost's messages: which they are, in order; they are all of it. Empty: it has none."""
        return self.sessions.forwarded(heading)

    def place_of(self, session: bytes, number: int) -> int | None:
        """Where the message of an outpost became green first. None: nowhere, or that is not known here any more."""
        return self.sessions.place_of(session, number)

    def confirmed(self, session: bytes, first: int, most: int) -> list[tuple[int, int, int]]:
        """What is green of an outpost's messages from `first` on: (number, count, position) …, without a gap. A
        position of -1 is not known here any more."""
        return self.sessions.confirmed(session, first, most)

    def check_accepts(self) -> None:
        """Raises Rejected where the site is no replica of the log, Unavailable where it is none yet."""
        if self.is_replica:
            return
        left_out = self.left_out
        if left_out is not None:
            raise Rejected(left_out)
        raise Unavailable(f"site {self.name}: {self.waits}")

    def truncate(self, position: int) -> None:
        """What is green below it may be deleted, even where another replica lacks it: whole batches, as far as the
        green line is on stable storage, a piece at a time. Raises Rejected where it is beyond the green line."""
        if position > self.queue.green:
            raise Rejected(f"position {position} is beyond the green line, which is at {self.queue.green}")
        self._truncation.asked = max(self._truncation.asked, position)

    def save_snapshot(self, position: int, data: bytes, name: str = UNNAMED) -> int:
        """The state of the machine of this name after everything below `position`. Returns the request's number:
        RequestStored reports when it is on stable storage.

        Raises Rejected (too large, too many names, beyond the green line, one as new is kept), Unavailable while one
        of this name is being saved.
        """
        return self.snapshots.save(name, position, data)

    # -- operators

    def propose(self, replicas: ReplicaSet) -> int:
        """Changes the set of replicas through the log. Returns the counter of the change's message.

        Raises Unavailable where this is no primary component that is a quorum of both sets, or one is under way.
        """
        return self.append(
            [make_change(self._replicas, self._voting, replicas, self.primary, self.participants)], Kind.CHANGE
        )

    def init(self, without: Collection[str] = ()) -> None:
        """Begins a new log with the replicas that are here. `without`: those that may be absent, since an operator
        knows that they hold no log. Raises Rejected where a log was begun, Unavailable where replicas are absent."""
        check_init(
            self.replicas,
            self._standing,
            self._voting,
            self.configuration.handler.plan,
            self.primary,
            self.participants,
            without,
        )
        self._outgoing.send(INIT, Init(sorted(without)))

    def allow_begin(self) -> None:
        """A new log may begin here, once all of its replicas are present and allow it too."""
        self._standing.begin = ()

    def force(self, replicas: ReplicaSet) -> None:
        """Makes this the set here and at every member of the configuration, without a quorum's consent. `losses` says
        what that may lose. Raises Rejected where a replica that is kept is not here and may be further on."""
        check_forced(self._replicas, self._voting, replicas, self.participants)
        self._outgoing.send(FORCE, Force(replicas))

    def losses(self, lost: Collection[str]) -> Losses:
        """What may be lost with these replicas. Raises Rejected where one is none."""
        return losses(self._replicas, self._voting, self.record, self.queue, self.participants, lost)

    def refuse(self, why: str) -> None:
        """This storage is older than what others know of it: it takes no part from now on, not after a restart
        either."""
        self._standing.refuse(why)

    def invariants(self) -> None:
        self.queue.invariants()
        record = self.record
        assert record.committed_here <= min(record.last_attempted_primary, record.last_committed_primary)
        kept = record.kept
        assert kept is None or kept.established.epoch == record.replicas.epoch, "sessions end with their epoch"
