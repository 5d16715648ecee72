"""The turns of one replica: its parts are put together here, and get what the site delivers and what was synced.

Given: the site's events in their order (`take`), what applications append, and a report of each sync. Promised: the
paper's properties 3.1, 3.2, 3.6 to 3.8; nothing is reported, acknowledged or sent before what it depends on is
durable.

A turn is any number of inputs; then `pump`, while the site takes what is in `outgoing`; then `flush`, which returns
what is to be written and what happened. docs/log.md explains the whole.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from msgspec import msgpack

from reconvene.core.effects import Changed, ConfKind, Delivered, Event, LayerEvent
from reconvene.corel.after_sync import (
    Acknowledge,
    AfterSync,
    AnnounceDropped,
    AnnounceSnapshots,
    Attempt,
    ConfirmRequest,
    FetchPiece,
    Finalize,
    KeepFetched,
    KeepSaved,
    Renew,
    Renumbered,
    Report,
    Send,
    SendState,
    TakenIn,
)
from reconvene.corel.batch import Kind
from reconvene.corel.clients.accepting import Accepting
from reconvene.corel.clients.barriers import Barriers
from reconvene.corel.clients.holds import Holds
from reconvene.corel.clients.once import Once
from reconvene.corel.clients.sessions import LOOKED_BACK, Sessions
from reconvene.corel.events import Accepted, LogEvent, RequestStored
from reconvene.corel.inbox import Inbox
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.damage import Guarded
from reconvene.corel.keeping.green_batches import GreenBatches
from reconvene.corel.keeping.layout import LINE, RECORD, Line
from reconvene.corel.keeping.load import fill, load_base, load_record
from reconvene.corel.keeping.snapshots import Snapshots
from reconvene.corel.keeping.truncation import Truncation
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.limits import LogLimits
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.configuration import Configuration
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.administration import make_change, replacement
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.standing import Standing
from reconvene.corel.replicas.voting import Voting
from reconvene.corel.turn_share import TurnShare
from reconvene.ids import Service
from reconvene.storage.tables import Op, Put, Reader

__all__ = ["LogEffects", "Running"]

_MORE_AFTER_NS = 5_000_000
"""How long the next piece of work that is done in pieces waits."""
_LINE_AFTER_NS = 100_000_000
"""How long a green line waits for a write that it can go with."""


@dataclass(slots=True)
class LogEffects:
    """What a turn ends with."""

    token: int
    """Of `ops`; 0: nothing is to be written."""
    ops: list[Op]
    """To be written and synced as one; then the token is reported to `synced`."""
    events: list[LogEvent]
    """What happened. They depend on earlier writes only, and may be acted on at once."""


class Running:
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
        new log may begin here, once all of its replicas are present and allow it too.

        Raises Malformed where the tables make no sense, Unavailable where a newer program wrote them.
        """
        self.name = name
        self.sites = sites
        """Of the cluster, by ordinal; it may grow."""
        self.limits = limits = limits or LogLimits()
        tables = Guarded(tables)
        record, base = load_record(tables), load_base(tables)
        bodies = Bodies(tables, limits.cache_bytes)
        self._writes = writes = Writes(record)
        self._turn = turn = TurnShare(limits)
        self._outgoing = Outgoing()
        self._inbox = Inbox()
        greens = GreenBatches(tables, bodies, base.position)
        self.sessions = Sessions(tables, bodies, limits.sessions)
        self._holds = Holds(tables)
        self.queue = queue = Queue(base, record.replicas.number_of(name), bodies, greens, self.sessions, writes)
        fill(queue, bodies, tables)
        writes.green = queue.green
        self.sessions.look_back(greens.last_stored(base.position, LOOKED_BACK))
        self.sessions.restart(queue.headings())
        self.accepting = Accepting(queue, incarnation, limits)
        self._once = Once(self.sessions, queue, self.accepting)
        self.barriers = Barriers(name, queue, self._outgoing, turn)
        self.snapshots = Snapshots(
            name, limits, tables, queue=queue, writes=writes, outgoing=self._outgoing, turn=turn
        )
        self._replicas = CurrentReplicas(name, queue, writes)
        self._voting = Voting(self._replicas, record)
        self._standing = Standing(
            name, self._replicas, self._voting, queue, self.sessions, writes, keeps=keeps, begin=begin
        )
        self._truncation = Truncation(name, limits, queue, self._replicas, self.sessions, self._holds, writes)
        self._applying = Applying(
            queue,
            writes,
            turn,
            replicas=self._replicas,
            standing=self._standing,
            sessions=self.sessions,
            holds=self._holds,
            accepting=self.accepting,
        )
        self._configurations = 0
        self.configuration = self._make_configuration("", ())
        """The present configuration."""
        self._malformed = 0
        """Of earlier configurations."""
        self._time = 0
        self._line_due: int | None = None
        self._more_at: int | None = None
        """When the last turn ended, if it left something to do."""

    def _make_configuration(self, conf: str, members: tuple[str, ...]) -> Configuration:
        return Configuration(
            self._configurations,
            conf,
            members,
            tuple(self.sites),
            queue=self.queue,
            writes=self._writes,
            outgoing=self._outgoing,
            turn=self._turn,
            replicas=self._replicas,
            standing=self._standing,
            voting=self._voting,
            applying=self._applying,
            accepting=self.accepting,
            barriers=self.barriers,
            snapshots=self.snapshots,
        )

    # -- the site's events

    def take(self, events: Sequence[Event | LayerEvent]) -> None:
        """Handles them in their order, as much as one turn takes; the rest waits for the next turns."""
        for event in events:
            if type(event) is Delivered or type(event) is Changed:
                weight = self._inbox.put(event)
                if weight > self.limits.turn_bytes:
                    self._turn.end()  # to put it together was work enough
        self.work()

    def work(self) -> None:
        """Handles what waits, as far as this turn's share goes."""
        self.configuration.advance()
        turn, inbox = self._turn, self._inbox
        while (turn.step is not None or inbox.events) and turn.has_share:
            if turn.step is not None:
                turn.go_on()
            else:
                self._handle(inbox.pop())

    def _handle(self, event: Delivered | Changed) -> None:
        if type(event) is Delivered:
            self.configuration.deliver(event)
        elif type(event) is Changed:
            if event.kind is ConfKind.REGULAR:
                self._begin(event.conf, tuple(self.sites[ordinal] for ordinal in event.members))
            elif event.kind is ConfKind.TRANSITIONAL:
                self.configuration.close()

    def _begin(self, conf: str, members: tuple[str, ...]) -> None:
        self.configuration.close()
        self._malformed += self.configuration.malformed
        self._replicas.changed = self._outgoing.wants_renewal = False
        self._voting.begin(None)
        self._configurations += 1
        self.configuration = self._make_configuration(conf, members)
        self.configuration.handler.start()

    # -- turns

    @property
    def outgoing(self) -> deque[tuple[Service, bytes]]:
        """For the site to send in this configuration, in order; `pump` fills it again."""
        return self._outgoing.messages

    @property
    def wants_renewal(self) -> bool:
        """A new configuration with the same members is wanted, so that all of them recover again."""
        return self._outgoing.wants_renewal

    @property
    def busy(self) -> bool:
        """There is more to do than one turn takes."""
        turn = self._turn
        return bool(self._inbox.events) or turn.step is not None or not turn.has_share

    @property
    def may_speak(self) -> bool:
        """What it sends now belongs to the site's configuration, and everything that happened before that is reported
        before it leaves."""
        return not self._inbox.changes and self._turn.has_share

    @property
    def settled(self) -> bool:
        """All that was decided is on stable storage, but for the green line, and nothing waits to be handled."""
        return self._writes.idle and not self.accepting.pending and not self.busy

    def deadline(self) -> int | None:
        """When it wants a turn though nothing happens."""
        return self._line_due if self._more_at is None else self._more_at

    def close_batches(self, time: int) -> None:
        """Makes batches of what was appended; `time`: this site's clock, ns since 1970."""
        self._time = time
        if self._standing.replacing:
            self._replace_lost()
        made = self.accepting.close(time)
        for heading in made:
            self.sessions.close_batch(heading)
        if made:
            self._turn.spend(sum(heading.size for heading in made))
            self._writes.after(TakenIn(tuple(made)))

    def settle(self) -> None:
        """Carries out what waits for earlier writes only."""
        while then := self._writes.settled():
            for one in then:
                self._carry_out(one)

    def pump(self) -> None:
        """Fills `outgoing` with control messages and what is sent again."""
        self.configuration.pump()

    def next_data(self) -> bytes | None:
        """The next batch of its own to be sent, with an acknowledgement on it; None: there is none."""
        return self.configuration.next_data()

    def unsent(self, payload: bytes) -> None:
        """The site had no room for what `next_data` returned, nor for the acknowledgement on it."""
        self.configuration.unsent(payload)

    def next_ack(self) -> bytes | None:
        """An acknowledgement by itself, where no batch goes out that could carry it; None: none is due."""
        return self.configuration.next_ack()

    def acknowledged(self) -> None:
        """The site took what `next_ack` returned."""
        self.configuration.acknowledged()

    def synced(self, token: int) -> None:
        """The writes up to this token are on stable storage."""
        writes = self._writes
        for write in writes.synced(token):
            self.queue.bodies.synced(write.bodies)
            self.queue.greens.stored(writes.green)
            self.sessions.stored(writes.green)
            self._holds.stored(writes.green)
            for then in write.then:
                self._carry_out(then)
        self.work()

    def _carry_out(self, then: AfterSync) -> None:
        """What waited for a sync."""
        configuration = self.configuration
        match then:
            case Report(events=events):
                for event in events:
                    self._turn.report(event)
            case Acknowledge(configuration=number, count=count):
                if configuration.is_current(number):
                    configuration.synced(count)
            case TakenIn(headings=headings):
                self.accepting.synced()
                for heading in headings:
                    self._turn.report(Accepted(heading))
            case Renumbered(batches=batches):
                for waiting in batches:
                    waiting.durable = True
                    self._turn.report(Accepted(waiting.heading))
            case SendState(configuration=number):
                if configuration.is_current(number):
                    configuration.handler.send_state()
            case Send(configuration=number, kind=kind, content=content):
                if configuration.is_current(number):
                    self._outgoing.send(kind, content)
            case Attempt(configuration=number):
                if configuration.is_current(number):
                    configuration.handler.attempt()
            case Finalize(configuration=number):
                if configuration.is_current(number):
                    configuration.finalize()
            case Renew(configuration=number):
                if configuration.is_current(number):
                    self._outgoing.renew()
            case ConfirmRequest(number=number):
                self._turn.report(RequestStored(number))
            case AnnounceSnapshots():
                self.snapshots.announce()
            case AnnounceDropped(name=name):
                self.snapshots.announce_dropped(name)
            case KeepSaved(name=name):
                self.snapshots.saved(name)
            case FetchPiece(opening=opening):
                self.snapshots.fetch(opening)
            case KeepFetched():
                self.snapshots.fetched()
            case _:
                assert_never(then)

    def flush(self, now: int) -> LogEffects:
        """Ends the turn."""
        writes, queue = self._writes, self.queue
        self.barriers.advance()
        self._clean_up(now)
        token = 0
        ops: list[Op] = []
        events = self._turn.take_events()
        if self._turn.has_events or writes.held:
            pass  # the green line on storage is never ahead of what was reported; half of a step is never written
        elif writes.wanted or (self._line_due is not None and now >= self._line_due):
            if writes.record_changed or writes.record_noted:
                writes.ops.append(Put(RECORD, msgpack.encode(writes.record)))
            if queue.green != writes.green:
                writes.ops.append(Put(LINE, msgpack.encode(Line(queue.green, queue.last_green, queue.green_size))))
                writes.ops += self.sessions.changes()
            token, ops = writes.begin(queue.bodies.take_unwritten(), queue.green)
            self._line_due = None
        elif writes.ops and self._line_due is None:
            self._line_due = now + _LINE_AFTER_NS
        self._more_at = now if self.busy else None
        self._turn.begin(self._inbox.bytes)
        return LogEffects(token, ops, events)

    def _clean_up(self, now: int) -> None:
        """What waits for nothing and takes its time: a piece of it each turn."""
        more = self.snapshots.step()
        # In recovery the base is the one of the state message; and followers are fed from storage.
        if self.configuration.open and not self.configuration.feeding:
            more |= self._truncation.step(self.snapshots.floor, self._time)
            if self.snapshots.could_fetch and self._truncation.held(self._time):
                self.snapshots.hold_up()
        if more:
            self._want_turn(now)

    def _want_turn(self, now: int) -> None:
        """Something is left to do that nothing waits for."""
        soon = now + _MORE_AFTER_NS
        self._line_due = soon if self._line_due is None else min(self._line_due, soon)

    def _replace_lost(self) -> None:
        """A storage is here that takes the place of a lost one: the first of a primary component proposes that."""
        participants = self.configuration.handler.participants
        if self.configuration.primary and self.name == participants[0]:
            replicas = replacement(self._replicas, self._standing, self.accepting.pending)
            if replicas is not None:
                change = make_change(self._replicas, self._voting, replicas, self.configuration.primary, participants)
                self.accepting.append([change], Kind.CHANGE)
