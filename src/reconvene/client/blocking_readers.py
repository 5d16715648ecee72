"""What differs without asyncio: reading. One trip to the background thread brings all that waits there.

`scripts/blocking_api.py` makes the rest of `reconvene.blocking` from the asynchronous classes.
"""

import threading
from collections import deque
from collections.abc import Awaitable, Generator, Iterable, Iterator

from msgspec import structs

from reconvene.client import follow as following
from reconvene.client import group as groups
from reconvene.client import isis as async_isis
from reconvene.client.arguments import check_timeout
from reconvene.client.events import Batch, Blocked, Event, Process, Rejoined, View
from reconvene.client.group import Data
from reconvene.client.isis_events import Cast, IsisEvent, Replying
from reconvene.client.loop_thread import LoopThread, Opened, Twin
from reconvene.entries import Entry, EntryBatch
from reconvene.errors import ReconveneError, TimedOut, Unavailable
from reconvene.ids import Service

__all__ = ["FollowReader", "GroupReader", "IsisReader"]


class GroupReader(Opened[groups.Group]):
    """Several threads may read: each event goes to one of them."""

    def __init__(self, thread: LoopThread, inner: groups.Group) -> None:
        super().__init__(thread, inner)
        self._reading = threading.Lock()
        self._drained: deque[Batch | View | Blocked | Rejoined] = deque()
        self._events: Iterator[Event] = iter(())

    def send_many(
        self,
        payloads: Iterable[Data],
        service: Service | str = Service.AGREED,
        to: Iterable[Process | str] | None = None,
        *,
        scope: str | None = None,
    ) -> int:
        """As `send`, for many, in their order. Waits for room as it goes. Returns how many were sent.

        `payloads` may be endless or lazy: no more of it is taken than there is room for. This thread goes through it:
        it may block, and it may use this group. Where it fails, those before the failure may have been sent: the
        error's `taken` says how many are known to be."""
        sent = 0
        for piece in groups.slices(payloads):
            try:
                sent += self._thread.run(self._inner.send_many(piece, service, to, scope=scope))
            except ReconveneError as error:
                error.taken += sent
                raise
        return sent

    def __iter__(self) -> Iterator[Event]:
        """Messages and views, in order. Ends after `leave`; raises Unavailable where the membership ended for
        another reason, such as a reader too slow for its limit."""
        return self.events()

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """As `for event in group`; with `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            try:
                event = self._next(timeout)
            except TimedOut:
                return
            if event is None:
                return
            yield event

    def next(self, timeout: float | None = None) -> Event:
        """The next event. Raises TimeoutError where nothing comes in `timeout` s, Unavailable where nothing will."""
        event = self._next(timeout)
        if event is None:
            raise Unavailable(f"group {self._inner.name!r}: this process left it")
        return event

    def batches(self, timeout: float | None = None) -> Iterator[Batch | View | Blocked | Rejoined]:
        """As `events`, with messages in batches."""
        check_timeout(timeout)
        while True:
            with self._reading:
                try:
                    if not self._drained and not self._fetch(timeout):
                        return
                except TimedOut:
                    return
                batch = self._drained.popleft()
            yield batch

    def _next(self, timeout: float | None) -> Event | None:
        with self._reading:
            while True:
                event = next(self._events, None)
                if event is not None:
                    return event
                if not self._drained and not self._fetch(timeout):
                    return None
                first = self._drained.popleft()
                self._events = first.messages() if isinstance(first, Batch) else iter((first,))

    def _fetch(self, timeout: float | None) -> bool:
        """Whether there is something to read. False: the end."""
        try:
            self._drained += self._thread.run(self._inner.wait_and_drain(timeout))
        except TimedOut:
            raise
        except Unavailable:
            if not self._thread.over:
                raise
        return bool(self._drained)


class _Done:
    """What `await` returns from at once."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class _Replies:
    """Replies from a program without asyncio: the call returns when the site has the reply."""

    def __init__(self, thread: LoopThread, process: Replying) -> None:
        self._thread = thread
        self._process = process

    def reply(self, cast: Cast, data: Data) -> Awaitable[None]:
        self._thread.run(_waited(self._process.reply(cast, data)))
        return _Done()


