"""The log of a site over a socket: what was not acknowledged is tried again, here or at another site."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import msgspec

from reconvene.client.channel import Channel
from reconvene.client.flight import Flight, Landed, gathered
from reconvene.client.here import Here
from reconvene.client.local_log import COLORS_WAITING, listed
from reconvene.client.requests import Lost, Requests
from reconvene.corel.batch import Kind
from reconvene.entries import Color, ColorChange, Entry
from reconvene.errors import Malformed, OutcomeUnknown, Rejected, Unavailable
from reconvene.ids import UNNAMED
from reconvene.wire import client_log as wire
from reconvene.wire.clients import INIT_MINOR, LOG_MINOR, NAMES_MINOR, STAGING_MINOR
from reconvene.world import world

__all__ = ["Connected", "RemoteLog"]

_SESSION_BYTES = 16
_MOST_REFUSED = 16
"""Of a session's requests, each of which may leave a gap in its numbers: then another session is begun, long before
the log would refuse a number since it can't remember so many gaps."""

_CLOSED = "the connection was closed here"

T = TypeVar("T")


class Connected(Protocol):
    """What the log needs of the link that it is a part of."""

    here: Here
    requests: Requests
    channel: Channel | None
    timeout_s: float
    name: str

    async def connected(self, patient: bool = False) -> Channel:
        """Raises Unavailable where there is none in time, unless `patient`."""

    async def wait_for_news(self, until: float | None) -> None: ...


