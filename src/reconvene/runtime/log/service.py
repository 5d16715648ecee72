"""The log of a site, as clients use it: appends and their receipts, reads, feeds, barriers, administration.

Given: the replica, and each turn's events after everything that they depend on is durable and recorded.
Promised: `interface`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from reconvene.corel.batch import Kind, Origin
from reconvene.corel.batch import Source as ClientSource
from reconvene.corel.clients.session_index import SessionRun
from reconvene.corel.events import (
    Accepted,
    BarrierPassed,
    Color,
    Established,
    Green,
    LogEvent,
    RequestStored,
    Restored,
)
from reconvene.corel.following.messages import Answer, Ask
from reconvene.corel.following.pulling import Pulling
from reconvene.corel.following.source import Source
from reconvene.corel.replica import Replica
from reconvene.entries import EntryBatch
from reconvene.errors import Malformed, OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.ids import UNNAMED
from reconvene.room import UNBOUNDED, Room, Waiter
from reconvene.runtime.log.administration import Administration
from reconvene.runtime.log.barriers import BarrierWaiters
from reconvene.runtime.log.durable import DurableWaiters
from reconvene.runtime.log.feed import Changed, Feed, Moved
from reconvene.runtime.log.finding import Finder
from reconvene.runtime.log.forwarded import ForwardedPlaces
from reconvene.runtime.log.places import Places, Ranges
from reconvene.runtime.log.reading import LogReader
from reconvene.runtime.log.status import follow_status, status
from reconvene.wire.client_log import FETCH_MESSAGES, Append, Appended, Forward, Order, Part

__all__ = ["NO_LOG_COUNTERS", "LogService"]

_BEGIN_S = 5.0
"""How long an append waits for a log that begins by itself."""
_REMEMBERED = 20_000
"""At the start, the positions of so many messages below the green line are indexed."""


NO_LOG_COUNTERS = dict.fromkeys(
    ("log_accepted_messages", "log_ordered_messages", "log_primaries", "log_malformed"), 0
)
"""The counters of a site that keeps no log, as `LogService.counters` would return them."""


class LogService:
    """`wake` asks for a turn. `damaged` is called once, when a stored value turns out to be corrupt."""

    def __init__(
        self,
        replica: Replica,
        incarnation: int,
        author: Callable[[int], str],
        wake: Callable[[], None],
        damaged: Callable[[str], None],
        cluster: str = "",
        pulling: Pulling | None = None,
    ) -> None:
        """`cluster`: the site's. `pulling`: where the site follows a log; None: it keeps a replica."""
        self.name = replica.name
        self._replica = replica
        self._incarnation = incarnation
        self._author = author
        self._wake = wake
        self.trouble: str | None = None
        """Why the site accepts no messages now: its disk, or it is stopping. The engine sets it."""
        self._reader = LogReader(replica, author, damaged)
        self._pulling = pulling
        self._source = self._source_of(replica, cluster, pulling)
        self._own = replica.own
        self.author = self._own_author()
        self.durable = DurableWaiters(replica.queue.next_counter() - 1)
        self._places = Places()
        self._places.restart(self._lasts())
        self._places.look_back(self._last_batches())
        self._finder = Finder(self._reader, self._places)
        self._forwarded = ForwardedPlaces(replica)
        self._feed = Feed(author, replica.green)
        self._barriers = BarrierWaiters(replica)
        self._administration = Administration(replica, self._check_trouble, wake, self.ordered)
        self.room = Room(self._free)
        self._requests: dict[int, asyncio.Future[None]] = {}
        """By number: requests about snapshots that are not on stable storage yet."""
        self._accepted = self._ordered = self._primaries = 0
        self._left_out = replica.left_out is not None
        """What followers were last notified of."""

    def _source_of(self, replica: Replica, cluster: str, pulling: Pulling | None) -> Source:
        if pulling is None:
            return Source(replica, lambda: cluster, lambda: [f"{cluster}/{replica.name}"])
        follower = pulling.follower
        return Source(follower, lambda: follower.origin, pulling.chain, lambda: pulling.head, self.expect)

    def _own_author(self) -> str:
        return self.name if self._own is None else self._author(self._own)

    def _lasts(self) -> dict[str, int]:
        """By author: the counter of its last green message."""
        return {self._author(number): last for number, last in self._replica.queue.last_green.items()}

    def _last_batches(self) -> Iterator[tuple[str, int, int, int]]:
        stored = self._replica.stored_green_ids(max(self.green - _REMEMBERED, self.base))
        batches = list(stored)
        ends = [*(position for position, _ in batches[1:]), self.green]
        for (position, batch), end in zip(batches, ends, strict=False):
            yield self._author(batch.author), batch.first, end - position, position

    def note(self) -> str | None:
        """Why the log accepts no messages here, unless the reason is the disk or the configuration."""
        replica = self._replica
        if self.name not in replica.record.names.values():
            return None
        return replica.waits or replica.left_out

    @property
    def behind(self) -> dict[str, str]:
        """By name, with the reason: replicas of this configuration whose storage is older than what others know of
        it."""
        return self._replica.behind

    @property
    def own_behind(self) -> str:
        """The reason why this site's own replica is behind; empty if it is not."""
        return self._replica.record.behind

    # -- the engine's turns

    def before_turn(self) -> None:
        self._barriers.before_turn()

    def after_turn(self, events: Sequence[LogEvent]) -> None:
        """Handles a turn's events, which are durable and recorded now."""
        replica, places = self._replica, self._places
        accepted = 0
        for event in events:
            if type(event) is Green:
                batch = event.batch
                self._ordered += batch.count
                places.green(self._author(batch.author), batch.first, batch.count, event.position)
                if batch.author == self._own:
                    accepted = max(accepted, batch.last)
            elif type(event) is Accepted:
                accepted = max(accepted, event.batch.last)
                self._accepted += event.batch.count
            elif type(event) is Established:
                self._primaries += 1
            elif type(event) is BarrierPassed:
                self._barriers.passed(event.number)
            elif type(event) is RequestStored:
                future = self._requests.pop(event.number, None)
                if future is not None and not future.done():
                    future.set_result(None)
            elif type(event) is Restored:
                places.restart(self._lasts())
                accepted = max(accepted, replica.queue.last_green.get(-1 if self._own is None else self._own, 0))
        if replica.own != self._own:
            self._renumbered()
        elif accepted:
            self.durable.reached(accepted)
        if events:
            self._forwarded.look()
            self._feed.tell(replica.green, events)
        if (replica.left_out is None) is self._left_out:
            self._left_out = not self._left_out
            self._feed.wake()
        self._administration.after_turn()
        if self.room.waiting:
            self.room.wake()

    def _renumbered(self) -> None:
        """The site is a different replica now, or none. What became of messages with its old counters is unknown."""
        error = OutcomeUnknown(f"site {self.name} is a different replica of the log now")
        if self._own is not None:
            self._places.fail(self._author(self._own), error)
        self._own = self._replica.own
        self.author = self._own_author()
        self.durable.restart(self._replica.queue.next_counter() - 1, error)

    def close(self) -> None:
        """The site has stopped: fails everything that still waits for it."""
        why = f"site {self.name} has stopped"
        unknown = OutcomeUnknown(f"{why} before the outcome was known; it keeps the messages that it accepted")
        self.durable.restart(0, unknown)
        self._places.close(unknown)
        self._forwarded.close(unknown)
        self._barriers.fail(Unavailable(why))
        self.room.wake()

    # -- appending

    def append(self, append: Append) -> Appended:
        if self.trouble is not None or self._reader.damage is not None:
            self._check_trouble()
        green = self._replica.queue.green
        messages, session, number, kind = append.messages, append.session, append.number, Kind(append.kind)
        if session is None:
            if number:
                raise Rejected(f"number {number} without a session: expected both or neither")
            first = self._replica.append(messages, kind)
            parts = [Part(len(messages), self.author, self._incarnation, first, True)]
        else:
            try:
                parts = list(map(self._part, self._replica.append_once(messages, session, number, kind)))
            except Malformed as error:
                raise self._reader.note_damage(error) from None
        self._wake()
        return Appended(append.request, parts, green)

    def forward(self, forward: Forward) -> Appended:
        self._check_trouble()
        green = self._replica.queue.green
        inner = [ClientSource(*source) for source in forward.sources]
        origin = Origin(forward.outpost, forward.incarnation)
        try:
            taken = self._replica.forward(
                forward.messages, forward.session, forward.number, forward.after, origin, inner
            )
        except Malformed as error:
            raise self._reader.note_damage(error) from None
        self._wake()
        return Appended(forward.request, list(map(self._part, taken)), green)

    def confirmed(self, session: bytes, first: int) -> list[tuple[int, int, int]]:
        return self._replica.confirmed(session, first, FETCH_MESSAGES)

    def _part(self, part: SessionRun) -> Part:
        if part.new:
            author = self.author
        else:
            author = "" if part.author is None else self._author(part.author)
        return Part(part.count, author, part.incarnation, part.first, part.new, part.position)

    def _check_trouble(self) -> None:
        """Raises Unavailable if the log accepts no messages now."""
        why = self._reader.damage or self.trouble
        if why is not None:
            raise Unavailable(why)

    def why_no_appends(self) -> str | None:
        try:
            self._check_trouble()
            self._replica.check_accepts()
        except ReconveneError as error:
            return str(error)
        if self._replica.accepting.room() > 0:
            return None
        return f"site {self.name}: as many messages wait to be ordered as may (log.red_messages, log.red_bytes)"

    def why_no_order(self) -> str | None:
        return None if self._replica.is_replica and self._replica.primary else self._replica.why

    def _free(self) -> int:
        """How many messages may be appended without waiting. Messages that would be refused do not wait, unless the
        log is about to begin."""
        replica = self._replica
        if self._reader.damage is None and self.trouble is None:
            if replica.is_replica:
                return replica.accepting.room()
            if self.begins:
                return 0
        return UNBOUNDED

    @property
    def begins(self) -> bool:
        return self._replica.may_begin and self._replica.waits is not None

    def when_room(self, count: int, enter: Callable[[], None]) -> Waiter:
        waiter = self.room.when(count, enter)
        if waiter.waits and self.begins:
            asyncio.get_running_loop().call_later(_BEGIN_S, self._begin_late, waiter)
        return waiter

    def _begin_late(self, waiter: Waiter) -> None:
        if self.begins:
            waiter.enter()

    def ordered(self, counter: int) -> "asyncio.Future[int]":
        found = asyncio.get_running_loop().create_task(self._position(self.author, counter))
        # Marks an exception as retrieved: the client may have given up.
        found.add_done_callback(lambda done: done.cancelled() or done.exception())
        return found

    async def _position(self, author: str, counter: int) -> int:
        found = await self._places.ordered(author, counter, 1)
        if found is None:
            raise Unavailable(f"message {counter} is ordered, but its position is no longer in memory: read the log")
        return found[0][0]

    def find(self, order: Order) -> "asyncio.Future[Ranges | None]":
        author, first, count = order.author, order.first, order.count
        if order.outpost is not None:
            places = self._forwarded.find(order.outpost, first, count)
            finding = self._finder.forwarded(places, order.retried)
        else:
            if not order.retried:
                ordered = self._places.ordered(author, first, count)
                if not ordered.done() or ordered.result() is not None:
                    return ordered
            finding = self._finder.find(author, first, count, order.since, order.retried)
        found: asyncio.Future[Ranges | None] = asyncio.get_running_loop().create_task(finding)
        return found

    def committed(self, session: bytes) -> tuple[int, int] | None:
        return self._replica.committed(session)

    def cursor(self, session: bytes) -> tuple[int, bytes] | None:
        self.check_readable()
        return self._replica.cursor(session)

    def cursors(self, after: bytes, most: int) -> list[tuple[bytes, int, bytes]]:
        self.check_readable()
        return [row for row in self._replica.cursors() if row[0] > after][:most]

    # -- reading

    @property
    def damage(self) -> str | None:
        """What could not be read back. While it is set, the site accepts no messages, until it is restarted."""
        return self._reader.damage

    @damage.setter
    def damage(self, damage: str) -> None:
        self._reader.damage = damage

    @property
    def base(self) -> int:
        return self._reader.base

    @property
    def green(self) -> int:
        return self._reader.green

    def check_readable(self) -> None:
        self._reader.check_readable()

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        return self._reader.read(start, messages, size)

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        return self._reader.headings(start, batches)

    def pending(self, messages: int, newest: bool = False) -> list[tuple[Color, EntryBatch]]:
        return self._reader.pending(messages, newest)

    def watch(self, moved: Moved) -> Callable[[], None]:
        self.check_readable()
        return self._feed.watch(moved)

    def watch_colors(self, changed: Changed) -> Callable[[], None]:
        self.check_readable()
        return self._feed.watch_colors(changed)

    def expect(self, position: int) -> None:
        if self._pulling is not None:
            self._pulling.expect(position)
            self._wake()

    def barrier(self) -> "asyncio.Future[None]":
        self._check_trouble()
        self._replica.check_accepts()
        passed = self._barriers.wait()
        self._wake()
        return passed

    def answer_follower(self, ask: Ask, late: bool = False) -> Answer | None:
        self.check_readable()
        try:
            return self._source.answer(ask, late=late)
        except Malformed as error:
            raise self._reader.note_damage(error) from None

    def status(self) -> dict[str, object]:
        found = status(self._replica, self.damage or self.trouble or "ok")
        if self._pulling is not None:
            found["follow"] = follow_status(self._pulling)
        return found

    def counters(self) -> dict[str, int]:
        return {
            "log_accepted_messages": self._accepted,
            "log_ordered_messages": self._ordered,
            "log_primaries": self._primaries,
            "log_malformed": self._replica.malformed,
        }

    # -- snapshots of applications' state machines

    def snapshot(self, name: str = UNNAMED) -> tuple[int, int] | None:
        return self._reader.snapshot(name)

    def read_snapshot(self, offset: int, size: int, name: str = UNNAMED) -> bytes:
        return self._reader.read_snapshot(offset, size, name)

    def save_snapshot(self, position: int, data: bytes, name: str = UNNAMED) -> "asyncio.Future[None]":
        return self._when_stored(partial(self._replica.save_snapshot, position, data, name))

    def use_snapshot(self, name: str, start: int) -> "asyncio.Future[None]":
        return self._when_stored(partial(self._replica.snapshots.use, name, start))

    def drop_snapshot(self, name: str) -> "asyncio.Future[None]":
        return self._when_stored(partial(self._replica.snapshots.drop, name))

    def _when_stored(self, request: Callable[[], int]) -> "asyncio.Future[None]":
        self._check_trouble()
        number = request()
        future = self._requests[number] = asyncio.get_running_loop().create_future()
        self._wake()
        return future

    # -- administration

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> "asyncio.Future[int]":
        return self._administration.change_replicas(add, remove, quorum)

    def init(self, without: Sequence[str] = ()) -> None:
        self._administration.init(without)

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        return self._administration.losses(lost)

    def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        return self._administration.whatif(lost)

    def force_lost(self, lost: Sequence[str]) -> None:
        self._administration.force_lost(lost)
