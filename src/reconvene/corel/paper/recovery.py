"""Recovery (5.5.2) for one configuration: its members come to have the same messages in the same order.

Given: the configuration's members, and their messages in the agreed order. Promised: when it is over, every
participant has the same messages in the same order, and the same green and yellow lines. A change of configuration
stops it at any point; nothing that it did needs to be undone.

Every step that others rely on is synced before it is told: `durable.after` stands before each `send`.
"""

from collections.abc import Callable, Iterator
from enum import Enum

from reconvene.corel.batch import BatchId, Heading, Timestamp, decode_heading
from reconvene.corel.events import (
    Adopted,
    Color,
    Green,
    Logged,
    Recolored,
    Restored,
)
from reconvene.corel.home import Home
from reconvene.corel.keeping.layout import decode_base
from reconvene.corel.keeping.load import names_of
from reconvene.corel.messages import (
    BASE,
    CLAIMS,
    FED,
    PRIORITY,
    RED,
    STATE,
    BaseSent,
    Claims,
    Fed,
    Feed,
    Item,
    Priority,
    Reds,
    Stamped,
    State,
)
from reconvene.corel.pace import Step
from reconvene.corel.paper.plan import Plan, make_plan
from reconvene.corel.paper.queue import Adoption, Entry
from reconvene.corel.replicas.lineage import behind
from reconvene.errors import Malformed

__all__ = ["NEAR", "Phase", "Recovery"]

NEAR = 10_000
"""Messages behind, from which on a follower takes part again."""
_MESSAGE_BYTES = 32 << 10
"""Of batches that are sent again in one message, as far as they are small."""


class Phase(Enum):
    OUTSIDE = "outside"
    """It takes no part: it keeps no log, is no replica, or another storage is known under its name."""
    FOLLOW = "follow"
    """It is too far behind to take part, and catches up beside the others."""
    STATES = "states"
    PRIORITY = "priority"
    CLAIMS = "claims"
    REDS = "reds"
    ATTEMPT = "attempt"
    COMMIT = "commit"
    OPEN = "open"
    """Regular messages are handled and sent."""


