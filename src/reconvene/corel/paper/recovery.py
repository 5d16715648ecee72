"""Recovery (5.5.2) for one configuration: its members come to have the same messages in the same order.

Given: the configuration's members, and their messages in the agreed order. Promised: when it is over, every
participant has the same messages in the same order, and the same green and yellow lines. A change of configuration
stops it at any point; nothing that it did needs to be undone.

Every step that others rely on is synced before it is sent: `_send_synced`.
"""

from collections.abc import Iterator

from msgspec import Struct

from reconvene.corel.after_sync import Attempt, Renew, Report, Send, SendState
from reconvene.corel.batch import BatchId, Heading, Timestamp
from reconvene.corel.events import Adopted, Color, LogEvent, Logged, Recolored
from reconvene.corel.keeping.writes import Writes
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
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.catching_up import CatchingUp, heading_of
from reconvene.corel.paper.entries import Adoption
from reconvene.corel.paper.phases import Phase, check_next
from reconvene.corel.paper.plan import Plan, make_plan
from reconvene.corel.paper.queue import Queue
from reconvene.corel.paper.resending import RedExchange, priority_messages
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.standing import Standing
from reconvene.corel.replicas.voting import Voting
from reconvene.corel.turn_share import Step, TurnShare
from reconvene.errors import Malformed

__all__ = ["NEAR", "Recovery"]

NEAR = 10_000
"""A follower takes part again once it is fewer messages behind than this."""


