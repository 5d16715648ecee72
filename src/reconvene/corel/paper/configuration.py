"""One configuration's life at a replica: recovery and establishing first, then regular messages, acknowledgements,
and the replicas that follow.

Given: what is delivered in the configuration, in order. Promised: what recovery, establishing and Order Rule 1
promise. Once the transitional configuration has begun, what still comes is only logged, red.
"""

from reconvene.core.effects import Delivered
from reconvene.corel.after_sync import Renew, Report
from reconvene.corel.batch import BatchId, Heading, Timestamp, decode_heading
from reconvene.corel.clients.accepting import Accepting
from reconvene.corel.clients.barriers import Barriers
from reconvene.corel.events import Color, Logged, PrimaryLost
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.keeping.snapshots import Snapshots
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.messages import (
    ACK,
    BARRIER,
    BASE,
    CLAIMS,
    COMMIT,
    DATA,
    ECHO,
    FED,
    FEED,
    FORCE,
    INIT,
    PRIORITY,
    READY,
    RED,
    SNAPSHOT,
    STATE,
    Ack,
    Barrier,
    BaseSent,
    Claims,
    Commit,
    Echo,
    Fed,
    Feed,
    Force,
    Init,
    Priority,
    Ready,
    Reds,
    State,
    decode,
    decode_ack,
    decode_data,
    encode_ack,
    encode_data,
)
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.establishing import Establishing
from reconvene.corel.paper.feeding import Feeding
from reconvene.corel.paper.ordering import Ordering
from reconvene.corel.paper.phases import Phase
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.standing import Standing
from reconvene.corel.replicas.voting import Voting
from reconvene.corel.turn_share import TurnShare
from reconvene.errors import Malformed

__all__ = ["Configuration"]

_NONE = BatchId(-1, 0)


