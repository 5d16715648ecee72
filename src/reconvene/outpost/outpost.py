"""One outpost of the log, sans-IO: what it accepts is durable, and is forwarded until it is read back green.

Given: what programs append, reports of syncs, a link to one site at a time, the time. Promised: a message is reported
as accepted once it is on stable storage here; every accepted message becomes green once, in the order in which they
were accepted, however often this outpost and the sites crash.

A turn is any number of inputs; then `flush`, whose result the shell performs in the order of its fields.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from reconvene.corel.events import Color
from reconvene.errors import Malformed
from reconvene.outpost.forwarding import Answer, Forwarding, Step
from reconvene.outpost.layout import load_record
from reconvene.outpost.limits import OutpostLimits
from reconvene.outpost.queue import Batch, Queue, Taken
from reconvene.storage.tables import Op, Reader
from reconvene.wire.client_log import Confirm, Forward

__all__ = ["Outpost", "OutpostTurn", "Pending"]


class OutpostTurn(Struct):
    accepted: list[tuple[int, int, int]] = field(default_factory=list)
    """(first, count, incarnation) of messages that are on stable storage: record them, then answer the programs."""
    places: list[tuple[int, int, int]] = field(default_factory=list)
    """(first, count, position) of messages that are green; a position of -1 is not known."""
    token: int = 0
    """Of `ops`; 0: nothing is to be written."""
    ops: list[Op] = field(default_factory=list)
    """To be written and synced as one; then the token is reported to `synced`. Nothing else here waits for that."""
    disconnect: bool = False
    """Close the link that there is, before `connect`. `lost` is not reported for it."""
    connect: int | None = None
    """Make a link to this site: report `connected` or `lost`."""
    requests: list[Forward | Confirm] = field(default_factory=list)
    """Send over the link, in this order. They are about durable messages only."""


class Pending(Struct, frozen=True):
    """Messages that are not known to be green."""

    color: Color
    """Red: they are here only. Yellow: a site of a primary component has them too, on stable storage."""
    first: int
    incarnation: int
    time: int
    messages: list[bytes]


class Outpost:
    def __init__(self, name: str, sites: int, tables: Reader, limits: OutpostLimits | None = None) -> None:
        """`sites`: how many there are to forward to. The outpost has to be booted (`layout.boot`). Raises Malformed
        where storage is damaged."""
        self.name = name
        self.limits = limits or OutpostLimits()
        record = load_record(tables)
        if record is None:
            raise Malformed("the outpost's record is missing")
        self.incarnation = record.incarnation
        self.queue = Queue(name, tables, record, self.limits)
        self.forwarding = Forwarding(name, sites, self.queue, self.limits)
        self._accepted: list[tuple[int, int, int]] = []
        self._places: list[tuple[int, int, int]] = []
        self._token = 0
        self._writing = 0
        """The token of the write that is under way; 0: none is."""

    # -- inputs

    def append(self, messages: Sequence[bytes], session: bytes | None = None, number: int = 0) -> list[Taken]:
        """Takes messages: all of them, or it raises Rejected or Unavailable. They are accepted once they are in a
        turn's `accepted`."""
        return self.queue.append(messages, session, number)

    def synced(self, token: int) -> None:
        if token == self._writing:
            self._writing = 0
            batches = self.queue.synced()
            self.forwarding.durable(batches)
            self._report(batches)

    def _report(self, batches: Sequence[Batch]) -> None:
        self._accepted += [(batch.first, batch.count, batch.incarnation) for batch in batches]

    def connected(self, now: int) -> None:
        self.forwarding.connected(now)

    def lost(self, reason: str, now: int) -> None:
        self.forwarding.lost(reason, now)

    def answered(self, answer: Answer, now: int) -> None:
        self._places += self.forwarding.answered(answer, now)

    # -- turns

    def flush(self, now: int, time: int) -> OutpostTurn:
        """`time`: ns since 1970."""
        turn = OutpostTurn(self._accepted, self._places)
        self._accepted, self._places = [], []
        if not self._writing:
            # One write at a time: what arrives during a sync shares the next one.
            ops = [*self.queue.trim(), *self.queue.close(time)]
            if ops:
                self._token += 1
                self._writing = turn.token = self._token
                turn.ops = ops
        self.forwarding.speak(now, turn)
        return turn

    def deadline(self) -> int:
        """When it wants its next turn, at the latest."""
        return self.forwarding.deadline()

    # -- what others ask

    @property
    def linked(self) -> bool:
        """There is a link to a site."""
        return self.forwarding.step is Step.OPEN

    def pending(self, messages: int) -> list[Pending]:
        """About so many messages that are on stable storage and not known to be green, in their order."""
        found: list[Pending] = []
        for batch in self.queue.batches:
            if messages <= 0 or batch.last > self.queue.durable:
                break
            stored = self.queue.read(batch)
            at = max(self.queue.green + 1, batch.first)
            while at <= batch.last and messages > 0:
                known = at <= self.forwarding.forwarded
                end = min(self.forwarding.forwarded, batch.last) if known else batch.last
                some = stored.messages[at - batch.first : end + 1 - batch.first]
                color = Color.YELLOW if known else Color.RED
                found.append(Pending(color, at, batch.incarnation, batch.time, some))
                messages -= len(some)
                at = end + 1
        return found

    def invariants(self) -> None:
        queue, forwarding = self.queue, self.forwarding
        assert queue.green <= queue.durable < queue.next
        assert forwarding.forwarded <= queue.durable
        last = None
        for batch in queue.batches:
            assert last is None or batch.first == last + 1, "counters have no gaps"
            last = batch.last