class Recovery:
    def __init__(self, home: Home, conf: str, members: tuple[str, ...], recovered: Callable[[], None]) -> None:
        """`recovered` is called once all of it is on stable storage here."""
        self.home = home
        self.conf = conf
        self.members = members
        self.phase = Phase.STATES
        self.plan: Plan | None = None
        self._recovered = recovered
        self.stopped = False
        self._states: dict[str, State] = {}
        self._claims: dict[str, Claims] = {}
        self._zone: list[tuple[Heading, bytes | None, Timestamp, bool]] = []
        """The representative's yellow zone, as it arrives."""
        self._priority: Iterator[Priority | BaseSent] | None = None
        """At the representative: what is still to be sent."""
        self._sessions: list[tuple[bytes, bytes]] = []
        """Of another replica's base, as they arrive."""
        self._walk: list[Entry] = []
        """Red batches of this replica that not everyone has, in order …"""
        self._walked = 0
        """… and how far it has come along them."""
        self._arrived: set[BatchId] = set()
        """Red batches that someone sent again."""

    @property
    def participants(self) -> tuple[str, ...]:
        return () if self.plan is None else self.plan.participants

    def told_green(self, name: str) -> int:
        """The green line of which a member's state message told."""
        return self._states[name].green

    def stop(self) -> None:
        """The configuration ends."""
        self.stopped = True

    def _after_sync(self, then: Callable[[], None]) -> None:
        """Unless the configuration has ended by then."""
        self.home.durable.after(lambda: None if self.stopped else then())

    # -- steps 1 and 2: state messages

    def start(self) -> None:
        self._after_sync(self._send_state)

    def _send_state(self) -> None:
        queue, record = self.home.queue, self.home.record
        state = State(
            keeps=self.home.keeps,
            identity=record.identity,
            replicas=record.replicas,
            last_committed_primary=record.last_committed_primary,
            last_attempted_primary=record.last_attempted_primary,
            green=queue.green,
            yellow=queue.yellow_line,
            base=queue.base.position,
            has=queue.last,
            marked=[Stamped(entry.heading.id, entry.timestamp) for entry in queue.marked()],
            identities=record.identities,
            heard_primary=record.heard_primary,
            admitted=record.admitted,
            boots=record.boots,
            seen=record.seen,
            authored=queue.authored(record.replicas.number_of(self.home.name)),
            behind=record.behind,
            replaces=record.replaces,
            begin=None if self.home.begin is None else list(self.home.begin),
        )
        self.home.send(STATE, state)

    def receive_state(self, sender: str, state: State) -> None:
        if self.phase is not Phase.STATES:
            raise Malformed(f"a state message of {sender} that is late")
        self._states[sender] = state
        if len(self._states) == len(self.members):
            self._decide()

    def _decide(self) -> None:
        home = self.home
        home.behind = behind(self._states)
        if home.name in home.behind:
            home.refuse(home.behind[home.name])
        plan = make_plan(self._states)
        home.strangers = () if plan is None else plan.strangers
        home.replacing = {name: self._states[name].identity for name in home.strangers if self._states[name].replaces}
        home.removed = plan is not None and plan.replicas.number_of(home.name) is None
        if plan is not None and plan.replicas.epoch > home.record.replicas.epoch:
            # A set that was forced is not in the log. Changes that were made before it do not apply after it.
            home.force(plan.replicas)
        if home.disown(state.identities for state in self._states.values()):
            # What its state message told was not true.
            self.phase = Phase.OUTSIDE
            self._after_sync(home.renew)
            return
        if plan is None or home.name not in (*plan.participants, *plan.followers):
            self.phase = Phase.OUTSIDE
            return
        self.plan = plan
        home.record.names.update(names_of(plan.replicas))
        for name in (*plan.participants, *plan.followers):
            number = plan.replicas.number_of(name)
            identity = self._states[name].identity
            if number is not None and home.record.identities.get(number) != identity:
                home.record.identities[number] = identity
                home.touch()
            if number is not None:
                home.see(number, self._states[name])
            home.greens[name] = self._states[name].green
        if home.name in plan.followers:
            self.phase = Phase.FOLLOW
            return
        home.start(self._exchange(plan))

    def _exchange(self, plan: Plan) -> Step:
        home = self.home
        if home.name in plan.representatives:
            yield from self._agree(plan)
        if plan.representative is None:
            self._claim()
            return
        self.phase = Phase.PRIORITY
        if home.name == plan.representative:
            self._priority = self._priority_messages(plan)

    # -- step 3: common lines

    def _agree(self, plan: Plan) -> Step:
        """Of the representatives: the highest green line of anyone, the lowest yellow line among themselves."""
        home, queue = self.home, self.home.queue
        while queue.green < plan.green and queue.yellow:
            home.green(*queue.advance())
            yield
        home.durable.held = True
        for entry in queue.retreat(plan.yellow):
            event = Recolored(entry.heading, Color.RED)
            home.durable.after(lambda event=event: home.tell(event))  # type: ignore[misc]
            home.pace.spend()
            yield
        home.durable.held = False

    # -- step 5: what the representative has green and yellow

    def _priority_messages(self, plan: Plan) -> Iterator[Priority | BaseSent]:
        start = plan.start
        if plan.sends_base:
            start = max(start, self.home.queue.base.position)
            yield from self.home.base_messages()
        position, items, size = start, list[Item](), 0
        for place in self.home.placed(start, plan.yellow):
            stable = place.id.first + place.count - 1 <= plan.stable.get(place.id.author, 0)
            body = None if stable else self.home.queue.bodies.get(place.id)
            items.append(Item(place.id, place.count, place.timestamp, place.marked, body))
            size += 64 + (len(body) if body else 0)
            self.home.pace.spend(len(body) if body else 0)
            if size >= _MESSAGE_BYTES:
                yield Priority(position, items, last=False)
                position, items, size = position + sum(item.count for item in items), [], 0
        yield Priority(position, items, last=True)

    def receive_base(self, sender: str, message: BaseSent) -> None:
        home, plan = self.home, self._planned()
        if self.phase is Phase.FOLLOW:
            source = plan.feeders[home.name]
        elif self.phase is Phase.PRIORITY and home.name not in plan.representatives:
            source = plan.representative or ""
        else:
            return  # it is for someone else
        if sender != source:
            raise Malformed(f"a base of {sender}, which is not its to send")
        self._sessions += message.sessions
        if not message.last:
            return
        sessions, self._sessions = self._sessions, []
        base = decode_base(message.base)
        queue = home.queue
        if base.position < queue.green or (base.position == queue.green and queue.green > 0):
            return
        further = base.position > queue.green
        self._hear(message.primary if self.phase is Phase.FOLLOW else plan.max_committed)
        home.restore(base, sessions)
        if further:
            self.home.durable.after(lambda: home.tell(Restored(base.position)))

    def receive_priority(self, sender: str, message: Priority) -> None:
        plan = self._expect(Phase.PRIORITY, sender)
        if sender != plan.representative:
            raise Malformed(f"{sender} is not the representative")
        if self.home.name not in plan.representatives:
            position = message.position
            for item in message.items:
                self._take_priority(plan, item, position)
                position += item.count
        if message.last:
            self.home.start(self._end_priority(plan))

    def _end_priority(self, plan: Plan) -> Step:
        if self.home.name not in plan.representatives:
            yield from self._adopt(plan)
        self._claim()

    def _take_priority(self, plan: Plan, item: Item, position: int) -> None:
        home = self.home
        queue = home.queue
        if position + item.count <= queue.green:
            return
        heading = self._heading(item)
        if position >= plan.green:
            self._zone.append((heading, item.body, item.timestamp, item.marked))
        else:
            self._hear(plan.max_committed)
            self._append_green(heading, item, position)

    def _hear(self, primary: int) -> None:
        """What is green for one who knows of this primary component becomes green here, and until step 6 this replica
        does not know of it. It says so for as long: its green line says nothing about its yellow zone then, nor about
        that of others who know no more than it does."""
        record = self.home.record
        if primary > record.heard_primary:
            record.heard_primary = primary
            self.home.touch()

    def _append_green(self, heading: Heading, item: Item, position: int) -> None:
        home = self.home
        queue = home.queue
        if position != queue.green:
            raise Malformed(f"a green batch at {position}, where {queue.green} was expected")
        new = heading.id not in queue.entries
        queue.append_green(heading, item.body, item.timestamp, item.marked)
        home.apply(heading, position)

        def told() -> None:
            if new:
                home.tell(Logged(heading, item.timestamp))
            home.tell(Green(heading, position))

        home.durable.after(told)

    def _heading(self, item: Item) -> Heading:
        entry = self.home.queue.entries.get(item.id)
        if entry is not None:
            return entry.heading
        if item.body is None:
            raise Malformed(f"batch {item.id} without its body, which is not here")
        heading = decode_heading(item.body)
        if heading.id != item.id or heading.count != item.count:
            raise Malformed(f"batch {heading.id} that claims to be {item.id}")
        return heading

    # -- catching up beside the others

    def receive_feed(self, sender: str, message: Feed) -> None:
        plan, home = self._expect(Phase.FOLLOW, sender), self.home
        if message.to != home.name or sender != plan.feeders[home.name]:
            return
        self._hear(message.primary)
        position = message.position
        for item in message.items:
            if position + item.count > home.queue.green:
                self._append_green(self._heading(item), item, position)
            position += item.count
        green = home.queue.green
        self._after_sync(lambda: home.send(FED, Fed(green)))
        if message.green - green < NEAR:
            self._after_sync(home.renew)

    # -- step 6

    def _adopt(self, plan: Plan) -> Step:
        """In one atomic step: the representative's yellow zone, and knowledge of its primary component."""
        home = self.home
        adoption = Adoption()
        home.durable.held = True
        for _ in home.queue.adopt(self._zone, adoption):
            home.pace.spend()
            yield
        self._zone = []
        home.record.last_committed_primary = plan.max_committed
        home.touch()
        home.durable.held = False

        def told() -> None:
            for entry in adoption.logged:
                home.tell(Logged(entry.heading, entry.timestamp))
            for entry in adoption.red:
                home.tell(Recolored(entry.heading, Color.RED))
            home.tell(Adopted(plan.max_committed))
            for entry in adoption.yellow:
                home.tell(Recolored(entry.heading, Color.YELLOW))

        home.durable.after(told)

    # -- batches that were sent twice: all keep the lowest timestamp

    def _claim(self) -> None:
        plan, queue = self._planned(), self.home.queue
        self.phase = Phase.CLAIMS
        if not plan.marked:
            self._begin_reds()
            return
        claims = []
        for batch in sorted(plan.marked):
            entry = queue.entries.get(batch)
            if entry is not None and entry.color is Color.RED:
                claims.append(Stamped(batch, entry.timestamp))
        self.home.send(CLAIMS, Claims(claims))

    def receive_claims(self, sender: str, message: Claims) -> None:
        plan = self._planned()
        self._claims[sender] = message
        if self.phase is Phase.CLAIMS and all(name in self._claims for name in plan.participants):
            self._settle_claims(plan)

    def _settle_claims(self, plan: Plan) -> None:
        lowest: dict[BatchId, Timestamp] = {}
        for name in plan.participants:
            for stamped in self._claims[name].claims:
                lowest[stamped.id] = min(stamped.timestamp, lowest.get(stamped.id, stamped.timestamp))
        self.home.start(self._retime(lowest))

    def _retime(self, lowest: dict[BatchId, Timestamp]) -> Step:
        queue = self.home.queue
        for batch in sorted(lowest):
            entry = queue.entries.get(batch)
            if entry is not None and entry.color is Color.RED and lowest[batch] < entry.timestamp:
                queue.retime(entry, lowest[batch])
                self.home.pace.spend()
                yield
        self._begin_reds()

    # -- step 7: red batches that not everyone has

    def _begin_reds(self) -> None:
        plan = self._planned()
        self.phase = Phase.REDS
        self._walk = [
            entry for entry in self.home.queue.red if entry.heading.last > plan.stable.get(entry.heading.author, 0)
        ]
        self._check_recovered()

    def _reds(self) -> Reds | None:
        """What this replica may send now, by the retransmission rule (figure 3.7): what others have to send first,
        and is before it in this queue, has to arrive first."""
        plan = self._planned()
        items: list[Item] = []
        size = 0
        while self._walked < len(self._walk) and size < _MESSAGE_BYTES:
            entry = self._walk[self._walked]
            heading = entry.heading
            if plan.senders[heading.author] == self.home.name:
                body = self.home.queue.bodies.get(heading.id)
                items.append(Item(heading.id, heading.count, entry.timestamp, entry.marked, body))
                size += 64 + len(body)
                self.home.pace.spend(len(body))
            elif heading.id not in self._arrived:
                break
            self._walked += 1
        return Reds(items) if items else None

    def receive_reds(self, sender: str, message: Reds) -> None:
        plan, home = self._planned(), self.home
        queue = home.queue
        for item in message.items:
            self._arrived.add(item.id)
            if item.id.first <= queue.last.get(item.id.author, 0):
                continue
            if item.id.first != queue.last.get(item.id.author, 0) + 1 or plan.senders.get(item.id.author) != sender:
                raise Malformed(f"a red batch {item.id} out of its order")
            heading = self._heading(item)
            entry = queue.log(heading, item.body, item.timestamp, item.marked, Color.RED)
            home.pace.spend(heading.size, heading.count)
            event = Logged(heading, entry.timestamp)
            home.durable.after(lambda event=event: home.tell(event))  # type: ignore[misc]
        if self.phase is Phase.REDS:
            self._check_recovered()

    def _check_recovered(self) -> None:
        plan, last = self._planned(), self.home.queue.last
        if all(last.get(author, 0) >= counter for author, counter in plan.union.items()):
            self.phase = Phase.ATTEMPT
            self._after_sync(self._recovered)

    # -- sending what is long, as there is room for it

    def pump(self) -> None:
        """Adds to what goes out, a message at a time."""
        if self.stopped or self.home.outgoing:
            return
        if self._priority is not None:
            message = next(self._priority, None)
            if message is None:
                self._priority = None
            else:
                self.home.send(BASE if isinstance(message, BaseSent) else PRIORITY, message)
                return
        if self._walked < len(self._walk):
            reds = self._reds()
            if reds is not None:
                self.home.send(RED, reds)

    def _planned(self) -> Plan:
        if self.plan is None:
            raise Malformed("a message of a recovery that has not begun here")
        return self.plan

    def _expect(self, phase: Phase, sender: str) -> Plan:
        if self.phase is not phase:
            raise Malformed(f"a message of {sender} in phase {self.phase.value}")
        return self._planned()