class Configuration:
    def __init__(
        self,
        number: int,
        conf: str,
        members: tuple[str, ...],
        sites: tuple[str, ...],
        *,
        queue: Queue,
        writes: Writes,
        outgoing: Outgoing,
        turn: TurnShare,
        replicas: CurrentReplicas,
        standing: Standing,
        voting: Voting,
        applying: Applying,
        accepting: Accepting,
        barriers: Barriers,
        snapshots: Snapshots,
    ) -> None:
        """`number`: among the configurations of this replica; `conf`: its identifier; `sites`: of the cluster, by
        ordinal."""
        self.handler = Establishing(
            number,
            conf,
            members,
            queue=queue,
            writes=writes,
            outgoing=outgoing,
            turn=turn,
            replicas=replicas,
            standing=standing,
            voting=voting,
            applying=applying,
            opened=self._opened,
        )
        self.malformed = 0
        """Messages that could not be decoded, or that no correct replica sends."""
        self.feeding: dict[str, Feeding] = {}
        """Followers that this replica feeds."""
        self._number = number
        self._name = standing.name
        self._sites = sites
        self._queue = queue
        self._writes = writes
        self._outgoing = outgoing
        self._turn = turn
        self._replicas = replicas
        self._standing = standing
        self._voting = voting
        self._applying = applying
        self._accepting = accepting
        self._barriers = barriers
        self._snapshots = snapshots
        self._ordering: Ordering | None = None
        self._early: dict[str, Ack] = {}
        """By sender, what it acknowledged before the configuration was open here: an acknowledgement may overtake the
        last COMMIT, and is not sent again."""
        self._sent = _NONE
        """The last batch of its own that was sent here."""
        self._announced = 0
        """What it acknowledged last."""

    @property
    def primary(self) -> int:
        """The number of the primary component; 0: it is none."""
        return 0 if self._ordering is None else self._ordering.primary

    @property
    def open(self) -> bool:
        """Regular messages are handled and sent."""
        return self.handler.phase is Phase.OPEN and not self.handler.stopped

    def is_current(self, number: int | None) -> bool:
        """Whether this is the configuration of that number, and has not ended. None: any."""
        return number is None or (number == self._number and not self.handler.stopped)

    def close(self) -> None:
        """The configuration changes: the primary component bit is FALSE, and what comes now is red."""
        ordering = self._ordering
        self.handler.stop()
        self._outgoing.close()
        self._snapshots.close()
        if ordering is not None and ordering.primary:
            lost = PrimaryLost(ordering.primary)
            if ordering.held:
                self._writes.after(Report((lost,)))  # after the report that it was established
            else:
                self._turn.report(lost)
            ordering.lose()
            self._barriers.lose()

    # -- what is delivered

    def _opened(self, primary: int, yellow: int) -> None:
        handler = self.handler
        if self._standing.enter():
            self._accepting.recount()
        self._ordering = Ordering(
            self._number,
            self._name,
            primary,
            handler.participants,
            queue=self._queue,
            writes=self._writes,
            turn=self._turn,
            voting=self._voting,
            applying=self._applying,
            held=yellow if primary and self._voting.dynamic else None,
        )
        for to, feeder in ({} if handler.plan is None else handler.plan.feeders).items():
            if feeder == self._name:
                self.feeding[to] = self._feed(to)
        self._snapshots.open(handler.participants)
        if primary:
            self._barriers.open(handler.participants)
        for sender, ack in self._early.items():
            self._count_ack(self._ordering, sender, ack)

    def _feed(self, to: str) -> Feeding:
        return Feeding(
            to,
            self.handler.reported_green(to),
            queue=self._queue,
            record=self._writes.record,
            outgoing=self._outgoing,
            turn=self._turn,
            applying=self._applying,
        )

    @property
    def held(self) -> bool:
        """A primary component is established here, and not on stable storage yet."""
        return self.open and self._ordering is not None and self._ordering.held

    def finalize(self) -> None:
        """The primary component is established on stable storage: what is yellow becomes green."""
        if self._ordering is not None:
            self._ordering.finalize()

    def advance(self) -> None:
        """Orders what everyone has and is not green yet."""
        if self._ordering is not None:
            self._ordering.advance()

    def synced(self, count: int) -> None:
        """So many of the batches delivered here are on stable storage."""
        if self._ordering is not None:
            self._ordering.synced(count)

    def deliver(self, event: Delivered) -> None:
        sender = self._sites[event.sender]
        for index, payload in zip(event.indices or range(len(event.payloads)), event.payloads, strict=True):
            kind = payload[0] if payload else 0
            try:
                if kind == DATA and event.timestamp is not None:
                    self._deliver_data(sender, payload, (*event.timestamp, index))
                elif kind == ACK:
                    self._deliver_ack(sender, payload)
                elif kind == SNAPSHOT:
                    self._snapshots.receive(sender, payload)
                elif kind in _HANDLED:
                    self._deliver_control(sender, kind, payload)
            except Damaged:
                raise
            except Malformed:
                self.malformed += 1

    def _deliver_data(self, sender: str, payload: bytes, timestamp: Timestamp) -> None:
        data = decode_data(payload)
        heading = decode_heading(data.body)
        ordering = self._ordering
        if self.handler.phase in (Phase.OUTSIDE, Phase.FOLLOW):
            return
        if sender not in self.handler.participants:
            return
        if ordering is not None:
            ordering.acknowledged(sender, data.acknowledged)
            ordering.deliver(heading, data.body, timestamp, data.marked)
        elif self.handler.phase in (Phase.ATTEMPT, Phase.COMMIT):
            # The configuration ended before it was open here: what was sent in it is red.
            self._log_red(heading, data.body, timestamp, data.marked)
        else:
            raise Malformed(f"a batch {heading.id} before recovery")
        self._replicas.report_green(sender, data.green)

    def _log_red(self, heading: Heading, body: bytes, timestamp: Timestamp, marked: bool) -> None:
        if heading.first == self._queue.last.get(heading.author, 0) + 1:
            self._queue.log(heading, body, timestamp, marked, Color.RED)
            self._turn.spend(heading.size, heading.count)
            self._writes.after(Report((Logged(heading, timestamp),)))

    def _deliver_ack(self, sender: str, payload: bytes) -> None:
        ack = decode_ack(payload)
        if self._ordering is None:
            self._early[sender] = ack
        else:
            self._count_ack(self._ordering, sender, ack)

    def _count_ack(self, ordering: Ordering, sender: str, ack: Ack) -> None:
        ordering.acknowledged(sender, ack.acknowledged)
        self._replicas.report_green(sender, ack.green)

    def _deliver_control(self, sender: str, kind: int, payload: bytes) -> None:
        message: _Control = decode(payload, _HANDLED[kind])
        handler = self.handler
        if isinstance(message, Force):
            self._force(message)
            return
        if handler.stopped:
            return
        if isinstance(message, Init):
            self._standing.begin = tuple(message.without)
            self._outgoing.renew()
            return
        match message:
            case State():
                handler.receive_state(sender, message)
            case Fed():
                if sender in self.feeding:
                    self.feeding[sender].answered()
            case _ if handler.phase is Phase.OUTSIDE or sender not in handler.participants:
                return
            case Feed():
                if handler.phase is Phase.FOLLOW:
                    handler.receive_feed(sender, message)
            case BaseSent():
                handler.receive_base(sender, message)
            case _ if handler.phase is Phase.FOLLOW:
                return
            case Priority():
                handler.receive_priority(sender, message)
            case Claims():
                handler.receive_claims(sender, message)
            case Reds():
                handler.receive_reds(sender, message)
            case Ready():
                handler.receive_ready(sender, message)
            case Commit():
                handler.receive_commit(sender, message)
            case Barrier():
                self._barriers.receive(sender, message)
            case Echo():
                self._barriers.receive_echo(sender, message)

    def _force(self, message: Force) -> None:
        record = self._writes.record
        if self.handler.stopped or message.replicas.epoch <= record.replicas.epoch:
            return
        self._standing.force(message.replicas)
        if message.replicas.number_of(self._name) is not None:
            record.admitted = True  # the operator counts on it
        self._writes.after(Renew(None))

    # -- what is sent

    def pump(self) -> None:
        """Fills what goes out with control messages and what is sent again."""
        handler = self.handler
        if self._replicas.changed and self.primary and self._name == handler.participants[0]:
            self._replicas.changed = False
            self._outgoing.renew()
        handler.pump()
        for feeding in self.feeding.values():
            feeding.pump()

    def next_data(self) -> bytes | None:
        """The next batch of its own to be sent, with an acknowledgement on it; None: there is none."""
        ordering = self._ordering
        if ordering is None or self.handler.stopped:
            return None
        author, first = self._sent
        for waiting in self._queue.accepted:
            heading = waiting.heading
            # Ids are compared without making them: all that is under way comes before what is to be sent.
            if heading.author < author or (heading.author == author and heading.first <= first):
                continue
            if not waiting.durable:
                return None
            self._sent = heading.id
            self._announced = ordering.logged
            body = self._queue.bodies.get(heading.id)
            self._turn.spend(len(body))
            return encode_data(waiting.marked, ordering.logged, self._writes.green, body)
        return None

    def unsent(self, payload: bytes) -> None:
        """The site had no room for what `next_data` returned, nor for the acknowledgement on it."""
        self._announced = -1
        heading = decode_heading(decode_data(payload).body)
        self._sent = BatchId(heading.author, heading.first - 1)

    def next_ack(self) -> bytes | None:
        """An acknowledgement by itself, where no batch goes out that could carry it; None: none is due."""
        ordering = self._ordering
        if ordering is None or not ordering.primary or ordering.logged == self._announced:
            return None
        return encode_ack(ordering.logged, self._writes.green)

    def acknowledged(self) -> None:
        """The site took what `next_ack` returned."""
        if self._ordering is not None:
            self._announced = self._ordering.logged


_Control = State | Claims | BaseSent | Priority | Reds | Ready | Commit | Barrier | Echo | Force | Feed | Fed | Init
_HANDLED: dict[int, type[_Control]] = {
    STATE: State,
    CLAIMS: Claims,
    BASE: BaseSent,
    PRIORITY: Priority,
    RED: Reds,
    READY: Ready,
    COMMIT: Commit,
    BARRIER: Barrier,
    ECHO: Echo,
    FORCE: Force,
    FEED: Feed,
    FED: Fed,
    INIT: Init,
}
