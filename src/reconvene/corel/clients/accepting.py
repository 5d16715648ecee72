"""From what applications append to batches.

Promised: messages get their counters at once, in their order; batches are closed when no earlier ones wait for their
sync, so that what arrives during a sync shares the next one; what is not green yet is bounded.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from reconvene.corel.batch import BatchId, Heading, Kind, Origin, Source, encode_batch
from reconvene.corel.clients.refusals import check_room
from reconvene.corel.limits import LogLimits
from reconvene.corel.paper.entries import Waiting
from reconvene.corel.paper.queue import Queue
from reconvene.errors import Rejected

__all__ = ["Accepting", "shifted"]

_ITEM_BYTES = 5
"""Around each message of a batch, at most; a batch that should fit a frame has to count them."""
_SOURCE_BYTES = 24
"""Around a session's name."""


def shifted(sources: Sequence[Source], start: int, count: int, to: int) -> list[Source]:
    """What of these sources is about `count` messages from `start` on, where these begin at `to`."""
    found: list[Source] = []
    for source in sources:
        first, end = max(source.start, start), min(source.start + source.count, start + count)
        if first < end:
            number = source.number + first - source.start
            found.append(Source(source.session, number, first - start + to, end - first))
    return found


def _fitting(messages: Sequence[bytes], room: int, most: int) -> int:
    """How many of them, from the first on, fit into so many bytes of a batch; at most so many."""
    ends = list(accumulate(map(len, messages[:most])))
    return bisect_right(range(len(ends)), room, key=lambda at: ends[at] + _ITEM_BYTES * (at + 1))


class _Run(Struct):
    """Messages that were appended together."""

    kind: Kind
    messages: Sequence[bytes]
    size: int
    session: bytes | None
    number: int
    origin: Origin | None = None
    """An outpost's messages are in batches of their own …"""
    inner: Sequence[Source] = ()
    """… and have the sessions of its clients too. Their `start` counts from the run's first message."""


