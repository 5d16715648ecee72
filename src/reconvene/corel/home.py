"""What the parts of one replica share: its queue, its durable variables, and the ways out."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, msgpack

from reconvene.corel.batch import Heading, Kind, Timestamp, messages_of
from reconvene.corel.durable import Durable
from reconvene.corel.events import Green, LogEvent
from reconvene.corel.layout import BASE, Base, Record, decode_place, green_key, position_of
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import BaseSent, encode
from reconvene.corel.queue import Queue
from reconvene.corel.replicas import ReplicaSet, applies, decode_change
from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.storage.tables import Put, Reader

__all__ = ["Home"]


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
        self.events: list[LogEvent] = []
        self.outgoing: deque[tuple[Service, bytes]] = deque()
        """For the site to send in this configuration."""
        self.greens: dict[str, int] = {}
        """By site: the highest green line that it told."""
        self.keeps = True
        """It keeps the log at all."""
        self.strangers: tuple[str, ...] = ()
        """Sites of this configuration that came under a replica's name with another storage."""
        self.set_changed = False
        """The set of replicas has changed since the last round began."""
        self.on_green: Callable[[Heading, int], None] = lambda heading, position: None
        """Told of each green batch, in order, before anyone else."""

    def tell(self, event: LogEvent) -> None:
        self.events.append(event)

    def send(self, kind: int, content: Struct) -> None:
        self.outgoing.append((Service.AGREED, encode(kind, content)))

    def touch(self) -> None:
        """The durable variables have changed."""
        self.durable.record_changed = True

    def green(self, heading: Heading, position: int) -> None:
        """A batch is green: what follows from it at every replica alike."""
        if heading.kind is Kind.CHANGE:
            change = self._change(heading)
            if change is not None:
                self.record.replicas = change
                self.record.forced = False
                self.queue.own = change.number_of(self.name)
                self.set_changed = True
                self.touch()
        self.on_green(heading, position)
        self.tell(Green(heading, position))

    def _change(self, heading: Heading) -> ReplicaSet | None:
        """The set that the batch makes of the present one; None where it was made for another."""
        try:
            change = decode_change(messages_of(self.queue.bodies.get(heading.id))[0])
        except Malformed:
            return None  # the same bytes, and the same answer, at every replica
        return change.result if applies(change, self.record.replicas) else None

    def enter(self, replicas: ReplicaSet) -> None:
        """It takes part as one of these: a new replica learns its number."""
        number = replicas.number_of(self.name)
        if number is not None and number != self.queue.own:
            self.queue.renumber(number)

    def placed(self, start: int, end: int) -> Iterator[tuple[Heading, Timestamp, bool]]:
        """Batches that are green or yellow here, from one position to before another: heading, timestamp, marked."""
        queue = self.queue
        recent = queue.recent
        for key, value in self.tables.scan(green_key(start), green_key(min(end, recent.start))):
            place = decode_place(value)
            start = position_of(key) + place.count
            yield queue.bodies.heading(place.id), place.timestamp, place.marked
        for heading, place in recent.places(start):
            if start >= end:
                return
            start += place.count
            yield heading, place.timestamp, place.marked
        for entry in queue.yellow:
            if start >= end:
                return
            start += entry.heading.count
            yield entry.heading, entry.timestamp, entry.marked

    def base_messages(self, round_: int) -> Iterator[BaseSent]:
        """What was truncated here."""
        yield BaseSent(round_, msgpack.encode(self.queue.base), [], last=True)

    def restore(self, base: Base, message: BaseSent) -> None:
        """Takes another replica's base for its own."""
        self.queue.restore(base)
        self.record.replicas = base.replicas
        self.durable.ops.append(Put(BASE, msgpack.encode(base)))
        self.enter(base.replicas)
        self.touch()

    def pending_sets(self) -> list[ReplicaSet]:
        """The set at the green line, and those that pending changes would make of it."""
        sets = [self.record.replicas]
        for entry in self.queue.pending():
            if entry.heading.kind is Kind.CHANGE:
                try:
                    change = decode_change(messages_of(self.queue.bodies.get(entry.heading.id))[0])
                except Malformed:
                    continue
                if applies(change, sets[-1]):
                    sets.append(change.result)
        return sets

    def may_order(self, participants: Sequence[str]) -> bool:
        """They are a quorum of the present set, and of each that pending changes would make."""
        return all(replicas.quorum_holds(participants) for replicas in self.pending_sets())
