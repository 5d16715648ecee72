"""The log of a site, as the objects of an application use it: questions and their answers.

It is the same over a socket and for a site inside the program; only the channel differs. A question is asked again
where the connection is lost, at the same or another site.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from reconvene.client.appends import Appends, Connected, check_minor
from reconvene.client.pending_append import PendingAppend, Runs
from reconvene.client.requests import Lost
from reconvene.client.time_limits import in_time, within
from reconvene.entries import Color, ColorChange, Entry
from reconvene.errors import Malformed, OutcomeUnknown, PlaceForgotten, Unavailable
from reconvene.ids import UNNAMED
from reconvene.wire import client_log as wire
from reconvene.wire.clients import (
    CURSOR_MINOR,
    INIT_MINOR,
    LOG_MINOR,
    NAMES_MINOR,
    STAGING_MINOR,
    WHATIF_MINOR,
    Welcome,
)

__all__ = ["COLORS_WAITING", "LogLink"]

COLORS_WAITING = 100_000
"""Changes of colour that may wait unread."""

T = TypeVar("T")


class LogLink:
    def __init__(self, link: Connected) -> None:
        self._link = link
        self.here = link.here
        self.appends = Appends(link)
        self._colors: dict[int, _Colors] = {}
        self._saving = 0
        """Snapshots that are under way, in pieces over one connection."""

    @property
    def name(self) -> str:
        """The site's."""
        return self._link.name

    @property
    def seen(self) -> int:
        """The green line, as far as a site has reported it."""
        return self.appends.seen

    @property
    def quiet(self) -> bool:
        """Nothing is under way that another connection would disturb."""
        return self.appends.quiet and not self._colors and not self._saving

    # -- the link calls

    def connect(self, welcome: Welcome) -> None:
        self.appends.connect(welcome)

    def lose(self) -> None:
        self.appends.lose()
        self._end_colors("the connection was lost: changes of colour may be missing")

    def close(self, why: str) -> None:
        self.appends.close(why)
        self._end_colors(why)

    def _end_colors(self, why: str) -> None:
        colors, self._colors = self._colors, {}
        for one in colors.values():
            one.end(Unavailable(why))

    def colored(self, colored: wire.Colored) -> None:
        colors = self._colors.get(colored.request)
        if colors is not None:
            colors.put([ColorChange(Color(change[0]), *change[1:]) for change in colored.changes])

    # -- appending

    async def room(self) -> None:
        """Waits until a further append would be sent at once. Raises Unavailable."""
        self.here.check()
        while self.appends.waiting:
            await self.appends.room.wait()
            self.here.check()

    def ordered(self, pending: PendingAppend, timeout: float | None = None) -> Coroutine[Any, Any, Runs]:
        """Returns where an accepted append is, once it is ordered. Raises OutcomeTimedOut after `timeout` s."""
        self.here.check()
        ordered = pending.ordered(self._find)
        return ordered if timeout is None else within(timeout, ordered, "ordered")

    async def _find(self, pending: PendingAppend) -> Runs:
        """Waits for the parts that are not ordered yet."""
        appended = await pending.accepted()
        runs: Runs = []
        for part in appended.parts:
            if part.position is not None:
                runs.append((part.position, part.count))
            elif part.author:
                runs += await self._find_part(part, appended, pending.retried)
            else:
                runs.append((None, part.count))
        self.appends.found(pending, runs)
        return runs

    async def _find_part(self, part: wire.Part, appended: wire.Appended, retried: bool) -> Runs:
        """The site answers for a part as a whole: where it no longer knows all places, the halves are asked for."""
        try:
            said: wire.Ordered = await self._ask(
                lambda number: wire.Order(
                    number, part.author, part.first, part.count, appended.green, retried, appended.outpost
                ),
                patient=True,
            )
            return [*said.places]
        except PlaceForgotten:
            if part.count == 1:
                return [(None, 1)]
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from None
        half = part.count // 2
        rest = replace(part, first=part.first + half, count=part.count - half)
        return [
            *await self._find_part(replace(part, count=half), appended, retried),
            *await self._find_part(rest, appended, retried),
        ]

    # -- reading

    async def fetch(self, start: int, messages: int, size: int, wait: bool) -> wire.Fetched:
        said: wire.Fetched = await self._ask(
            lambda number: wire.Fetch(number, start, messages, size, wait), patient=wait
        )
        self.appends.seen = max(self.appends.seen, said.green)
        return said

    async def collect(self, ranges: Sequence[tuple[int, int]], size: int) -> wire.Fetched:
        wanted = list(ranges)
        said: wire.Fetched = await self._ask(lambda number: wire.Collect(number, wanted, size), True, STAGING_MINOR)
        return said

    async def last_commit(self, session: bytes) -> tuple[int, int] | None:
        said = await self._ask_briefly(lambda number: wire.LastCommit(number, session), STAGING_MINOR)
        return _converted(said, tuple[int, int] | None)  # type: ignore[arg-type]

    async def cursor(self, session: bytes, unlike: int | None = None) -> tuple[int, bytes] | None:
        """(position of the last record, note) of a cursor; with `unlike`, once the position is another one."""
        said = await self._ask(lambda number: wire.Cursor(number, session, unlike), True, CURSOR_MINOR)
        return _converted(said, tuple[int, bytes] | None)  # type: ignore[arg-type]

    async def cursors(self, after: bytes) -> list[tuple[bytes, int, bytes]]:
        said = await self._ask_briefly(lambda number: wire.Cursors(number, after), CURSOR_MINOR)
        return _converted(said, list[tuple[bytes, int, bytes]])

    async def headings(self, start: int, batches: int) -> wire.Fetched:
        said: wire.Fetched = await self._ask_briefly(
            lambda number: wire.Fetch(number, start, batches, wire.FETCH_BYTES, False, True)
        )
        return said

    async def pending(self, messages: int) -> tuple[int, list[Entry]]:
        said = await self._ask_briefly(lambda number: wire.Pending(number, messages))
        pending = _converted(said, _Pending)
        return pending.green, _listed(pending.green, pending.found, messages)

    async def colors(self) -> AsyncGenerator[list[ColorChange], None]:
        channel = await self._link.connected()
        check_minor(channel)
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
        check_minor(channel, LOG_MINOR if name == UNNAMED else NAMES_MINOR)
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

    async def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        found = await self._ask_briefly(lambda number: wire.WhatIf(number, list(lost)), minor=WHATIF_MINOR)
        return _converted(found, dict[str, object])

    async def init(self, without: Sequence[str]) -> None:
        await self._ask_briefly(lambda number: wire.Init(number, list(without)), minor=INIT_MINOR)

    async def force_lost(self, lost: Sequence[str]) -> None:
        await self._ask_briefly(lambda number: wire.ForceLost(number, list(lost)))

    # -- questions

    async def _ask_briefly(self, make: Callable[[int], wire.LogRequest], minor: int = LOG_MINOR) -> Any:
        """What a site answers at once."""
        limit = self._link.timeout_s
        if limit is None:
            return await self._ask(make, minor=minor)
        return await in_time(limit, self._ask(make, minor=minor), f"site {self.name} did not answer in {limit:g} s")

    async def _ask(
        self, make: Callable[[int], wire.LogRequest], patient: bool = False, minor: int = LOG_MINOR
    ) -> Any:
        """Asked again where the connection is lost; with `patient`, however long there is none."""
        requests = self._link.requests
        while True:
            self.here.check()
            channel = self._link.channel or await self._link.connected(patient)
            check_minor(channel, minor)
            struct = make(requests.number())
            try:
                return await requests.add(channel, struct)
            except Lost:
                continue
            except asyncio.CancelledError:
                requests.take(struct.request)
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


def _converted(said: object, form: type[T]) -> T:
    try:
        return msgspec.convert(said, form)
    except msgspec.ValidationError as error:
        raise Malformed(f"the site's answer: {error}") from None


def _listed(green: int, found: Sequence[tuple[str, str, int, int, int, list[bytes]]], messages: int) -> list[Entry]:
    """Pending batches, one by one."""
    entries: list[Entry] = []
    for color, author, incarnation, first, time, datas in found:
        for at, data in enumerate(datas):
            if len(entries) == messages:
                return entries
            entries.append(Entry(green + len(entries), data, author, incarnation, first + at, time, Color(color)))
    return entries