class RemoteLog:
    def __init__(self, link: Connected) -> None:
        self._link = link
        self.here = link.here
        self._loop = asyncio.get_running_loop()
        self.session: bytes | None = world().random_bytes(_SESSION_BYTES)
        self._number = 1
        """Of the session's next message."""
        self._refused = 0
        """The session's requests that a site did not take."""
        self._waiting: deque[Flight] = deque()
        """For a connection, or for room in the window."""
        self._flying: dict[int, Flight] = {}
        """By request, in their order."""
        self._give_up: asyncio.TimerHandle | None = None
        self._colors: dict[int, _Colors] = {}
        self._closed = False
        self._saving = 0
        """Snapshots that are under way, in pieces over one connection."""
        self._staged: WeakSet[Flight] = WeakSet()
        """Of open transactions: what has landed here, as far as nobody knows where it is."""
        self.seen = 0
        """The green line, as far as a site has told of it."""

    @property
    def name(self) -> str:
        return self._link.name

    @property
    def quiet(self) -> bool:
        """Nothing is under way that another connection would disturb."""
        return not (self._flying or self._waiting or self._colors or self._saving or self._staged)

    # -- the link calls

    def connect(self, channel: Channel) -> None:
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        self._send(channel)

    def lose(self) -> None:
        """What was not answered waits for the next connection, before what was not sent."""
        self._waiting.extendleft(reversed(self._flying.values()))
        self._flying.clear()
        for colors in self._colors.values():
            colors.end(Unavailable("the connection was lost: changes of colour may be missing"))
        self._colors.clear()
        self._wait_for_connection()

    def close(self) -> None:
        self._closed = True
        if self._give_up is not None:
            self._give_up.cancel()
        for flight in (*self._flying.values(), *self._waiting):
            flight.give_up(Unavailable(_CLOSED))
        self._flying.clear()
        self._waiting.clear()

    def colored(self, colored: wire.Colored) -> None:
        colors = self._colors.get(colored.request)
        if colors is not None:
            colors.put([ColorChange(Color(change[0]), *change[1:]) for change in colored.changes])

    # -- appending

    def append(self, flight: Flight) -> None:
        self.here.check_loop()
        if self._closed:
            flight.fail(Unavailable(_CLOSED))
            return
        if flight.kind is Kind.STAGED:
            self._staged.add(flight)
        self._waiting.append(flight)
        channel = self._link.channel
        if channel is None:
            self._wait_for_connection()
        else:
            self._send(channel)

    def has_room(self) -> bool:
        return not self._waiting

    async def room(self) -> None:
        self.here.check()
        while self._waiting:
            await asyncio.wait([self._waiting[0].landed])

    def _wait_for_connection(self) -> None:
        if self._give_up is None and self._waiting:
            self._give_up = self._loop.call_later(self._link.timeout_s, self._too_late)

    def _too_late(self) -> None:
        self._give_up = None
        waiting, self._waiting = self._waiting, deque()
        for flight in waiting:
            flight.give_up(Unavailable(f"no connection in {self._link.timeout_s:g} s"))

    def _send(self, channel: Channel) -> None:
        waiting = self._waiting
        while waiting and self._link.requests.has_room_to_append(channel):
            flight = waiting.popleft()
            if flight.landed.done():
                continue
            try:
                _check_minor(channel, LOG_MINOR if flight.kind is Kind.DATA else STAGING_MINOR)
                longest, most = max(map(len, flight.messages)), wire.log_message_bytes(channel.welcome.message_bytes)
                if longest > most:
                    raise Rejected(f"message of {longest} bytes: at most {most} are taken")
            except Rejected as error:
                flight.give_up(error)
                continue
            if flight.session is not None and not flight.number:
                self._give_number(flight)
            struct = wire.Append(
                self._link.requests.number(), flight.messages, flight.session, flight.number, flight.kind
            )
            self._flying[struct.request] = flight
            flight.retried |= flight.sent
            flight.sent = True
            answered = self._link.requests.add(channel, struct, None, flight.size)
            answered.add_done_callback(partial(self._answered, struct.request))

    def _give_number(self, flight: Flight) -> None:
        """Only now, when it is sent: what is never sent leaves no gap."""
        if self._refused >= _MOST_REFUSED:
            self.session, self._number, self._refused = world().random_bytes(_SESSION_BYTES), 1, 0
        flight.session, flight.number = self.session, self._number
        self._number += flight.count

    def _answered(self, request: int, answered: "asyncio.Future[wire.Appended]") -> None:
        flight = self._flying.get(request)
        if flight is None or isinstance(answered.exception(), Lost):
            return  # it waits for the next connection
        del self._flying[request]
        error = answered.exception()
        if error is not None and flight.session == self.session:
            self._refused += 1
        if error is None:
            said = answered.result()
            self.seen = max(self.seen, said.green)
            flight.land(Landed(said.parts, said.green))
        elif isinstance(error, Rejected | Unavailable | OutcomeUnknown):
            flight.fail(error)
        else:
            flight.fail(OutcomeUnknown(str(error)))
        channel = self._link.channel
        if channel is not None and self._waiting:
            self._send(channel)

    async def find(self, flight: Flight) -> list[tuple[int, int]]:
        landed = await flight.arrived()
        places = await gathered(landed, lambda part: self._find(part, landed.green, flight.retried))
        self._staged.discard(flight)
        return places

    async def _find(self, part: wire.Part, green: int, retried: bool) -> list[tuple[int, int]]:
        try:
            said: wire.Ordered = await self._ask(
                lambda number: wire.Order(number, part.author, part.first, part.count, green, retried), patient=True
            )
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from None
        self.seen = max([self.seen, *(position + count for position, count in said.places)])
        return said.places

    # -- reading

    async def fetch(self, start: int, messages: int, size: int, wait: bool) -> wire.Fetched:
        said: wire.Fetched = await self._ask(
            lambda number: wire.Fetch(number, start, messages, size, wait), patient=wait
        )
        self.seen = max(self.seen, said.green)
        return said

    async def collect(self, ranges: Sequence[tuple[int, int]], size: int) -> wire.Fetched:
        wanted = list(ranges)
        said: wire.Fetched = await self._ask(lambda number: wire.Collect(number, wanted, size), True, STAGING_MINOR)
        return said

    async def last_commit(self, session: bytes) -> tuple[int, int] | None:
        said = await self._ask_briefly(lambda number: wire.LastCommit(number, session), STAGING_MINOR)
        return _converted(said, tuple[int, int] | None)  # type: ignore[arg-type]

    async def headings(self, start: int, batches: int) -> wire.Fetched:
        said: wire.Fetched = await self._ask_briefly(
            lambda number: wire.Fetch(number, start, batches, wire.FETCH_BYTES, False, True)
        )
        return said

    async def pending(self, messages: int) -> tuple[int, list[Entry]]:
        said = await self._ask_briefly(lambda number: wire.Pending(number, messages))
        pending = _converted(said, _Pending)
        return pending.green, listed(pending.green, pending.found, messages)

    async def colors(self) -> AsyncIterator[list[ColorChange]]:
        channel = await self._link.connected()
        _check_minor(channel)
        number = self._link.requests.number()
        colors = self._colors[number] = _Colors()
        channel.send(wire.WatchColors(number))
        try:
            while True:
                yield await colors.next()
        finally:
            if self._colors.pop(number, None) is not None and not channel.closed:
                channel.send(wire.Forget(number))

    async def barrier(self) -> int:
        return _converted(await self._ask(wire.Barrier, patient=True), int)

    async def status(self) -> dict[str, object]:
        return _converted(await self._ask_briefly(wire.LogStatus), dict[str, object])

    # -- snapshots

    async def snapshot(self, name: str) -> tuple[int, int] | None:
        return await self._newest(name, False)

    async def _newest(self, name: str, patient: bool) -> tuple[int, int] | None:
        channel = await self._link.connected(patient)
        if name != UNNAMED and channel.welcome.minor < NAMES_MINOR:
            return None  # such a site keeps one, without a name
        said = await self._asker(patient)(lambda number: wire.Snapshot(number, name))
        return _converted(said, tuple[int, int] | None)  # type: ignore[arg-type]

    def _asker(self, patient: bool) -> "_Ask":
        return partial(self._ask, patient=True) if patient else self._ask_briefly

    async def read_snapshot(self, name: str, patient: bool = False) -> tuple[int, bytes] | None:
        while True:
            newest = await self._newest(name, patient)
            if newest is None:
                return None
            position, size = newest
            data = await self._pieces(self._asker(patient), name, position, size)
            if data is not None:
                return position, data

    async def _pieces(self, ask: "_Ask", name: str, position: int, size: int) -> bytes | None:
        """None: there is a newer one, or the site that has taken over has another."""
        data = bytearray()
        while len(data) < size:
            most = min(size - len(data), wire.SNAPSHOT_PIECE_BYTES)
            piece = _converted(
                await ask(partial(_read, name, position, len(data), most)),
                bytes | None,  # type: ignore[arg-type]
            )
            if not piece:
                return None
            data += piece
        return bytes(data)

    async def save_snapshot(self, position: int, data: bytes, name: str) -> None:
        channel = await self._link.connected()
        _check_minor(channel, LOG_MINOR if name == UNNAMED else NAMES_MINOR)
        at = 0
        self._saving += 1
        try:
            while True:
                piece = data[at : at + wire.SNAPSHOT_PIECE_BYTES]
                struct = wire.SaveSnapshot(self._link.requests.number(), position, len(data), at, piece, name)
                await self._link.requests.add(channel, struct, None, len(piece))
                at += len(piece)
                if at >= len(data):
                    return
        finally:
            self._saving -= 1

    async def use_snapshot(self, name: str, start: int) -> None:
        await self._ask_briefly(lambda number: wire.UseSnapshot(number, name, start), NAMES_MINOR)

    async def drop_snapshot(self, name: str) -> None:
        await self._ask_briefly(lambda number: wire.DropSnapshot(number, name), NAMES_MINOR)

    # -- administration

    async def change_replicas(self, add: str | None, remove: str | None, quorum: dict[str, object] | None) -> int:
        return _converted(await self._ask(lambda number: wire.ChangeReplicas(number, add, remove, quorum)), int)

    async def losses(self, lost: Sequence[str]) -> dict[str, object]:
        return _converted(await self._ask_briefly(lambda number: wire.Losses(number, list(lost))), dict[str, object])

    async def init(self, without: Sequence[str]) -> None:
        await self._ask_briefly(lambda number: wire.Init(number, list(without)), minor=INIT_MINOR)

    async def force_lost(self, lost: Sequence[str]) -> None:
        await self._ask_briefly(lambda number: wire.ForceLost(number, list(lost)))

    # -- questions

    async def _ask_briefly(self, make: Callable[[int], wire.LogRequest], minor: int = LOG_MINOR) -> Any:
        """What a site answers at once."""
        try:
            async with asyncio.timeout(self._link.timeout_s):
                return await self._ask(make, minor=minor)
        except TimeoutError:
            raise Unavailable(f"site {self.name} did not answer in {self._link.timeout_s:g} s") from None

    async def _ask(
        self, make: Callable[[int], wire.LogRequest], patient: bool = False, minor: int = LOG_MINOR
    ) -> Any:
        """Asked again where the connection is lost; with `patient`, however long there is none."""
        while True:
            channel = await self._link.connected(patient)
            _check_minor(channel, minor)
            struct = make(self._link.requests.number())
            answer = self._link.requests.add(channel, struct)
            try:
                return await answer
            except Lost:
                continue
            except asyncio.CancelledError:
                self._link.requests.take(struct.request)
                if not channel.closed:
                    channel.send(wire.Forget(struct.request))
                raise


