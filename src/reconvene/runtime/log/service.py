"""The log as its site offers it: appends and their receipts, reads, feeds, barriers, administration.

Given: the replica, and each turn's events once what they depend on is durable and recorded. Promised: `log_port`.
Costs are paid by the batch and by the request: no message is looked at before someone reads it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from reconvene.corel.batch import Heading, Kind, messages_of
from reconvene.corel.clients.session_index import Part
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
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.entries import EntryBatch
from reconvene.errors import Malformed, OutcomeUnknown, Rejected, Unavailable
from reconvene.ids import UNNAMED
from reconvene.runtime.log.feed import Changed, Feed, Moved
from reconvene.runtime.log.headings import read_headings
from reconvene.runtime.log.interface import Appended, AppendedPart
from reconvene.runtime.log.receipts import Receipts
from reconvene.runtime.log.status import losses, status

__all__ = ["NO_LOG_COUNTERS", "LogService"]

_BARRIERS = 100_000
"""That may wait at once."""
_BEGIN_S = 5.0
"""How long an append waits for a log that begins by itself."""
_CHANGE_S = 5.0
"""How long a change of the replicas waits for a primary component: each change makes a new configuration."""
_LOOK_EVERY_S = 0.01
_LOOK_AT = 1_024
_BATCHES_AT_ONCE = 256
"""Looked through before others have their turn."""
_REMEMBERED = 20_000
"""Messages before the green line among which own batches are looked for at the start, for who asks again."""


NO_LOG_COUNTERS = dict.fromkeys(
    ("log_accepted_messages", "log_ordered_messages", "log_primaries", "log_malformed"), 0
)
"""What `LogService.counters` returns where a site takes no part in the log."""


class LogService:
    """`wake` asks for a turn. `trouble` says why nothing can be taken now, if so: the disk, or the site's end.
    `damaged` is told when a value that is read back turns out to be corrupt, once."""

    def __init__(
        self,
        replica: Replica,
        incarnation: int,
        author: Callable[[int], str],
        wake: Callable[[], None],
        trouble: Callable[[], str | None],
        damaged: Callable[[str], None],
    ) -> None:
        self.name = replica.name
        self.damage: str | None = None
        """What could not be read back; until the site is restarted, it takes nothing."""
        self._replica = replica
        self._incarnation = incarnation
        self._author = author
        self._wake = wake
        self._trouble = trouble
        self._damaged = damaged
        self._own = replica.own
        self._receipts = self._begin()
        self._feed = Feed(author, replica.green)
        self._asking: list[asyncio.Future[None]] = []
        """Barriers that the next turn asks for, all as one."""
        self._asked: dict[int, list[asyncio.Future[None]]] = {}
        self._requests: dict[int, asyncio.Future[None]] = {}
        """By number: about snapshots, not on stable storage yet."""
        self._barriers = 0
        """How many both hold."""
        self._look_at = _LOOK_AT
        """From so many on, those that nobody waits for any more are looked for."""
        self._roomless: list[asyncio.Future[None]] = []
        self._accepted = self._ordered = self._primaries = 0
        self._left_out = replica.left_out is not None
        """As followers know it."""

    def _begin(self) -> Receipts:
        queue = self._replica.queue
        own = -1 if queue.own is None else queue.own
        return Receipts(queue.next_counter() - 1, queue.last_green.get(own, 0), self._known(own))

    def _known(self, own: int) -> Iterator[tuple[int, int]]:
        for position, batch in self._replica.stored_green_ids(max(self.green - _REMEMBERED, self.base)):
            if batch.author == own:
                yield batch.first, position

    def note(self) -> str | None:
        """Why the log takes nothing here, where that is neither the disk's fault nor what was configured."""
        replica = self._replica
        if self.name not in replica.record.names.values():
            return None
        return replica.waits or replica.left_out

    @property
    def behind(self) -> dict[str, str]:
        """By name: replicas of this configuration whose storage is older than what others know of it, and why."""
        return self._replica.behind

    @property
    def own_behind(self) -> str:
        """The same of this site's own replica; empty where it is not."""
        return self._replica.record.behind

    # -- the engine's turns

    def before_turn(self) -> None:
        if self._asking:
            number = self._replica.barriers.ask()
            self._asked[number], self._asking = self._asking, []

    def after_turn(self, events: Sequence[LogEvent]) -> None:
        """What happened is durable, and recorded."""
        queue = self._replica.queue
        if queue.own != self._own:
            # What became green before that is known, such as the very change that removed it.
            for event in events:
                if type(event) is Green and event.batch.author == self._own:
                    self._receipts.green(event.batch, event.position)
            self._renumbered()
        receipts = self._receipts
        accepted = 0
        for event in events:
            if type(event) is Green:
                self._ordered += event.batch.count
                if event.batch.author == self._own:
                    receipts.green(event.batch, event.position)
            elif type(event) is Accepted:
                accepted = event.batch.last
                self._accepted += event.batch.count
            elif type(event) is Established:
                self._primaries += 1
            elif type(event) is BarrierPassed:
                self._passed(event.number)
            elif type(event) is RequestStored:
                future = self._requests.pop(event.number, None)
                if future is not None and not future.done():
                    future.set_result(None)
            elif type(event) is Restored and self._own is not None:
                receipts.covered(queue.last_green.get(self._own, 0))
        if accepted:
            receipts.accepted(accepted)
        if events:
            self._feed.tell(queue.green, events)
        if (self._replica.left_out is None) is self._left_out:
            self._left_out = not self._left_out
            self._feed.wake()
        if self._roomless and self.room() > 0:
            self.let_in()

    def _renumbered(self) -> None:
        """The site is another replica by now, or none: nobody can say what its counters mean."""
        self._receipts.fail(OutcomeUnknown(f"site {self.name} is not the replica any more that it was"))
        self._own = self._replica.own
        self._receipts = self._begin()

    def _passed(self, number: int) -> None:
        passed = self._asked.pop(number, [])
        self._barriers -= len(passed)
        for future in passed:
            if not future.done():
                future.set_result(None)

    def let_in(self) -> None:
        waiting, self._roomless = self._roomless, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """The site has stopped: what it has not told by now it never will."""
        why = f"site {self.name} has stopped"
        self._receipts.fail(OutcomeUnknown(f"{why} before that was known; what it accepted it keeps"))
        for future in [*self._asking, *(future for asked in self._asked.values() for future in asked)]:
            if not future.done():
                future.set_exception(Unavailable(why))
                future.exception()
        self._asking.clear()
        self._asked.clear()
        self._barriers = 0
        self.let_in()

    # -- appending

    def append(
        self, messages: Sequence[bytes], session: bytes | None = None, number: int = 0, kind: Kind = Kind.DATA
    ) -> Appended:
        self._refuse_in_trouble()
        if session is None:
            if number:
                raise Rejected(f"number {number} without a session: a number belongs to one")
            first = self._replica.append(messages, kind)
            parts = [AppendedPart(len(messages), self.name, first, True, incarnation=self._incarnation)]
        else:
            try:
                parts = list(map(self._part, self._replica.append_once(messages, session, number, kind)))
            except Malformed as error:
                raise self._note_damage(error) from None
        self._wake()
        return Appended(tuple(parts))

    def _part(self, part: Part) -> AppendedPart:
        author = "" if part.author is None else self._author(part.author)
        return AppendedPart(part.count, author, part.first, part.new, part.position, part.incarnation)

    def committed(self, session: bytes) -> tuple[int, int] | None:
        return self._replica.committed(session)

    def _refuse_in_trouble(self) -> None:
        why = self.damage or self._trouble()
        if why is not None:
            raise Unavailable(why)

    def room(self) -> int:
        replica = self._replica
        if not replica.is_replica or self.damage is not None or self._trouble() is not None:
            return 0
        return replica.accepting.room()

    async def wait_for_room(self) -> None:
        await self._wait_for_begin()
        while True:
            self._refuse_in_trouble()
            self._replica.check_accepts()
            if self._replica.accepting.room() > 0:
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._roomless.append(future)
            await future

    async def _wait_for_begin(self) -> None:
        """Where the log begins by itself (log.begin), it does so a moment after its sites have met."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _BEGIN_S
        while self._replica.waits and self._replica.may_begin and loop.time() < give_up_at:
            self._refuse_in_trouble()
            await asyncio.sleep(_LOOK_EVERY_S)

    def durable(self, counter: int) -> "asyncio.Future[None]":
        return self._receipts.when_durable(counter)

    def ordered(self, counter: int) -> "asyncio.Future[int]":
        return self._receipts.when_ordered(counter)

    # -- reading

    @property
    def base(self) -> int:
        return self._replica.base

    @property
    def green(self) -> int:
        return self._replica.green

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        self._expect_readable(start)
        found: list[EntryBatch] = []
        if start == self.green:
            return found
        try:
            for position, heading in self._replica.read(start):
                body = self._replica.body(heading)
                found.append(self._batch(position, heading, messages_of(body), max(start - position, 0)))
                messages -= heading.count
                size -= len(body)
                if messages <= 0 or size <= 0:
                    break
        except Malformed as error:
            raise self._note_damage(error) from None
        return found

    def _expect_readable(self, start: int) -> None:
        self.check_readable()
        if start < self.base:
            raise Rejected(f"position {start} is truncated: the log begins at {self.base}")
        if start > self.green:
            raise Rejected(f"position {start} is beyond the green line, which is at {self.green}")

    def _batch(self, position: int, heading: Heading, messages: list[bytes], cut: int) -> EntryBatch:
        void = self._replica.voids(position, heading)
        return EntryBatch(
            position + cut,
            self._author(heading.author),
            heading.incarnation,
            heading.first + cut,
            heading.time,
            heading.kind,
            messages[cut:] if cut else messages,
            tuple(at - cut for at in void if at >= cut) if cut else void,
        )

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        self._expect_readable(start)
        try:
            return read_headings(self._replica, self._author, start, batches) if start < self.green else []
        except Malformed as error:
            raise self._note_damage(error) from None

    def counted(self, start: int, count: int) -> list[int | None]:
        found: list[int | None] = []
        try:
            for position, heading in self._replica.read(start):
                found += self._replica.positions(position, heading)[max(start - position, 0) :]
                if len(found) >= count:
                    break
        except Malformed as error:
            raise self._note_damage(error) from None
        return found[:count]

    async def origin(self, position: int) -> int | None:
        try:
            start, heading = next(self._replica.read(position))
            wanted = self._replica.session_of(heading, position - start)
            for read, (start, heading) in enumerate(self._replica.read(self.base)):
                if start >= position or wanted is None:
                    break
                index = self._replica.index_of(heading, *wanted)
                if index is not None:
                    return start + index
                if read % _BATCHES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        except Malformed as error:
            raise self._note_damage(error) from None
        return None

    def _note_damage(self, error: Malformed) -> Unavailable:
        if self.damage is None:
            self.damage = str(error)
            self._damaged(self.damage)
        return Unavailable(str(error))

    def check_readable(self) -> None:
        """What a site holds may be another history if the log went on without it, and is old in any case."""
        left_out = self._replica.left_out
        if left_out is not None:
            raise Rejected(left_out)

    def pending(self, messages: int, newest: bool = False) -> list[tuple[Color, EntryBatch]]:
        self.check_readable()
        queue = self._replica.queue
        found: list[tuple[Color, EntryBatch]] = []
        position = self.green
        try:
            for color, heading in self._newest_pending() if newest else self._pending():
                if messages <= 0:
                    break
                if heading.kind is not Kind.DATA:
                    continue
                messages -= heading.count
                body = queue.bodies.get(heading.id)
                batch = EntryBatch(
                    position, self._author(heading.author), heading.incarnation, heading.first, heading.time,
                    heading.kind, messages_of(body),
                )  # fmt: skip
                found.append((color, batch))
                position = batch.end
        except Malformed as error:
            raise self._note_damage(error) from None
        if newest:
            found.reverse()
        return found

    def _pending(self) -> Iterator[tuple[Color, Heading]]:
        queue = self._replica.queue
        for entry in queue.pending():
            yield entry.color, entry.heading
        for waiting in queue.accepted:
            yield Color.RED, waiting.heading

    def _newest_pending(self) -> Iterator[tuple[Color, Heading]]:
        queue = self._replica.queue
        for waiting in reversed(queue.accepted):
            yield Color.RED, waiting.heading
        for entry in chain(reversed(queue.red), reversed(queue.yellow)):
            yield entry.color, entry.heading

    def watch(self, moved: Moved) -> Callable[[], None]:
        self.check_readable()
        return self._feed.watch(moved)

    def watch_colors(self, changed: Changed) -> Callable[[], None]:
        self.check_readable()
        return self._feed.watch_colors(changed)

    def barrier(self) -> "asyncio.Future[None]":
        self._refuse_in_trouble()
        self._replica.check_accepts()
        if self._barriers >= self._look_at:
            self._forget_barriers()
        if self._barriers >= _BARRIERS:
            raise Unavailable(f"{_BARRIERS} barriers wait already")
        self._barriers += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking.append(future)
        self._wake()
        return future

    def _forget_barriers(self) -> None:
        """Those that nobody waits for any more: in a minority none passes, and clients give up and ask again."""
        self._asking = [future for future in self._asking if not future.done()]
        for number, futures in list(self._asked.items()):
            waiting = self._asked[number] = [future for future in futures if not future.done()]
            if not waiting:
                del self._asked[number]
                self._replica.barriers.forget(number)
        self._barriers = len(self._asking) + sum(map(len, self._asked.values()))
        self._look_at = min(_BARRIERS, max(_LOOK_AT, 2 * self._barriers))

    def status(self) -> dict[str, object]:
        return status(self._replica, self.damage or self._trouble() or "ok")

    def counters(self) -> dict[str, int]:
        return {
            "log_accepted_messages": self._accepted,
            "log_ordered_messages": self._ordered,
            "log_primaries": self._primaries,
            "log_malformed": self._replica.malformed,
        }

    # -- snapshots of applications' state machines

    def snapshot(self, name: str = UNNAMED) -> tuple[int, int] | None:
        newest = self._replica.snapshots.newest.get(name)
        return None if newest is None else (newest.position, newest.size)

    def read_snapshot(self, offset: int, size: int, name: str = UNNAMED) -> bytes:
        try:
            return self._replica.snapshots.read(name, offset, size)
        except Malformed as error:
            raise self._note_damage(error) from None

    def save_snapshot(self, position: int, data: bytes, name: str = UNNAMED) -> "asyncio.Future[None]":
        return self._when_stored(partial(self._replica.save_snapshot, position, data, name))

    def use_snapshot(self, name: str, start: int) -> "asyncio.Future[None]":
        return self._when_stored(partial(self._replica.snapshots.use, name, start))

    def drop_snapshot(self, name: str) -> "asyncio.Future[None]":
        return self._when_stored(partial(self._replica.snapshots.drop, name))

    def _when_stored(self, request: Callable[[], int]) -> "asyncio.Future[None]":
        self._refuse_in_trouble()
        number = request()
        future = self._requests[number] = asyncio.get_running_loop().create_future()
        self._wake()
        return future

    # -- administration

    @property
    def _replicas(self) -> ReplicaSet:
        return self._replica.replicas

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> "asyncio.Future[int]":
        changed = partial(self._changed, add, remove, quorum)
        changed()  # what makes no sense is refused at once
        return asyncio.get_running_loop().create_task(self._change(changed))

    async def _change(self, changed: Callable[[], ReplicaSet]) -> int:
        """Where the replicas can't be changed now, as just after another change, waits a while until they can."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _CHANGE_S
        while True:
            replicas = changed()
            try:
                counter = self._replica.propose(replicas)
            except Unavailable:
                if loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(_LOOK_EVERY_S)
            else:
                self._wake()
                return await self._receipts.when_ordered(counter)

    def _changed(self, add: str | None, remove: str | None, quorum: dict[str, object] | None) -> ReplicaSet:
        self._refuse_in_trouble()
        replicas = self._replicas
        if add is not None and add not in self._replica.sites:
            raise Rejected(f"replicas: {add} is no site of this cluster: {', '.join(self._replica.sites)}")
        if add is not None and remove is not None:
            return replicas.replaced(remove, add, quorum)
        if add is not None:
            return replicas.added(add, quorum)
        if remove is not None:
            return replicas.removed(remove, quorum)
        if quorum is not None:
            return replicas.with_quorum(quorum)
        raise Rejected("replicas: expected one to add or to remove, or a quorum")

    def init(self, without: Sequence[str] = ()) -> None:
        self._refuse_in_trouble()
        self._replica.init(without)
        self._wake()

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        self._given_up(lost)
        return losses(self._replica, lost)

    def force_lost(self, lost: Sequence[str]) -> None:
        self._refuse_in_trouble()
        self._replica.force(self._given_up(lost))
        self._wake()

    def _given_up(self, lost: Sequence[str]) -> ReplicaSet:
        """The set without them. Raises Rejected where nobody has to be given up."""
        if self.name in lost:
            raise Rejected(f"replicas: {self.name} is not lost: it answers")
        here = [name for name in lost if name in self._replica.participants]
        if here:
            raise Rejected(f"replicas: {', '.join(here)}: not lost, but in this configuration")
        forced = self._replicas.forced_without(lost)
        if all(sets.quorum_holds(set(sets.names()) - set(lost)) for sets in self._replica.pending_sets()):
            raise Rejected("replicas: the others are a quorum without them: remove them through the log")
        return forced