class Accepting:
    def __init__(self, queue: Queue, incarnation: int, limits: LogLimits) -> None:
        self._queue = queue
        self.incarnation = incarnation
        self._limits = limits
        self._most = (limits.red_messages, limits.red_bytes)
        self._runs: deque[_Run] = deque()
        self._sizes: dict[BatchId, tuple[int, int]] = {}
        """(messages, bytes) of the replica's own batches that are not green."""
        self.pending = 0
        """Messages that are in no batch yet …"""
        self._pending_bytes = 0
        self.open_messages = 0
        """… and those that are not green yet, these included."""
        self.open_bytes = 0
        self._syncing: list[Waiting] = []
        """What `close` made last, until it is on stable storage."""
        self.recount()

    def recount(self) -> None:
        """Counts anew what is not green: the replica has another number, or a base that covers some of it."""
        queue = self._queue
        self._sizes.clear()
        self.open_messages, self.open_bytes = self.pending, self._pending_bytes
        for waiting in queue.accepted:
            self._count(waiting.heading)
        for entry in queue.pending():
            if entry.heading.author == queue.own:
                self._count(entry.heading)

    def _count(self, heading: Heading) -> None:
        self._sizes[heading.id] = (heading.count, heading.size)
        self.open_messages += heading.count
        self.open_bytes += heading.size

    def room(self) -> int:
        """How many messages `append` would take now, by their number."""
        return (
            max(0, self._limits.red_messages - self.open_messages) if self.open_bytes < self._limits.red_bytes else 0
        )

    def append(
        self,
        messages: Sequence[bytes],
        kind: Kind = Kind.DATA,
        session: bytes | None = None,
        number: int = 0,
        origin: Origin | None = None,
        inner: Sequence[Source] = (),
    ) -> int:
        """Takes all of them, or raises. Returns the counter of the first."""
        if not messages:
            raise Rejected("nothing to append")
        size = check_room(messages, self._limits.message_bytes, (self.open_messages, self.open_bytes), self._most)
        first = self._queue.next_counter() + self.pending
        self._runs.append(_Run(kind, messages, size, session, number, origin, inner))
        self.pending += len(messages)
        self._pending_bytes += size
        self.open_messages += len(messages)
        self.open_bytes += size
        return first

    def waiting(self, counter: int, count: int) -> list[bytes]:
        """Messages that are in no batch yet, from this counter on."""
        at = counter - self._queue.next_counter()
        found: list[bytes] = []
        for run in self._runs:
            if at < len(run.messages):
                found += run.messages[at : at + count - len(found)]
                at = 0
                if len(found) == count:
                    break
            else:
                at -= len(run.messages)
        return found

    def check(self, messages: Sequence[bytes]) -> int:
        """Returns how many bytes they have. Raises where `append` would not take them."""
        return check_room(messages, self._limits.message_bytes, (self.open_messages, self.open_bytes), self._most)

    def close(self, time: int) -> list[Heading]:
        """Makes batches of what was appended, unless earlier ones are being synced. Returns them."""
        if not self._runs or self._syncing:
            return []
        if self._queue.own is None:
            self._drop()
            return []
        made: list[Heading] = []
        taken = 0
        while self._runs and taken < self._limits.close_bytes:
            kind, messages, sources, size = self._next()
            taken += size
            made.append(self._accept(kind, messages, sources, size, time))
        return made

    def _drop(self) -> None:
        """It is no replica any more: what is in no batch, and so was never reported as accepted, is not taken."""
        self._runs.clear()
        self.open_messages -= self.pending
        self.open_bytes -= self._pending_bytes
        self.pending = self._pending_bytes = 0

    def _next(self) -> tuple[Kind, list[bytes], list[Source], int]:
        """The next batch's messages, its sources, and how many bytes the messages have."""
        most, most_messages = self._limits.batch_bytes, self._limits.batch_messages
        kind, forwarded = self._runs[0].kind, self._runs[0].origin is not None
        messages: list[bytes] = []
        sources: list[Source] = []
        size = used = 0
        while self._runs and self._runs[0].kind is kind and (self._runs[0].origin is not None) is forwarded:
            run = self._runs[0]
            around = 0 if run.session is None else _SOURCE_BYTES + len(run.session)
            if run.origin is not None:
                around += len(run.origin.outpost) + sum(_SOURCE_BYTES + len(each.session) for each in run.inner)
            whole = around + run.size + _ITEM_BYTES * len(run.messages)
            if used + whole <= most and len(messages) + len(run.messages) <= most_messages:
                at = len(run.messages)
                messages += run.messages
                size, used = size + run.size, used + whole
            else:
                at = _fitting(run.messages, most - used - around, most_messages - len(messages))
                if not messages:
                    at = max(at, 1)  # one that is larger than a batch is alone
                messages += run.messages[:at]
                taken = sum(map(len, run.messages[:at]))
                size, run.size = size + taken, run.size - taken
                used += around + taken + _ITEM_BYTES * at
            if at and run.session is not None:
                sources.append(Source(run.session, run.number, len(messages) - at, at, run.origin))
                sources += shifted(run.inner, 0, at, len(messages) - at)
            if at < len(run.messages):
                run.messages = run.messages[at:]
                run.number += at
                run.inner = shifted(run.inner, at, len(run.messages), 0)
                break
            self._runs.popleft()
            if kind in (Kind.CHANGE, Kind.COMMIT):
                break  # a batch of its own
        return kind, messages, sources, size

    def _accept(self, kind: Kind, messages: list[bytes], sources: list[Source], size: int, time: int) -> Heading:
        queue = self._queue
        assert queue.own is not None, "only a replica accepts"
        plain = Heading(kind, queue.own, self.incarnation, queue.next_counter(), len(messages), time, bool(sources))
        body = encode_batch(plain, messages, sources)
        heading = replace(plain, size=len(body))
        self._syncing.append(queue.accept(heading, body))
        self.pending -= len(messages)
        self._pending_bytes -= size
        self._sizes[heading.id] = (len(messages), len(body))
        self.open_bytes += len(body) - size
        return heading

    def synced(self) -> None:
        """What `close` made last is on stable storage."""
        # These and no others: what got another number meanwhile is another batch, of a later write.
        for waiting in self._syncing:
            waiting.durable = True
        self._syncing = []

    def ordered(self, batch: BatchId) -> None:
        """A batch is green, the replica's own or another's."""
        count, size = self._sizes.pop(batch, (0, 0))
        self.open_messages -= count
        self.open_bytes -= size