_Ask = Callable[[Callable[[int], wire.LogRequest]], Awaitable[Any]]
"""Asks a site for one thing."""


class _Pending(msgspec.Struct, array_like=True):
    green: int
    found: list[tuple[str, str, int, int, int, list[bytes]]]


class _Colors:
    """What waits to be read."""

    def __init__(self) -> None:
        self._waiting: deque[list[ColorChange]] = deque()
        self._size = 0
        self._error: Unavailable | None = None
        self._news = asyncio.Event()

    def put(self, changes: list[ColorChange]) -> None:
        if self._error is None:
            self._waiting.append(changes)
            self._size += len(changes)
            if self._size > COLORS_WAITING:
                self.end(Unavailable(f"more than {COLORS_WAITING} changes of colour waited unread"))
            self._news.set()

    def end(self, error: Unavailable) -> None:
        self._error = error
        self._news.set()

    async def next(self) -> list[ColorChange]:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            self._news.clear()
            await self._news.wait()
        changes = self._waiting.popleft()
        self._size -= len(changes)
        return changes


def _read(name: str, position: int, offset: int, size: int, number: int) -> wire.ReadSnapshot:
    return wire.ReadSnapshot(number, position, offset, size, name)


_NEEDS = {
    LOG_MINOR: "the log needs",
    STAGING_MINOR: "transactions need",
    INIT_MINOR: "beginning a log needs",
    NAMES_MINOR: "names of snapshots need",
}


def _check_minor(channel: Channel, minor: int = LOG_MINOR) -> None:
    welcome = channel.welcome
    if welcome.minor < minor:
        what = _NEEDS[minor]
        raise Rejected(
            f"{channel.address}: site {welcome.site} speaks version {welcome.major}.{welcome.minor} of the client "
            f"protocol: {what} {welcome.major}.{minor}"
        )


def _converted(said: object, form: type[T]) -> T:
    try:
        return msgspec.convert(said, form)
    except msgspec.ValidationError as error:
        raise Malformed(f"the site's answer: {error}") from None
