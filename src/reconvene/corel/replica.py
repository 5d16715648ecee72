"""One replica of the log: the COReL algorithm, sans-IO, above a site's configurations and agreed messages.

Given: the site's events in their order (`take`), what applications append, and word of each sync. Promised: the
paper's properties 3.1, 3.2, 3.6 to 3.8; nothing is told, acknowledged or sent before what it depends on is durable.

A turn is any number of inputs; then `pump`, while the site takes what is in `outgoing`; then `flush`, which gives
what is to be written and what happened. docs/log.md tells the whole story.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct, msgpack

from reconvene.core.effects import Changed, ConfKind, Delivered, Event
from reconvene.corel.batch import BatchId, Heading, Kind
from reconvene.corel.clients.accepting import Accepting
from reconvene.corel.clients.barriers import Barriers
from reconvene.corel.clients.once import Once
from reconvene.corel.clients.retries import Part
from reconvene.corel.clients.taking import LOOKED_BACK, Taking
from reconvene.corel.events import Accepted, LogEvent, messages_in
from reconvene.corel.home import Home
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.damage import Guarded
from reconvene.corel.keeping.durable import Durable
from reconvene.corel.keeping.layout import LINE, RECORD, Line, Place, Record, decode_place, green_key, position_of
from reconvene.corel.keeping.load import fill, last_green, load_base, load_record, stored_green
from reconvene.corel.keeping.snapshots import Snapshots
from reconvene.corel.keeping.truncation import Truncation
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import (
    FORCE,
    INIT,
    Force,
    Init,
)
from reconvene.corel.pace import BATCH_BYTES, Step
from reconvene.corel.paper.configuration import View
from reconvene.corel.paper.establishing import Phase
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.losses import Losses, check_force, losses
from reconvene.corel.replicas.sets import Change, ReplicaSet, encode_change
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import UNNAMED, Service
from reconvene.storage.tables import Op, Put, Reader

__all__ = ["LogEffects", "Replica"]

_MORE_AFTER_NS = 5_000_000
"""How long the next piece waits of what is done in pieces."""
_LINE_AFTER_NS = 100_000_000
"""How long a green line waits for a write that it can go with."""


class LogEffects(Struct):
    """What a turn ends with: `ops` are synced as one, then `synced` is told; `events` depend on earlier writes."""

    token: int
    """0: nothing is to be written."""
    ops: list[Op]
    events: list[LogEvent]


class Replica:
    def __init__(
        self,
        name: str,
        sites: Sequence[str],
        incarnation: int,
        tables: Reader,
        limits: LogLimits | None = None,
        keeps: bool = True,
        begin: bool = False,
    ) -> None:
        """`sites` by ordinal. `tables` holds what `load.create` made, or what an earlier incarnation left. `begin`: a
        new log may begin here, once all of its replicas are there and say the same.

        Raises Malformed where that makes no sense, Unavailable where it was written by a newer program.
        """
        self.limits = limits or LogLimits()
        tables = Guarded(tables)
        record, base = load_record(tables), load_base(tables)
        durable = Durable()
        bodies = Bodies(tables, self.limits.cache_bytes)
        queue = Queue(bodies, base, record.replicas.number_of(name), durable)
        fill(queue, bodies, tables)
        self.home = Home(name, sites, tables, record, queue, durable, self.limits)
        self.home.keeps = keeps and not record.outcast and not record.behind
        self.home.begin = () if begin else None
        self.home.on_green = self._green
        self.accepting = Accepting(queue, incarnation, self.limits)
        self._once = Once(self.home, self.accepting, self.read)
        self.home.on_restored = self.accepting.recount
        self.home.taking.look_back(
            last_green(tables, bodies, base.position, queue.green, LOOKED_BACK), self.home.waiting()
        )
        queue.on_had = self._had
        self.barriers = Barriers(self.home)
        self.snapshots = Snapshots(self.home)
        self._truncation = Truncation(self.home, self.limits)
        self._time = 0
        self._malformed = 0
        self.view = self._view("", ())
        self._line_due: int | None = None
        self._more_at: int | None = None
        """When the last turn ended, if it left something to do."""
        self._inbox: deque[Delivered | Changed] = deque()
        """Delivered, and not handled yet."""
        self._inbox_bytes = 0
        self._changes = 0
        """How many changes of configuration are among them."""

    # -- what others ask

    @property
    def name(self) -> str:
        return self.home.name

    @property
    def queue(self) -> Queue:
        return self.home.queue

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

    @property
    def record(self) -> Record:
        """The durable variables. Not to be changed from outside."""
        return self.home.record

    @property
    def replicas(self) -> ReplicaSet:
        """The set of replicas, as of the green line."""
        return self.home.record.replicas

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites of the cluster, by ordinal."""
        return self.home.sites

    @property
    def keeps(self) -> bool:
        """This site keeps the log at all."""
        return self.home.keeps

    @property
    def strangers(self) -> tuple[str, ...]:
        """Sites of this configuration that came under a replica's name with another storage."""
        return self.home.strangers

    @property
    def behind(self) -> dict[str, str]:
        """By name: replicas of this configuration whose storage is older than what others know of it, and why."""
        return self.home.behind

    @property
    def green_lines(self) -> dict[str, int]:
        """By site: the highest green line that it reported."""
        return self.home.greens

    @property
    def may_begin(self) -> bool:
        """An operator has said that a new log may begin here."""
        return self.home.begin is not None

    def allow_begin(self) -> None:
        """A new log may begin here, once all of its replicas are present and allow it too."""
        self.home.begin = ()

    def refuse(self, why: str) -> None:
        """This storage is older than what others know of it: it takes no part from now on, not after a restart
        either."""
        self.home.refuse(why)

    @property
    def wants_renewal(self) -> bool:
        """A new configuration with the same members is wanted, so that all of them recover again."""
        return self.home.wants_renewal

    @property
    def sessions(self) -> Taking:
        """What is known of client sessions."""
        return self.home.taking

    def committed(self, session: bytes) -> tuple[int, int] | None:
        """Of a transaction: the number and the position of its last commit that counts."""
        return self.home.taking.green.committed(session)

    def session_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """The table of client sessions as of the green line."""
        return self.home.taking.green.rows()

    def session_of(self, heading: Heading, index: int) -> tuple[bytes, int] | None:
        """Under which session's number a message of a batch was sent."""
        return self.home.taking.session_of(heading, index)

    def index_of(self, heading: Heading, session: bytes, number: int) -> int | None:
        """Which message of a batch was sent under a session's number."""
        return self.home.taking.index_of(heading, session, number)

    def body(self, heading: Heading) -> bytes:
        """Of a batch that is here. Raises Damaged."""
        return self.queue.bodies.get(heading.id)

    def not_green(self) -> Iterator[Heading]:
        """All batches that are here and not green, in order; last those that only this replica has."""
        return self.home.waiting()

    def placed(self, start: int, end: int) -> Iterator[Place]:
        """Batches that are green or yellow here, from one position to before another."""
        return self.home.placed(start, end)

    def stored_green_ids(self, start: int) -> Iterator[tuple[int, BatchId]]:
        """(position, id) of the green batches on stable storage from a position on."""
        for key, value in self.home.tables.scan(green_key(start), green_key(self.green)):
            yield position_of(key), decode_place(value).id

    def pending_sets(self) -> list[ReplicaSet]:
        """The set at the green line, and those that pending changes would make of it."""
        return self.home.pending_sets()

    @property
    def outgoing(self) -> deque[tuple[Service, bytes]]:
        """For the site to send in this configuration, in order; `pump` fills it again."""
        return self.home.outgoing

    @property
    def phase(self) -> Phase:
        return self.view.handler.phase

    @property
    def primary(self) -> int:
        """The number of the primary component that it is in; 0: none."""
        return self.view.primary

    @property
    def participants(self) -> tuple[str, ...]:
        return self.view.handler.participants

    @property
    def malformed(self) -> int:
        """Messages of the log that made no sense."""
        return self._malformed + self.view.malformed

    @property
    def step(self) -> str:
        """For the tables of what was tested."""
        if self.phase is Phase.OPEN:
            return "log: primary" if self.primary else "log: minority"
        return f"log: {self.phase.value}"

    @property
    def is_replica(self) -> bool:
        """It keeps the log, and accepts messages."""
        return self.left_out is None and self.home.record.admitted

    @property
    def left_out(self) -> str | None:
        """Why the log goes on without what this site holds, if it does: then nobody should read it here either."""
        home = self.home
        if home.record.behind:
            rest = sum(waiting.count for waiting in home.waiting() if waiting.author == self.queue.own)
            return (
                f"site {self.name}: its storage is older than what others know of it ({home.record.behind}): was its"
                f" directory put back? {rest} messages that it accepted have no place here: `reconvene log rescue`"
                " prints them, and `reconvene replace` makes the site a new replica"
            )
        if home.record.outcast:
            return (
                f"site {self.name} was given up as lost, and the log went on without it: replace it,"
                " or read at another site"
            )
        if self.name in home.strangers and home.record.replaces:
            return f"site {self.name} was replaced: it waits for a quorum of the log's other replicas to take it in"
        if self.name in home.strangers:
            return (
                f"site {self.name} has another storage than the log's replica {self.name}: replace it,"
                " or read at another site"
            )
        if home.keeps and self.queue.own is not None and not home.removed:
            return None
        return f"site {self.name} keeps no replica of the log"

    @property
    def waits(self) -> str | None:
        """Why it accepts nothing yet, where it is a replica: its storage is empty, and belongs to no log so far."""
        if self.left_out is not None or self.home.record.admitted:
            return None
        if self.home.begin is None:
            return "the log here is empty: it waits for `reconvene log init`, or for a log's replicas to bring it in"
        absent = [name for name in self.home.record.replicas.names() if name not in self.participants]
        return f"the log here is empty: it begins when all of its replicas are here; absent: {', '.join(absent)}"

    @property
    def begun(self) -> bool:
        """Something was accepted, logged or attempted here."""
        record, queue = self.home.record, self.queue
        known = queue.green or queue.entries or queue.accepted
        return bool(known or record.last_attempted_primary or record.last_committed_primary)

    @property
    def settled(self) -> bool:
        """All that was decided is on stable storage, but for the green line, and nothing waits to be handled."""
        return self.home.durable.idle and not self.accepting.pending and not self.busy

    def deadline(self) -> int | None:
        """When it wants a turn though nothing happens."""
        return self._line_due if self._more_at is None else self._more_at

    def read(self, position: int) -> Iterator[tuple[int, Heading]]:
        """Green batches in order, from the one that holds `position`, which must not be below the base."""
        start = self.queue.recent.start
        if position < start:
            yield from stored_green(self.home.tables, self.queue.bodies, position, start)
        yield from self.queue.recent.since(max(position, start))

    # -- applications

    def append(self, messages: Sequence[bytes], kind: Kind = Kind.DATA) -> int:
        """Takes messages; gives the counter of the first among its author's: Accepted will tell when they are
        durable, Green where they are in the order.

        Raises Rejected (too large, no replica), Unavailable at a limit; then it took none.
        """
        self.check_accepts()
        return self.accepting.append(messages, kind)

    def check_accepts(self) -> None:
        """Raises Rejected where the site is no replica of the log, Unavailable where it is none yet."""
        left_out = self.left_out
        if left_out is not None:
            raise Rejected(left_out)
        waits = self.waits
        if waits is not None:
            raise Unavailable(f"site {self.name}: {waits}")

    def append_once(
        self, messages: Sequence[bytes], session: bytes, number: int, kind: Kind = Kind.DATA
    ) -> list[Part]:
        """The same under a client session, whose own number the first message has; the others follow. What is known
        here of the session, green or not, is not taken again. Returns what became of all of them, in order.

        Raises Rejected also where a number can't be remembered, or was taken with other data (`once`). Where two
        replicas took the same number, the first in the order counts, and the other is void (`voids`).
        """
        self.check_accepts()
        return self._once.append(messages, session, number, kind)

    def voids(self, position: int, heading: Heading) -> tuple[int, ...]:
        """Of a green batch: the indices of messages that are a client's retries of earlier ones."""
        return self.home.taking.voids(position, heading)

    def positions(self, position: int, heading: Heading) -> list[int | None]:
        """Of each message of a green batch: where it counts, which is elsewhere if it is void. None: that is not
        known here any more."""
        return self.home.taking.positions(position, heading)

    def name_of(self, number: int) -> str:
        """Of an author: its site's name, also where it is no replica any more. A replica whose site was another one
        before has its number in it, for it counts its messages from 1 again: SITE#NUMBER."""
        names = self.home.record.names
        name = names.get(number, "")
        first = min((known for known, other in names.items() if other == name), default=number)
        return name if name and first == number else f"{name}#{number}"

    def propose(self, replicas: ReplicaSet) -> int:
        """Changes the set of replicas through the log; gives the counter of the change's message.

        Raises Unavailable where this is no primary component that is a quorum of both sets, or one is under way.
        """
        sets = self.home.pending_sets()
        if not self.primary:
            raise Unavailable("replicas change in a primary component only: this site is in none")
        if len(sets) > 1 or any(waiting.heading.kind is Kind.CHANGE for waiting in self.queue.accepted):
            raise Unavailable("the last change of the replicas is not ordered yet")
        if not replicas.quorum_holds(self.participants):
            raise Unavailable(f"{', '.join(self.participants)}: not a quorum of the new set")
        return self.append([encode_change(Change(sets[0].age, replicas))], Kind.CHANGE)

    def _replace_lost(self) -> None:
        """A storage is here that takes the place of a lost one: the first of a primary component proposes that."""
        if not self.primary or self.name != self.participants[0]:
            return
        sets = self.home.pending_sets()
        name = min(self.home.replacing)
        if len(sets) > 1 or any(waiting.heading.kind is Kind.CHANGE for waiting in self.queue.accepted):
            return  # one change at a time
        if self.accepting.pending or sets[0].number_of(name) is None:
            return
        number = sets[0].number_of(name)
        if number is not None and self.home.record.identities.get(number) == self.home.replacing[name]:
            return  # done: the next configuration brings it in
        self.propose(sets[0].replaced(name, name))

    def init(self, without: Collection[str] = ()) -> None:
        """Begins a new log with the replicas that are here. `without`: those that may be absent, since an operator
        knows that they hold no log. Raises Rejected where a log was begun, Unavailable where replicas are absent."""
        replicas, here = self.home.record.replicas, self.participants
        for name in sorted(without):
            if replicas.number_of(name) is None:
                raise Rejected(f"log: {name} is none of its replicas: {', '.join(replicas.names())}")
        left_out = self.left_out
        if left_out is not None:
            raise Rejected(left_out)
        plan = self.view.handler.plan
        if plan is None:
            raise Unavailable(f"site {self.name} does not know yet which replicas are here: try again")
        if plan.max_committed or plan.green or self.primary:
            raise Rejected("log: it has begun already")
        absent = [name for name in replicas.names() if name not in here and name not in without]
        replaced = [name for name in absent if name in self.home.replacing]
        if replaced:
            raise Unavailable(
                f"log: {', '.join(replaced)}: replaced, and taken in once the log has begun: name them with --without"
            )
        if absent:
            raise Unavailable(
                f"log: {', '.join(absent)}: not here; start them, or name them with --without if they hold no log"
            )
        if not replicas.quorum_holds(here):
            raise Unavailable(f"log: {', '.join(here)}: not a quorum of its replicas {', '.join(replicas.names())}")
        self.home.send(INIT, Init(sorted(without)))

    def force(self, replicas: ReplicaSet) -> None:
        """Makes this the set here and at every member of the configuration, by no quorum's leave. What that may lose,
        `losses` tells. Raises Rejected where a replica that is kept is not here and may be further on."""
        if replicas.age <= self.home.record.replicas.age or replicas.epoch <= self.home.record.replicas.epoch:
            raise Rejected("a forced set expected to be of a later epoch")
        check_force(self.home, self.participants, replicas.names())
        self.home.send(FORCE, Force(replicas))

    def losses(self, lost: Collection[str]) -> Losses:
        """What may be lost with these replicas. Raises Rejected where one is none."""
        return losses(self.home, self.participants, lost)

    def truncate(self, position: int) -> None:
        """What is green below it may go, whoever lacks it, as far as the green line is on stable storage and whole
        batches are below it. It goes a piece at a time. Raises Rejected where it is beyond the green line."""
        if position > self.queue.green:
            raise Rejected(f"position {position} is beyond the green line, which is at {self.queue.green}")
        self._truncation.asked = max(self._truncation.asked, position)

    def save_snapshot(
        self, position: int, data: bytes, then: Callable[[], None] = lambda: None, name: str = UNNAMED
    ) -> None:
        """The state of the machine of this name after everything below `position`; `then` is called once it is on
        stable storage.

        Raises Rejected (too large, too many names, beyond the green line, one as new is kept), Unavailable while one
        of this name is being saved.
        """
        self.snapshots.save(name, position, data, then)

    # -- the site's events

    def take(self, events: Sequence[Event]) -> None:
        """Handles them in their order, as much as one turn takes; the rest waits for the next turns."""
        for event in events:
            if type(event) is Delivered:
                weight = _weight(event)
                self._inbox.append(event)
                self._inbox_bytes += weight
                if weight > self.limits.turn_bytes:
                    self.home.pace.end()  # to put it together was work enough
            elif type(event) is Changed:
                self._inbox.append(event)
                self._changes += 1
        self.work()

    def work(self) -> None:
        """Goes on with what waits, as far as this turn's share goes."""
        self.view.advance()
        while self.home.has_share:
            if self.home.step is not None:
                self._go_on(self.home.step)
            elif self._inbox:
                self._handle(self._inbox.popleft())
            else:
                return

    def _go_on(self, step: Step) -> None:
        for _ in step:
            if not self.home.has_share:
                return
        self.home.step = None

    def _handle(self, event: Delivered | Changed) -> None:
        if type(event) is Delivered:
            self._inbox_bytes -= _weight(event)
            self.view.deliver(event)
        elif type(event) is Changed:
            self._changes -= 1
            if event.kind is ConfKind.REGULAR:
                self._begin(event.conf, tuple(self.home.sites[ordinal] for ordinal in event.members))
            elif event.kind is ConfKind.TRANSITIONAL:
                self.view.close()

    @property
    def busy(self) -> bool:
        """There is more to do than one turn takes."""
        return bool(self._inbox) or self.home.step is not None or not self.home.has_share

    @property
    def may_speak(self) -> bool:
        """What it says now belongs to the site's configuration, and everything that happened before that is reported
        before it leaves."""
        return not self._changes and self.home.has_share

    def _begin(self, conf: str, members: tuple[str, ...]) -> None:
        self.view.close()
        self._malformed += self.view.malformed
        self.home.set_changed = self.home.wants_renewal = False
        self.view = self._view(conf, members)
        self.view.handler.start()

    def _view(self, conf: str, members: tuple[str, ...]) -> View:
        return View(self.home, self.barriers, self.snapshots, self.accepting.recount, conf, members)

    # -- turns

    def _green(self, heading: Heading, position: int) -> None:
        self.accepting.ordered(heading.id)

    def _had(self, heading: Heading) -> None:
        """A batch is here. The replica's own are known from when they were appended."""
        if heading.sourced and heading.author != self.queue.own:
            self.home.taking.pending.add_batch(heading, self.queue.bodies)

    def close_batches(self, time: int) -> None:
        """Makes batches of what was appended; `time`: this site's clock, ns since 1970."""
        self._time = time
        if self.home.replacing:
            self._replace_lost()
        made = self.accepting.close(time)
        for heading in made:
            self.home.taking.pending.note_batch(heading)
        if made:
            self.home.pace.spend(sum(heading.size for heading in made))
            self.home.durable.after(lambda: self._accepted(made))

    def _accepted(self, made: list[Heading]) -> None:
        self.accepting.synced()
        for heading in made:
            self.home.tell(Accepted(heading))

    def settle(self) -> None:
        """Lets go on what waits for earlier writes only."""
        self.home.durable.settle()

    def pump(self) -> None:
        """Fills `outgoing` with control messages and what is sent again."""
        self.view.pump()

    def synced(self, token: int) -> None:
        queue = self.queue
        for write in self.home.durable.synced(token):
            queue.bodies.synced(write.bodies)
            self.home.durable_green = max(self.home.durable_green, write.green)
            queue.recent.trim(self.home.durable_green)
            self.home.taking.stored(self.home.durable_green)
            self.home.holds.stored(self.home.durable_green)
            for then in write.thens:
                then()
        self.work()

    def flush(self, now: int) -> LogEffects:
        """Ends the turn."""
        durable, queue = self.home.durable, self.queue
        self.barriers.advance()
        self._clean_up(now)
        token = 0
        ops: list[Op] = []
        events = self._report()
        if self.home.events or durable.held:
            pass  # the green line on storage is never ahead of what was reported; half of a step is never written
        elif durable.wanted or (self._line_due is not None and now >= self._line_due):
            if durable.record_changed:
                durable.ops.append(Put(RECORD, msgpack.encode(self.home.record)))
            if queue.green != self.home.durable_green:
                durable.ops.append(Put(LINE, msgpack.encode(Line(queue.green, queue.last_green, queue.green_size))))
                durable.ops += self.home.taking.changes()
            token, ops = durable.begin(queue.bodies.take_unwritten(), queue.green)
            self._line_due = None
        elif durable.ops and self._line_due is None:
            self._line_due = now + _LINE_AFTER_NS
        self._more_at = now if self.busy else None
        self.home.pace.begin(self._inbox_bytes)
        return LogEffects(token, ops, events)

    def _report(self) -> list[LogEvent]:
        """What happened, in order, as much as one turn takes. What became green in this turn is always in it: nothing
        does once more is untold than that."""
        home, most = self.home, self.limits.turn_messages
        if home.untold <= most + self.limits.batch_messages:
            events, home.events = list(home.events), deque()
            home.untold = 0
            return events
        events, count = [], 0
        while home.events and count < most:
            events.append(home.events.popleft())
            count += messages_in(events[-1])
        home.untold -= count
        return events

    def _clean_up(self, now: int) -> None:
        """What waits for nothing and takes its time: a piece of it each turn."""
        more = self.snapshots.step()
        # In recovery the base is what the state message told; and who is fed is fed from storage.
        if self.view.open and not self.view.feeding:
            durable = self.home.durable_green
            more |= self._truncation.step(durable, self.snapshots.floor, self._time)
            if self.snapshots.could_fetch and self._truncation.held(durable, self._time):
                self.snapshots.hold_up()
        if more:
            self._line_due = (
                now + _MORE_AFTER_NS if self._line_due is None else min(self._line_due, now + _MORE_AFTER_NS)
            )

    def invariants(self) -> None:
        self.queue.invariants()
        record = self.home.record
        assert record.committed_here <= min(record.last_attempted_primary, record.last_committed_primary)


def _weight(event: Delivered) -> int:
    return BATCH_BYTES + sum(map(len, event.payloads))
