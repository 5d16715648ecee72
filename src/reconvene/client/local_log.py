"""The log of a site inside the program."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from reconvene.client.flight import Flight, Landed, gathered
from reconvene.client.here import Here
from reconvene.entries import Color, ColorChange, Entry, EntryBatch
from reconvene.errors import OutcomeUnknown, ReconveneError, Unavailable
from reconvene.runtime.clients.log_requests import last_own, parts_of, pending_of
from reconvene.runtime.log.interface import LogPort
from reconvene.runtime.log.places import Places
from reconvene.runtime.log.transactions import check_kind, collected
from reconvene.wire.client_log import Fetched, Part

__all__ = ["CLOSED", "COLORS_WAITING", "LocalLog", "listed"]

COLORS_WAITING = 100_000
"""Changes of colour that wait unread, before who reads them is told that it is too slow."""
_NOT_YET_S = 0.01
CLOSED = "the site was closed"


class LocalLog:
    session: bytes | None = None
    """Nothing is lost on the way: nothing is tried again."""

    def __init__(self, port: LogPort, here: Here) -> None:
        self.here = here
        self._port = port
        self._places = Places(port)
        self._queue: deque[Flight] = deque()
        """Those for which the log has no room."""
        self._pump: asyncio.Task[None] | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        """Those who read, and wait for the log to grow."""
        self._watching: set[Callable[[], None]] = set()
        """Wakes those who read changes of colour."""
        self._closed = False

    @property
    def name(self) -> str:
        return self._port.name

    @property
    def _asked(self) -> LogPort:
        """The log, for a caller. Raises where the caller may not use it any more, or not here."""
        self.here.check()
        return self._port

    def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        self._closed = True
        for flight in self._queue:
            flight.fail(Unavailable(CLOSED))
        for moved in self._waiting:
            if not moved.done():
                moved.set_exception(Unavailable(CLOSED))
        for wake in self._watching:
            wake()
        self._places.close()

    # -- appending

    def append(self, flight: Flight) -> None:
        self.here.check_loop()
        if self._closed:
            flight.fail(Unavailable(CLOSED))
            return
        if self._queue or self._port.room() < flight.count:
            self._queue.append(flight)
            if self._pump is None:
                self._pump = asyncio.get_running_loop().create_task(self._drain())
            return
        self._take(flight)

    def _take(self, flight: Flight) -> None:
        green = self._port.green
        try:
            check_kind(flight.kind, flight.messages)
            taken = self._port.append(flight.messages, flight.session, flight.number, flight.kind)
        except ReconveneError as error:
            flight.fail(error)
            return
        flight.sent = True
        parts = parts_of(taken)
        landed = Landed(parts, green)
        own = last_own(parts, self.name)
        if not own:
            flight.land(landed)
            return
        self._port.durable(own).add_done_callback(partial(_durable, flight, landed))

    async def _drain(self) -> None:
        while self._queue:
            flight = self._queue[0]
            try:
                await self._port.wait_for_room()
            except ReconveneError as error:
                flight.fail(error)
            else:
                if self._port.room() < flight.count and not flight.landed.done():
                    await asyncio.sleep(_NOT_YET_S)  # there is room, but not for this
                    continue
                self._take(flight)
            self._queue.popleft()
        self._pump = None

    def has_room(self) -> bool:
        return not self._queue

    async def room(self) -> None:
        self.here.check()
        while self._queue:
            await asyncio.wait([self._queue[-1].landed])

    async def find(self, flight: Flight) -> list[tuple[int, int]]:
        self.here.check()
        landed = await flight.arrived()
        return await gathered(landed, lambda part: self._find(part, landed.green, flight.retried))

    async def _find(self, part: Part, green: int, retried: bool) -> list[tuple[int, int]]:
        try:
            return await self._places.find(part.author, part.first, part.count, green, retried)
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from None

    # -- reading

    async def fetch(self, start: int, messages: int, size: int, wait: bool) -> Fetched:
        port = self._asked
        port.check_readable()
        while wait and port.base <= start and start >= port.green:
            await self._moved()
        return self._chunk(port.read(start, messages, size) if port.base <= start < port.green else [])

    def _chunk(self, batches: list[EntryBatch]) -> Fetched:
        return Fetched(0, self._port.base, self._port.green, batches)

    async def collect(self, ranges: Sequence[tuple[int, int]], size: int) -> Fetched:
        return self._chunk(collected(self._asked, ranges, size))

    async def last_commit(self, session: bytes) -> tuple[int, int] | None:
        return self._asked.committed(session)

    async def headings(self, start: int, batches: int) -> Fetched:
        port = self._asked
        return self._chunk(port.headings(start, batches) if port.base <= start < port.green else [])

    async def _moved(self) -> None:
        if self._closed:
            raise Unavailable(CLOSED)
        moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        end = self._port.watch(lambda _: None if moved.done() else moved.set_result(None))
        self._waiting.add(moved)
        try:
            await moved
        finally:
            self._waiting.discard(moved)
            end()

    async def pending(self, messages: int) -> tuple[int, list[Entry]]:
        (green, found), _ = pending_of(self._asked, messages)
        return green, listed(green, found, messages)

    async def colors(self) -> AsyncIterator[list[ColorChange]]:
        waiting: deque[list[ColorChange]] = deque()
        news = asyncio.Event()
        size = 0

        def changed(changes: list[tuple[Color, str, int, int, int]]) -> None:
            nonlocal size
            if size <= COLORS_WAITING:
                waiting.append([ColorChange(*change) for change in changes])
            size += len(changes)
            news.set()

        end = self._asked.watch_colors(changed)
        self._watching.add(news.set)
        try:
            while True:
                await news.wait()
                news.clear()
                if self._closed:
                    raise Unavailable(CLOSED)
                while waiting:
                    changes = waiting.popleft()
                    yield changes
                    if size > COLORS_WAITING:
                        raise Unavailable(f"more than {COLORS_WAITING} changes of colour waited unread")
                    size -= len(changes)
        finally:
            self._watching.discard(news.set)
            end()

    async def barrier(self) -> int:
        await self._asked.barrier()
        return self._port.green

    async def status(self) -> dict[str, object]:
        return self._asked.status()

    # -- snapshots, administration

    async def snapshot(self, name: str) -> tuple[int, int] | None:
        return self._asked.snapshot(name)

    async def read_snapshot(self, name: str, patient: bool = False) -> tuple[int, bytes] | None:
        found = self._asked.snapshot(name)
        return None if found is None else (found[0], self._port.read_snapshot(0, found[1], name))

    async def save_snapshot(self, position: int, data: bytes, name: str) -> None:
        await self._asked.save_snapshot(position, data, name)

    async def use_snapshot(self, name: str, start: int) -> None:
        await self._asked.use_snapshot(name, start)

    async def drop_snapshot(self, name: str) -> None:
        await self._asked.drop_snapshot(name)

    async def change_replicas(self, add: str | None, remove: str | None, quorum: dict[str, object] | None) -> int:
        return await self._asked.change_replicas(add=add, remove=remove, quorum=quorum)

    async def losses(self, lost: Sequence[str]) -> dict[str, object]:
        return self._asked.losses(lost)

    async def init(self, without: Sequence[str]) -> None:
        self._asked.init(without)

    async def force_lost(self, lost: Sequence[str]) -> None:
        self._asked.force_lost(lost)


def listed(green: int, found: Sequence[tuple[str, str, int, int, int, list[bytes]]], messages: int) -> list[Entry]:
    """Pending batches, one by one."""
    entries: list[Entry] = []
    for color, author, incarnation, first, time, datas in found:
        for at, data in enumerate(datas):
            if len(entries) == messages:
                return entries
            entries.append(Entry(green + len(entries), data, author, incarnation, first + at, time, Color(color)))
    return entries


def _durable(flight: Flight, landed: Landed, durable: "asyncio.Future[None]") -> None:
    error = None if durable.cancelled() else durable.exception()
    if durable.cancelled() or error is not None:
        why = "" if error is None else f": {error}"
        flight.fail(OutcomeUnknown(f"not known to be durable{why}"))
    else:
        flight.land(landed)
