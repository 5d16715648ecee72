"""What the parts of one replica share: its queue, its durable variables, and the ways out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, msgpack

from reconvene.corel.batch import Heading, Kind, messages_of
from reconvene.corel.clients.holds import Holds
from reconvene.corel.clients.sessions import Row
from reconvene.corel.clients.taking import Taking
from reconvene.corel.events import Accepted, Green, LogEvent, messages_in
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.keeping.durable import Durable
from reconvene.corel.keeping.layout import BASE, Base, Place, Record, decode_place, green_key, position_of
from reconvene.corel.keeping.load import names_of
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import BaseSent, State, encode
from reconvene.corel.pace import Pace, Step
from reconvene.corel.paper.plan import left_out
from reconvene.corel.paper.queue import Queue, Waiting
from reconvene.corel.replicas.lineage import seen_of
from reconvene.corel.replicas.sets import ReplicaSet, applies, decode_change
from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.storage.tables import Put, Reader

__all__ = ["Home"]

_BASE_ROWS = 128
"""Client sessions in one message."""


class Home:
    def __init__(
        self,
        name: str,
        sites: Sequence[str],
        tables: Reader,
        record: Record,
        queue: Queue,
        durable: Durable,
        limits: LogLimits,
    ) -> None:
        self.name = name
        self.tables = tables
        self.sites = tuple(sites)
        """By ordinal."""
        self.record = record
        self.queue = queue
        self.durable = durable
        self.limits = limits
        self.durable_green = queue.green
        """The green line as stable storage has it."""
        self.pace = Pace(limits.turn_bytes)
        self.step: Step | None = None
        """What goes on before anything else is handled."""
        self.events: deque[LogEvent] = deque()
        """Not reported yet, in order …"""
        self.untold = 0
        """… and how many messages they concern."""
        self.outgoing: deque[tuple[Service, bytes]] = deque()
        """For the site to send in this configuration."""
        self.greens: dict[str, int] = {}
        """By site: the highest green line that it told."""
        self.keeps = True
        """It keeps the log at all."""
        self.behind: dict[str, str] = {}
        """By name: replicas of this configuration whose storage is older than what others know of it, and why."""
        self.replacing: dict[str, bytes] = {}
        """By name: storages of this configuration that take the place of lost ones, and wait for a number."""
        self.begin: tuple[str, ...] | None = None
        """An operator has said that a new log may begin here, without these replicas if they are absent."""
        self.strangers: tuple[str, ...] = ()
        """Sites of this configuration that came under a replica's name with another storage."""
        self.wants_renewal = False
        """Everyone should go through recovery again: a configuration with the same members is wanted."""
        self.removed = False
        """A later set of replicas is known here, without this site."""
        self.set_changed = False
        """The set of replicas has changed since the configuration began."""
        self.on_green: Callable[[Heading, int], None] = lambda heading, position: None
        """Told of each green batch, in order, before anyone else."""
        self.on_restored: Callable[[], None] = lambda: None
        """Told that another replica's base was taken."""
        self.taking = Taking(tables, queue.bodies, limits.sessions)
        self.holds = Holds(tables)

    def tell(self, event: LogEvent) -> None:
        self.events.append(event)
        self.untold += messages_in(event)

    @property
    def has_share(self) -> bool:
        """This turn may do more, and report more."""
        return not self.pace.spent and self.untold <= self.limits.turn_messages

    def start(self, step: Step) -> None:
        """Work that may take several turns: until it is done, nothing that is delivered is handled."""
        assert self.step is None, "one at a time"
        self.step = step

    def send(self, kind: int, content: Struct) -> None:
        self.outgoing.append((Service.AGREED, encode(kind, content)))

    def renew(self) -> None:
        self.wants_renewal = True

    def touch(self) -> None:
        """The durable variables have changed."""
        self.durable.record_changed = True

    def green(self, heading: Heading, position: int) -> None:
        """A batch is green here, and may be told so at once."""
        self.apply(heading, position)
        self.tell(Green(heading, position))

    def apply(self, heading: Heading, position: int) -> None:
        """What follows from a green batch at every replica alike. It is written with its place."""
        if heading.kind is Kind.CHANGE:
            change = self._change(heading)
            if change is not None:
                self.set_replicas(change)
                self.record.forced = False
                self.set_changed = True
                for name, identity in self.replacing.items():
                    number = change.number_of(name)
                    if number is not None:
                        self.record.identities.setdefault(number, identity)
        before = self.queue.green_size
        self.queue.green_size += heading.size
        needed = heading.sourced or heading.kind is Kind.COMMIT
        self.pace.spend(heading.size if needed else 0, heading.count)
        if needed:
            body = self.queue.bodies.get(heading.id)
            if heading.sourced:
                self.durable.ops += self.taking.take(heading, body, position)
            if heading.kind is Kind.COMMIT and not self.taking.voids(position, heading):
                self.durable.ops += self.holds.take(heading, body, position, before)
        self.on_green(heading, position)

    def set_replicas(self, replicas: ReplicaSet) -> None:
        """Who is left out, or comes under another number, accepts nothing until it has entered as one of them."""
        for name in list(self.greens):
            if replicas.number_of(name) != self.record.replicas.number_of(name):
                del self.greens[name]  # it is another replica, or none
        self.record.replicas = replicas
        self.record.names.update(names_of(replicas))
        if replicas.number_of(self.name) != self.queue.own:
            self.queue.own = None
        self.touch()

    def _change(self, heading: Heading) -> ReplicaSet | None:
        """The set that the batch makes of the present one; None where it was made for another."""
        body = self.queue.bodies.get(heading.id)
        try:
            change = decode_change(messages_of(body)[0])
        except Malformed:
            return None  # the same bytes, and the same answer, at every replica
        return change.result if applies(change, self.record.replicas) else None

    def force(self, replicas: ReplicaSet) -> None:
        """Takes a set of a later epoch. Who is left out takes no part any more, whomever it meets."""
        record = self.record
        history = self.queue.green > 0 or record.last_committed_primary > 0
        if left_out(self.name, replicas, record.replicas) and history:
            record.outcast = True
            self.keeps = False
        self.set_replicas(replicas)
        record.forced = True

    def see(self, number: int, state: State) -> None:
        """Remembers what another replica told of its starts. What it attempted since goes with the next write."""
        seen = seen_of(state)
        known = self.record.seen.get(number)
        if seen is None or seen == known or state.identity == self.record.identity:
            return
        self.record.seen[number] = seen
        if known is None or (known.identity, known.incarnation) != (seen.identity, seen.incarnation):
            self.touch()

    def refuse(self, why: str) -> None:
        """This storage is older than what others know of it: it takes no part any more, whomever it meets."""
        if not self.record.behind:
            self.record.behind = why
            self.keeps = False
            self.touch()

    def disown(self, known: Iterable[Mapping[int, bytes]]) -> bool:
        """`known`: by replica number, the storage that others have seen under it. Where that is not this one, the
        replica lost its disk, and alone took itself for what it had been: nothing that it did as such counts, but
        what it accepted waits for a number of its own. Tells whether it had logged any of that."""
        record, queue, mine = self.record, self.queue, self.record.identity
        seen = list(known)
        own = {number for number, identity in record.identities.items() if identity == mine}
        own |= {waiting.heading.author for waiting in queue.accepted}
        false = [number for number in sorted(own) if any(others.get(number, mine) != mine for others in seen)]
        logged = any(entry.heading.author in false for entry in queue.pending())
        for number in false:
            record.identities.pop(number, None)
            queue.disown(number)
            self.touch()
        return logged

    def enter(self) -> bool:
        """Recovery is over: a new replica learns its number. Tells whether it is another one.

        What it accepted under an earlier number keeps that author, and is sent: others may have some of it. But where
        its storage is not the one that had that number, it only thought so; then it gets this one."""
        queue = self.queue
        number = self.record.replicas.number_of(self.name)
        if number is None or number == queue.own:
            return False
        authors = {waiting.heading.author for waiting in queue.accepted}
        if any(self.record.identities.get(author) != self.record.identity for author in authors):
            queue.renumber(number)
            moved = list(queue.accepted)
            self.durable.after(lambda: self._renumbered(moved))
        self.taking.pending.restart(self.waiting(), queue.bodies)
        queue.own = number
        return True

    def _renumbered(self, moved: list[Waiting]) -> None:
        for waiting in moved:
            waiting.durable = True
            self.tell(Accepted(waiting.heading))

    def waiting(self) -> Iterator[Heading]:
        """All that is here and not green."""
        for entry in self.queue.pending():
            yield entry.heading
        for waiting in self.queue.accepted:
            yield waiting.heading

    def placed(self, start: int, end: int) -> Iterator[Place]:
        """Batches that are green or yellow here, from one position to before another.

        Who asks may take its time: what was recent when it began may be on stable storage alone when it comes there.
        """
        queue = self.queue
        recent = queue.recent
        while start < min(end, queue.green):
            before = start
            for key, value in self.tables.scan(green_key(start), green_key(min(end, recent.start))):
                place = decode_place(value)
                start = position_of(key) + place.count
                yield place
            while start < end and (found := recent.at(start)) is not None:
                start += found.count
                yield found
            if start == before:
                raise Damaged(f"the log's storage lacks what is green at {start}")
        for entry in queue.yellow:
            if start >= end:
                return
            start += entry.heading.count
            yield entry.placed()

    def base_messages(self) -> Iterator[BaseSent]:
        """What was truncated here."""
        base, rows = msgpack.encode(self.queue.base), list(self.taking.folded.rows())
        for start in range(0, len(rows) - _BASE_ROWS, _BASE_ROWS):
            yield BaseSent(base, rows[start : start + _BASE_ROWS], last=False)
        done = max(0, -(-len(rows) // _BASE_ROWS) - 1) * _BASE_ROWS
        yield BaseSent(base, rows[done:], last=True)

    def restore(self, base: Base, sessions: Sequence[Row]) -> None:
        """Takes another replica's base for its own. Raises Malformed, and changes nothing then."""
        ops = [*self.taking.restore(sessions), *self.holds.restore()]
        self.queue.restore(base)
        self.durable.ops += (*ops, Put(BASE, msgpack.encode(base)))
        self.taking.pending.restart(self.waiting(), self.queue.bodies)
        self.record.names.update(base.names)
        if base.replicas.epoch >= self.record.replicas.epoch:
            self.set_replicas(base.replicas)
        self.touch()
        self.on_restored()

    def pending_sets(self) -> list[ReplicaSet]:
        """The set at the green line, and those that pending changes would make of it."""
        sets = [self.record.replicas]
        for entry in self.queue.pending():
            if entry.heading.kind is Kind.CHANGE:
                body = self.queue.bodies.get(entry.heading.id)
                try:
                    change = decode_change(messages_of(body)[0])
                except Malformed:
                    continue
                if applies(change, sets[-1]):
                    sets.append(change.result)
        return sets

    def may_order(self, participants: Sequence[str]) -> bool:
        """They are a quorum of the present set, and of each that pending changes would make."""
        return all(replicas.quorum_holds(participants) for replicas in self.pending_sets())