async def _waited(work: Awaitable[None]) -> None:
    await work


class IsisReader(Twin[async_isis.Isis]):
    """Several threads may read: each event goes to one of them."""

    def __init__(self, thread: LoopThread, inner: async_isis.Isis) -> None:
        super().__init__(thread, inner)
        self._reading = threading.Lock()
        self._drained: deque[IsisEvent] = deque()

    def __iter__(self) -> Iterator[IsisEvent]:
        """What this process receives, in order. Ends with the block of its site; raises Unavailable where the process
        was cut off."""
        return self.events()

    def events(self, timeout: float | None = None) -> Iterator[IsisEvent]:
        """As `for event in isis`; with `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            try:
                event = self._next(timeout)
            except TimedOut:
                return
            if event is None:
                return
            yield event

    def next(self, timeout: float | None = None) -> IsisEvent:
        """The next event. Raises TimeoutError where nothing comes in `timeout` s, Unavailable where nothing will."""
        event = self._next(timeout)
        if event is None:
            raise Unavailable("the site was closed")
        return event

    def _next(self, timeout: float | None) -> IsisEvent | None:
        with self._reading:
            if not self._drained:
                try:
                    self._drained += self._thread.run(self._inner.wait_and_drain(timeout))
                except TimedOut:
                    raise
                except Unavailable:
                    if not self._thread.over:
                        raise
            if not self._drained:
                return None
            event = self._drained.popleft()
        if isinstance(event, Cast):
            return structs.replace(event, _process=_Replies(self._thread, event._process))
        return event


class FollowReader(Opened[following.Follow]):
    """Read it from one thread."""

    def __init__(self, thread: LoopThread, inner: following.Follow) -> None:
        super().__init__(thread, inner)
        self._entries: Iterator[Entry] = iter(())
        self._begun: EntryBatch | None = None
        """The batch that `_entries` come from."""
        self._position = inner.position

    @property
    def position(self) -> int:
        """Where it goes on: all that is below it was read. Inside a transaction it is the commit's own position: a
        reader that goes on there reads the transaction from its beginning."""
        return self._position

    def __iter__(self) -> Iterator[Entry]:
        """Ends at `stop`, where there is one. Raises Truncated where the log no longer has what comes next."""
        return self.entries()

    def entries(self, timeout: float | None = None) -> Iterator[Entry]:
        """As `for entry in follow`; with `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            for entry in self._entries:
                assert self._begun is not None, "entries come from a batch"
                self._position = self._begun.passed(entry.position + 1)
                yield entry
            if self._begun is not None:
                self._position, self._begun = self._begun.next, None
            batch = self._next(timeout)
            if batch is None:
                return
            self._begun, self._entries = batch, batch.entries(self._inner.control)

    def batches(self, timeout: float | None = None) -> Iterator[EntryBatch]:
        """The same with many entries at a time."""
        while (batch := self._next(timeout)) is not None:
            self._position = batch.next
            yield batch

    def next_batch(self, timeout: float | None = None) -> EntryBatch | None:
        """The next of `batches`; None at the end. Raises TimeoutError where nothing comes in `timeout` s."""
        return self._passed(self._thread.run(self._inner.next_batch(timeout)))

    def next_of_any_kind(self, timeout: float | None = None) -> EntryBatch | None:
        """The same, with batches that hold nothing of the application's."""
        return self._passed(self._thread.run(self._inner.next_of_any_kind(timeout)))

    def _passed(self, batch: EntryBatch | None) -> EntryBatch | None:
        if batch is not None:
            self._position = batch.next
        return batch

    def _next(self, timeout: float | None) -> EntryBatch | None:
        try:
            return self._thread.run(self._inner.next_batch(timeout))
        except TimedOut:
            return None
        except Unavailable:
            if self._thread.over:
                return None
            raise