class Recovery:
    def __init__(
        self,
        number: int,
        conf: str,
        members: tuple[str, ...],
        *,
        queue: Queue,
        writes: Writes,
        outgoing: Outgoing,
        turn: TurnShare,
        replicas: CurrentReplicas,
        standing: Standing,
        voting: Voting,
        applying: Applying,
    ) -> None:
        """`number`: of the configuration, among those of this replica; `conf`: its identifier."""
        self.conf = conf
        self.members = members
        self.plan: Plan | None = None
        self.stopped = False
        self._number = number
        self._name = standing.name
        self._queue = queue
        self._writes = writes
        self._record = writes.record
        self._outgoing = outgoing
        self._turn = turn
        self._replicas = replicas
        self._standing = standing
        self._voting = voting
        self._applying = applying
        self._catching_up = CatchingUp(queue, writes, applying)
        self._phase = Phase.STATES
        self._states: dict[str, State] = {}
        self._claims: dict[str, Claims] = {}
        self._zone: list[tuple[Heading, bytes | None, Timestamp, bool]] = []
        """The representative's yellow zone, as it arrives."""
        self._priority: Iterator[Priority | BaseSent] | None = None
        """At the representative: what is still to be sent."""
        self._reds: RedExchange | None = None

    @property
    def phase(self) -> Phase:
        return self._phase

    @phase.setter
    def phase(self, following: Phase) -> None:
        self._phase = check_next(self._phase, following)

    @property
    def participants(self) -> tuple[str, ...]:
        return () if self.plan is None else self.plan.participants

    def reported_green(self, name: str) -> int:
        """The green line in a member's state message."""
        return self._states[name].green

    def stop(self) -> None:
        """The configuration ends."""
        self.stopped = True

    def _send_synced(self, kind: int, content: Struct) -> None:
        """Sends it once all that was decided so far is on stable storage."""
        self._writes.after(Send(self._number, kind, content))

    # -- steps 1 and 2: state messages

    def start(self) -> None:
        self._writes.after(SendState(self._number))

    def send_state(self) -> None:
        queue, record, standing = self._queue, self._record, self._standing
        state = State(
            keeps=standing.keeps,
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
            authored=queue.authored(record.replicas.number_of(self._name)),
            behind=record.behind,
            replaces=record.replaces,
            begin=None if standing.begin is None else list(standing.begin),
            kept=self._writes.kept,
        )
        self._outgoing.send(STATE, state)

    def receive_state(self, sender: str, state: State) -> None:
        if self.phase is not Phase.STATES:
            raise Malformed(f"a state message of {sender} that is late")
        self._states[sender] = state
        if len(self._states) == len(self.members):
            self._decide()

    def _decide(self) -> None:
        name, record = self._name, self._record
        plan = make_plan(self._states)
        self._voting.begin(None if plan is None else plan.told)
        if not self._standing.judge(self._states, plan):
            self.phase = Phase.OUTSIDE
            self._writes.after(Renew(self._number))
            return
        if plan is None or (name not in plan.participants and name not in plan.followers):
            self.phase = Phase.OUTSIDE
            return
        self.plan = plan
        self._reds = RedExchange(plan, name, self._queue, self._turn)
        record.names.update(plan.replicas.by_number())
        for one in (*plan.participants, *plan.followers):
            number = plan.replicas.number_of(one)
            if number is not None:
                self._standing.remember(number, self._states[one])
            self._replicas.green_lines[one] = self._states[one].green
        if name in plan.followers:
            self.phase = Phase.FOLLOW
            return
        self._turn.start(self._exchange(plan))

    def _exchange(self, plan: Plan) -> Step:
        if self._name in plan.representatives:
            yield from self._agree(plan)
        if plan.representative is None:
            self._claim()
            return
        self.phase = Phase.PRIORITY
        if self._name == plan.representative:
            self._priority = priority_messages(plan, self._queue, self._applying, self._turn)

    # -- step 3: common lines

    def _agree(self, plan: Plan) -> Step:
        """Of the representatives: the highest green line of all participants, the lowest yellow line of the
        representatives."""
        queue, writes = self._queue, self._writes
        while queue.green < plan.green and queue.yellow:
            self._applying.advance()
            yield
        writes.held = True
        for entry in queue.retreat(plan.yellow):
            writes.after(Report((Recolored(entry.heading, Color.RED),)))
            self._turn.spend()
            yield
        writes.held = False

    # -- step 5: what the representative has green and yellow

    def receive_base(self, sender: str, message: BaseSent) -> None:
        plan = self._planned()
        if self.phase is Phase.FOLLOW:
            source, primary = plan.feeders[self._name], message.primary
        elif self.phase is Phase.PRIORITY and self._name not in plan.representatives:
            source, primary = plan.representative or "", plan.max_committed
        else:
            return  # it is for another replica
        if sender != source:
            raise Malformed(f"a base of {sender}, which is not its to send")
        self._catching_up.take_base(message, primary)

    def receive_priority(self, sender: str, message: Priority) -> None:
        plan = self._expect(Phase.PRIORITY, sender)
        if sender != plan.representative:
            raise Malformed(f"{sender} is not the representative")
        if self._name not in plan.representatives:
            position = message.position
            for item in message.items:
                self._take_priority(plan, item, position)
                position += item.count
        if message.last:
            self._turn.start(self._end_priority(plan))

    def _end_priority(self, plan: Plan) -> Step:
        if self._name not in plan.representatives:
            yield from self._adopt(plan)
        self._claim()

    def _take_priority(self, plan: Plan, item: Item, position: int) -> None:
        if position + item.count <= self._queue.green:
            return
        if position >= plan.green:
            self._zone.append((heading_of(self._queue, item), item.body, item.timestamp, item.marked))
        else:
            self._catching_up.take_green(item, position, plan.max_committed)

    # -- catching up while the others go on

    def receive_feed(self, sender: str, message: Feed) -> None:
        plan, queue = self._expect(Phase.FOLLOW, sender), self._queue
        if message.to != self._name or sender != plan.feeders[self._name]:
            return
        self._catching_up.hear(message.primary)
        position = message.position
        for item in message.items:
            if position + item.count > queue.green:
                self._catching_up.take_green(item, position, message.primary)
            position += item.count
        self._send_synced(FED, Fed(queue.green))
        if message.green - queue.green < NEAR:
            self._writes.after(Renew(self._number))

    # -- step 6

    def _adopt(self, plan: Plan) -> Step:
        """In one atomic step: the representative's yellow zone, and knowledge of its primary component."""
        adoption = Adoption()
        self._writes.held = True
        for _ in self._queue.adopt(self._zone, adoption):
            self._turn.spend()
            yield
        self._zone = []
        self._record.last_committed_primary = plan.max_committed
        self._voting.learn()
        self._writes.touch()
        self._writes.held = False
        events: tuple[LogEvent, ...] = (
            *(Logged(entry.heading, entry.timestamp) for entry in adoption.logged),
            *(Recolored(entry.heading, Color.RED) for entry in adoption.red),
            Adopted(plan.max_committed),
            *(Recolored(entry.heading, Color.YELLOW) for entry in adoption.yellow),
        )
        self._writes.after(Report(events))

    # -- batches that were sent twice: all keep the lowest timestamp

    def _claim(self) -> None:
        plan, queue = self._planned(), self._queue
        self.phase = Phase.CLAIMS
        if not plan.marked:
            self._begin_reds()
            return
        claims = []
        for batch in sorted(plan.marked):
            entry = queue.entries.get(batch)
            if entry is not None and entry.color is Color.RED:
                claims.append(Stamped(batch, entry.timestamp))
        self._outgoing.send(CLAIMS, Claims(claims))

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
        self._turn.start(self._retime(lowest))

    def _retime(self, lowest: dict[BatchId, Timestamp]) -> Step:
        queue = self._queue
        for batch in sorted(lowest):
            entry = queue.entries.get(batch)
            if entry is not None and entry.color is Color.RED and lowest[batch] < entry.timestamp:
                queue.retime(entry, lowest[batch])
                self._turn.spend()
                yield
        self._begin_reds()

    # -- step 7: red batches that not everyone has

    def _begin_reds(self) -> None:
        assert self._reds is not None, "there is a plan"
        self.phase = Phase.REDS
        self._reds.begin()
        self._check_recovered()

    def receive_reds(self, sender: str, message: Reds) -> None:
        plan, queue = self._planned(), self._queue
        assert self._reds is not None, "there is a plan"
        for item in message.items:
            self._reds.arrived(item.id)
            if item.id.first <= queue.last.get(item.id.author, 0):
                continue
            if item.id.first != queue.last.get(item.id.author, 0) + 1 or plan.senders.get(item.id.author) != sender:
                raise Malformed(f"a red batch {item.id} out of its order")
            heading = heading_of(queue, item)
            entry = queue.log(heading, item.body, item.timestamp, item.marked, Color.RED)
            self._turn.spend(heading.size, heading.count)
            self._writes.after(Report((Logged(heading, entry.timestamp),)))
        if self.phase is Phase.REDS:
            self._check_recovered()

    def _check_recovered(self) -> None:
        plan, last = self._planned(), self._queue.last
        if all(last.get(author, 0) >= counter for author, counter in plan.union.items()):
            self.phase = Phase.ATTEMPT
            self._writes.after(Attempt(self._number))

    # -- sending what is long, as there is room for it

    def pump(self) -> None:
        """Adds to what goes out, a message at a time."""
        if self.stopped or self._outgoing.messages:
            return
        if self._priority is not None:
            message = next(self._priority, None)
            if message is None:
                self._priority = None
            else:
                self._outgoing.send(BASE if isinstance(message, BaseSent) else PRIORITY, message)
                return
        reds = None if self._reds is None else self._reds.next()
        if reds is not None:
            self._outgoing.send(RED, reds)

    def _planned(self) -> Plan:
        if self.plan is None:
            raise Malformed("a message of a recovery that has not begun here")
        return self.plan

    def _expect(self, phase: Phase, sender: str) -> Plan:
        if self.phase is not phase:
            raise Malformed(f"a message of {sender} in phase {self.phase.value}")
        return self._planned()
