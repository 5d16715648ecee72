"""One configuration's life at a replica: the handler first, then regular messages, acknowledgements, and those who
follow.

Given: what is delivered in the configuration, in order. Promised: what the handler and Order Rule 1 promise; once the
transitional configuration has begun, nothing but logging what still comes, red.
"""

from collections.abc import Callable

from reconvene.core.effects import Delivered
from reconvene.corel.batch import BatchId, Heading, Timestamp, decode_heading
from reconvene.corel.clients.barriers import Barriers
from reconvene.corel.events import Color, Logged, PrimaryLost
from reconvene.corel.home import Home
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.keeping.snapshots import Snapshots
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
from reconvene.corel.paper.establishing import Handler, Phase
from reconvene.corel.paper.feeding import Feeding
from reconvene.corel.paper.ordering import Ordering
from reconvene.errors import Malformed

__all__ = ["View"]

_NONE = BatchId(-1, 0)


class View:
    def __init__(
        self,
        home: Home,
        barriers: Barriers,
        snapshots: Snapshots,
        renumbered: Callable[[], None],
        conf: str,
        members: tuple[str, ...],
    ) -> None:
        """`renumbered` is told when a new replica has learnt its number, before it sends anything."""
        self.home = home
        self.barriers = barriers
        self.snapshots = snapshots
        self.malformed = 0
        """Messages that made no sense."""
        self.handler = Handler(home, conf, members, self._opened)
        self.feeding: dict[str, Feeding] = {}
        """Followers that this replica feeds."""
        self._renumbered = renumbered
        self._ordering: Ordering | None = None
        self._sent = _NONE
        """The last batch of its own that was sent here."""
        self._told = 0
        """What it acknowledged last."""

    @property
    def primary(self) -> int:
        """The number of the primary component; 0: it is none."""
        return 0 if self._ordering is None else self._ordering.primary

    @property
    def open(self) -> bool:
        """Regular messages are handled and sent."""
        return self.handler.phase is Phase.OPEN and not self.handler.stopped

    def close(self) -> None:
        """The view changes: the primary component bit is FALSE, and what comes now is red."""
        home, ordering = self.home, self._ordering
        self.handler.stop()
        home.outgoing.clear()
        self.snapshots.close()
        if ordering is not None and ordering.primary:
            home.tell(PrimaryLost(ordering.primary))
            ordering.lose()
            self.barriers.lose()

    # -- what is delivered

    def _opened(self, primary: int) -> None:
        if self.home.enter():
            self._renumbered()
        self._ordering = Ordering(self.home, primary, self.handler.participants)
        plan = self.handler.plan
        if plan is not None:
            self.feeding = {
                to: Feeding(self.home, to, self.handler.told_green(to))
                for to, feeder in plan.feeders.items()
                if feeder == self.home.name
            }
        self.snapshots.open(self.handler.participants)
        if primary:
            self.barriers.open(self.handler.participants)

    def advance(self) -> None:
        """Goes on with what everyone has and is not green yet."""
        if self._ordering is not None:
            self._ordering.advance()

    def deliver(self, event: Delivered) -> None:
        sender = self.home.sites[event.sender]
        for index, payload in enumerate(event.payloads):
            kind = payload[0] if payload else 0
            try:
                if kind == DATA and event.timestamp is not None:
                    self._deliver_data(sender, payload, (*event.timestamp, index))
                elif kind == ACK:
                    self._deliver_ack(sender, payload)
                elif kind == SNAPSHOT:
                    self.snapshots.receive(sender, payload)
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
        self.home.greens[sender] = max(self.home.greens.get(sender, 0), data.green)

    def _log_red(self, heading: Heading, body: bytes, timestamp: Timestamp, marked: bool) -> None:
        if heading.first == self.home.queue.last.get(heading.author, 0) + 1:
            self.home.queue.log(heading, body, timestamp, marked, Color.RED)
            self.home.pace.spend(heading.size, heading.count)
            self.home.durable.after(lambda: self.home.tell(Logged(heading, timestamp)))

    def _deliver_ack(self, sender: str, payload: bytes) -> None:
        ack = decode_ack(payload)
        if self._ordering is not None:
            self._ordering.acknowledged(sender, ack.acknowledged)
            self.home.greens[sender] = max(self.home.greens.get(sender, 0), ack.green)

    def _deliver_control(self, sender: str, kind: int, payload: bytes) -> None:
        message: _Control = decode(payload, _HANDLED[kind])
        handler = self.handler
        if isinstance(message, Force):
            self._force(message)
            return
        if handler.stopped:
            return
        if isinstance(message, Init):
            self.home.begin = tuple(message.without)
            self.home.renew()
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
                self.barriers.receive(sender, message)
            case Echo():
                self.barriers.receive_echo(sender, message)

    def _force(self, message: Force) -> None:
        if self.handler.stopped or message.replicas.epoch <= self.home.record.replicas.epoch:
            return
        self.home.force(message.replicas)
        if message.replicas.number_of(self.home.name) is not None:
            self.home.record.admitted = True  # the operator counts on it
        self.home.durable.after(self.home.renew)

    # -- what is sent

    def pump(self) -> None:
        """Fills what goes out with control messages and what is sent again."""
        home, handler = self.home, self.handler
        if home.set_changed and self.primary and home.name == handler.participants[0]:
            home.set_changed = False
            home.renew()
        handler.pump()
        for feeding in self.feeding.values():
            feeding.pump()

    def next_data(self) -> bytes | None:
        """The next batch of its own to be sent, with an acknowledgement on it; None: there is none."""
        ordering = self._ordering
        if ordering is None or self.handler.stopped:
            return None
        for waiting in self.home.queue.accepted:
            if waiting.heading.id > self._sent:
                if not waiting.durable:
                    return None
                self._sent = waiting.heading.id
                self._told = ordering.logged
                body = self.home.queue.bodies.get(waiting.heading.id)
                self.home.pace.spend(len(body))
                return encode_data(waiting.marked, ordering.logged, self.home.durable_green, body)
        return None

    def unsent(self, payload: bytes) -> None:
        """The site had no room for what `next_data` gave, and for the acknowledgement on it."""
        self._told = -1
        heading = decode_heading(decode_data(payload).body)
        self._sent = BatchId(heading.author, heading.first - 1)

    def next_ack(self) -> bytes | None:
        """An acknowledgement of its own, where no batch goes out that it could ride on."""
        ordering = self._ordering
        if ordering is None or not ordering.primary or ordering.logged == self._told:
            return None
        return encode_ack(ordering.logged, self.home.durable_green)

    def acknowledged(self) -> None:
        """The site took what `next_ack` gave."""
        if self._ordering is not None:
            self._told = self._ordering.logged


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
