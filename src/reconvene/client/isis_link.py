"""A program's process in the ISIS layer of its site: what it asks for, and what comes.

It is the same over a socket and for a site inside the program; only the channel differs. Where the connection is
lost, the process is over: over the next one the program goes on as another process, and is told so.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from reconvene.client.appends import check_minor
from reconvene.client.events import Process
from reconvene.client.group import as_bytes
from reconvene.client.here import Here
from reconvene.client.isis_call import Call
from reconvene.client.isis_casts import IsisCasts
from reconvene.client.isis_events import Cast, ProcessFailed, Reply, Unreachable
from reconvene.client.isis_giving import Giving
from reconvene.client.isis_place import Place
from reconvene.client.isis_queue import IsisQueue, Renamed
from reconvene.client.isis_state import Provider, Transfer
from reconvene.client.isis_wide import Wide, is_wide, wide_named, wide_numbered
from reconvene.client.requests import RequestChannel, Requests
from reconvene.client.roll import Roll
from reconvene.core.groups import events
from reconvene.errors import OutcomeTimedOut, ReconveneError, Rejected, TimedOut, Unavailable
from reconvene.wire import client_isis as wire
from reconvene.wire.clients import ISIS_MINOR, WATCH_MINOR, WIDE_ISIS_MINOR

__all__ = ["IsisConnection", "IsisLink"]

_log = logging.getLogger("reconvene.client")

_SMALL_BYTES = 64 << 10
"""Every site takes so much."""
_KILLED = "this process was killed meanwhile: the others went on without it"


class IsisConnection(Protocol):
    """What this needs of the link that it is a part of."""

    here: Here
    requests: Requests

    @property
    def name(self) -> str: ...

    @property
    def cluster(self) -> str: ...

    @property
    def roll(self) -> Roll: ...

    @property
    def timeout_s(self) -> float | None:
        """How long a request waits for a connection or a brief answer; None: neither has to be waited for."""

    @property
    def isis_channel(self) -> RequestChannel | None: ...

    async def isis_connected(self) -> RequestChannel:
        """Raises Unavailable where there is none in time."""


class IsisLink:
    def __init__(self, link: IsisConnection, limit_bytes: int, limit_messages: int) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self.here = link.here
        self.queue = IsisQueue(limit_bytes, limit_messages, self._cut_off)
        self.me: events.Process | None = None
        """The last identity, also while there is no connection."""
        self._name = ""
        self._wanted = False
        """The program has asked for something: it has a process, over whichever connection."""
        self._open: RequestChannel | None = None
        """Where the process is."""
        self._opening: asyncio.Future[None] | None = None
        self._places: dict[str, Place] = {}
        """By group."""
        self.casts = IsisCasts(link)
        self.giving = Giving(self.tell)
        self._over: str | None = None

    @property
    def quiet(self) -> bool:
        """Another connection would disturb nothing."""
        return not self._wanted

    def named(self, process: events.Process | tuple[int, int, int]) -> Process:
        return self._link.roll.named(events.Process(*process))

    def site_name(self, site: int) -> str:
        return self._link.roll.named(events.Process(site, 0, 0)).site

    def numbered(self, processes: Any) -> tuple[events.Process, ...]:
        return self._link.roll.numbered(processes)

    @property
    def cluster(self) -> str:
        return self._link.cluster

    # -- the connection

    def connect(self, channel: RequestChannel) -> None:
        """There is another connection: the program goes on as another process."""
        if self._wanted and self._over is None:
            future = self._begin(channel)
            future.add_done_callback(_tell_refused)

    def lose(self, reason: str) -> None:
        self._open = self._opening = None
        self._end_all(f"{reason}: {_KILLED}", f"{reason}: it may or may not have been received")

    def close(self, why: str) -> None:
        """The program's block has ended."""
        channel = self._open
        if channel is not None and not channel.closed:
            channel.send(wire.IsisClose(self._link.requests.number()))
        self._over = why
        self._open = None
        self._end_all(why, f"{why}: it may or may not have been received")
        self.queue.end(None)

    def _cut_off(self, why: str) -> None:
        self._loop.call_soon(self._close_cut_off, why)  # not amid the site's turn

    def _close_cut_off(self, why: str) -> None:
        if self._over is None:
            self.close(why)

    def _end_all(self, why: str, unknown: str) -> None:
        places, self._places = self._places, {}
        for place in places.values():
            place.end(Unavailable(f"group {place.group!r}: {why}"))
        self.casts.lose(unknown)

    async def open(self, name: str = "") -> RequestChannel:
        """Where the process is; begins it where there is none yet."""
        if self._open is not None:
            self.here.check()
            return self._open
        self._wanted = True
        self._name = name or self._name
        while True:
            channel = await self._link.isis_connected()
            self._check()
            if self._open is channel:
                return channel
            opening = self._opening or self._begin(channel)
            try:
                await asyncio.shield(opening)
            except Unavailable:
                if self._link.isis_channel is channel:
                    raise

    def _begin(self, channel: RequestChannel) -> "asyncio.Future[None]":
        opening: asyncio.Future[None] = self._loop.create_future()
        opening.add_done_callback(_seen)
        try:
            check_minor(channel, ISIS_MINOR)
        except Rejected as error:
            opening.set_exception(error)
            return opening
        requests = self._link.requests
        asked = requests.add(channel, wire.IsisOpen(requests.number(), self._name))
        asked.add_done_callback(lambda done: self._begun(channel, done, opening))
        if not opening.done():
            self._opening = opening
        return opening

    def _begun(self, channel: RequestChannel, asked: "asyncio.Future[Any]", opening: "asyncio.Future[None]") -> None:
        """The identity itself was taken when it came, before what follows it."""
        self._opening = None
        error = asked.exception()
        if error is not None:
            opening.set_exception(error)
        else:
            opening.set_result(None)

    def _opened(self, opened: wire.IsisOpened) -> None:
        was, self.me = self.me, events.Process(*opened.process)
        self._open = self._link.isis_channel
        if was is not None:
            self.queue.put(Renamed(was, self.me))
        self._link.requests.answer(opened.request)

    def _check(self) -> None:
        """Raises Unavailable where the process is over."""
        if self._over is not None:
            raise Unavailable(self._over)

    # -- casts

    async def cast(
        self,
        kind: int,
        to: str | tuple[events.Process, ...],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        timeout: float | None,
        more: list[bytes] | None = None,
    ) -> Call:
        size = len(payload) + sum(map(len, more)) if more else len(payload)
        if timeout is None:
            channel = self._open
            if channel is None or size > _SMALL_BYTES or not self.casts.has_room(size):
                channel = await self._clear(size)
            else:
                self.here.check()
            casting = self.casts.send(self._me(), channel, kind, to, payload, label, replies, None, more or [], size)
            if casting.future is not None:
                await casting.future
            return casting.call
        until = self._loop.time() + timeout
        try:
            async with asyncio.timeout_at(until):
                channel = await self._clear(size)
                casting = self.casts.send(
                    self._me(), channel, kind, to, payload, label, replies, until, more or [], size
                )
                if casting.future is not None:
                    await casting.future
                return casting.call
        except TimeoutError as error:
            if isinstance(error, ReconveneError):
                raise
            raise OutcomeTimedOut(f"not sent within {timeout:g} s: it may yet be") from None

    async def cast_wide(
        self,
        kind: int,
        to: str | list[Wide],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        timeout: float | None,
    ) -> Call:
        """To processes of several clusters."""
        until = None if timeout is None else self._loop.time() + timeout
        try:
            async with asyncio.timeout_at(until):
                channel = await self._clear(len(payload))
                check_minor(channel, WIDE_ISIS_MINOR)
                casting = self.casts.send_wide(self._me(), channel, kind, to, payload, label, replies, until)
                if casting.future is not None:
                    await casting.future
                return casting.call
        except TimeoutError as error:
            if isinstance(error, ReconveneError):
                raise
            raise OutcomeTimedOut(f"not sent within {timeout:g} s: it may yet be") from None

    def _me(self) -> events.Process:
        assert self.me is not None, "there is a process"
        return self.me

    async def _clear(self, size: int) -> RequestChannel:
        """The process, with room for one more request. Raises Rejected where it is too large for its site, which
        would end the connection."""
        while True:
            channel = await self.open()
            most = channel.welcome.message_bytes
            if size > most:
                raise Rejected(f"{size} bytes: at most {most} are taken")
            if self.casts.has_room(size):
                return channel
            await self.casts.room.wait()
            self.here.check()

    # -- other requests

    async def ask(
        self,
        make: Callable[[int], wire.IsisRequest],
        size: int = 0,
        late: "type[TimedOut | OutcomeTimedOut] | None" = None,
    ) -> Any:
        """`late`: the site answers at once, and this is raised where no answer comes. Otherwise it may take long."""
        channel = await self._clear(size)
        requests = self._link.requests
        asked = requests.add(channel, make(requests.number()), size=size)
        if late is not None:
            return await self._in_time(asked, late)
        self.casts.hold(size)
        asked.add_done_callback(lambda _: self.casts.release(size) if self._open is channel else None)
        return await asked

    async def _in_time(self, asked: "asyncio.Future[Any]", late: "type[TimedOut | OutcomeTimedOut]") -> Any:
        limit = self._link.timeout_s
        try:
            async with asyncio.timeout(limit):
                return await asked
        except TimeoutError as error:
            if isinstance(error, ReconveneError):
                raise
            raise late(f"site {self._link.name} did not answer in {limit:g} s") from None

    def tell(self, make: Callable[[int], wire.IsisRequest]) -> "asyncio.Future[Any] | None":
        """Without waiting for the answer."""
        channel = self._open
        if channel is None or channel.closed:
            return None
        requests = self._link.requests
        asked = requests.add(channel, make(requests.number()))
        asked.add_done_callback(_seen)
        return asked

    async def watch(self, process: events.Process | Wide) -> None:
        if isinstance(process, events.Process):
            check_minor(await self.open(), WATCH_MINOR)
            await self.ask(lambda number: wire.IsisWatch(number, process), late=OutcomeTimedOut)
        else:
            check_minor(await self.open(), WIDE_ISIS_MINOR)
            await self.ask(lambda number: wire.IsisWideWatch(number, process), late=OutcomeTimedOut)

    async def wide_groups(self) -> Any:
        check_minor(await self.open(), WIDE_ISIS_MINOR)
        return await self.ask(lambda number: wire.IsisGroups(number, True), late=TimedOut)

    async def reply(self, cast: Cast, data: bytes | bytearray | memoryview) -> None:
        self.here.check()
        payload = as_bytes(data)
        if is_wide(cast.sender):
            cluster, site, incarnation, _ = wide_numbered([cast.sender], "")[0]
            request = (cluster, site, incarnation, cast.counter)
            await self.ask(lambda number: wire.IsisWideReply(number, request, payload), len(payload))
            return
        (sender,) = self.numbered([cast.sender])
        which = (sender.site, sender.incarnation, cast.counter)
        await self.ask(lambda number: wire.IsisReply(number, which, payload), len(payload))

    # -- groups

    async def join(
        self,
        group: str,
        provider: Provider | None,
        *,
        vector: bool,
        answers: bool,
        last_to_fail: bool,
        wide: bool = False,
    ) -> Place:
        channel = await self.open()
        if wide:
            check_minor(channel, WIDE_ISIS_MINOR)
        while (known := self._places.get(group)) is not None:
            if not known.abandoned:
                raise Rejected(f"group {group!r}: the process is in it, or has asked to join it")
            await asyncio.shield(known.left)
        place = self._places[group] = Place(group, provider)

        def request(number: int) -> wire.IsisJoin:
            place.asked = True
            return wire.IsisJoin(number, group, provider is not None, vector, answers, last_to_fail, wide)

        try:
            try:
                await self.ask(request)
            except ReconveneError:
                place.asked = False  # refused
                raise
            await asyncio.shield(place.begun)
            if place.transfer is not None and provider is not None:
                await asyncio.shield(place.transfer.done)
                await provider.take(place.transfer)
        except BaseException:
            self.abandon(place)
            raise
        if not place.released.done():
            place.released.set_result(None)
        return place

    def abandon(self, place: Place) -> None:
        """Leaves it as soon as possible, and raises nothing."""
        if place.over or place.abandoned:
            return
        place.abandoned = True
        if not place.released.done():
            place.released.set_result(None)
        if place.begun.done():
            self.tell(lambda number: wire.IsisLeave(number, place.group))
        elif not place.asked:
            if self._places.get(place.group) is place:
                del self._places[place.group]
            place.end(None)
        # Else it is left when its first view comes.

    async def leave(self, place: Place) -> None:
        if place.over or place.abandoned:
            return
        await self.ask(lambda number: wire.IsisLeave(number, place.group))
        await asyncio.shield(place.left)

    # -- what comes

    def receive(self, struct: wire.IsisAnswer) -> None:
        match struct:
            case wire.IsisCasts(group=group):
                self.queue.put(struct, None if group is None else self._places.get(group))
            case wire.IsisFailed() | wire.IsisBlocked() | wire.IsisWideTold():
                self.queue.put(struct)
            case wire.IsisWideReceived(group=group):
                self.queue.put(struct, None if group is None else self._places.get(group))
            case wire.IsisWideReplied(counter=counter, sender=where, payload=payload):
                one = wide_named(where)
                failed = Unreachable(one) if struct.away else ProcessFailed(one)
                self.casts.replied(counter, failed if payload is None else Reply(payload, one), wide=True)
            case wire.IsisWideOver(counter=counter):
                self.casts.over(counter, wide=True)
            case wire.IsisSent():
                for request, counter in zip(struct.requests, struct.counters, strict=True):
                    self.casts.sent(request, counter)
            case wire.IsisReplied(counter=counter, sender=sender, payload=payload):
                named = self.named(sender)
                self.casts.replied(counter, ProcessFailed(named) if payload is None else Reply(payload, named))
            case wire.IsisOver(counter=counter):
                self.casts.over(counter)
            case wire.IsisViewed():
                self._viewed(struct)
            case wire.IsisLeft(group=group):
                place = self._places.pop(group, None)
                if place is not None:
                    place.end(None)
                    self.queue.put(struct, place)
            case wire.IsisOpened():
                self._opened(struct)
            case wire.IsisKilled(process=process):
                self._killed(events.Process(*process))
            case wire.IsisWanted() | wire.IsisTaken() | wire.IsisChunk() | wire.IsisStated():
                place = self._places.get(struct.group)
                if place is not None:
                    self.giving.take(place, struct)

    def _viewed(self, viewed: wire.IsisViewed) -> None:
        place = self._places.get(viewed.group)
        if place is None:
            return
        if not place.begun.done():
            if viewed.newcomer is not None and events.Process(*viewed.newcomer) == self.me:
                place.transfer = Transfer()
            place.first = viewed
            place.begun.set_result(None)
            if place.abandoned:
                self.tell(lambda number: wire.IsisLeave(number, viewed.group))
        if not place.abandoned:
            self.queue.put(viewed, place)

    def _killed(self, process: events.Process) -> None:
        was, self.me = self.me, process
        assert was is not None
        places, self._places = self._places, {}
        for place in places.values():
            place.end(Unavailable(f"group {place.group!r}: {_KILLED}"))
        self.casts.kill(_KILLED)
        self.queue.put(Renamed(was, process))


def _seen(future: "asyncio.Future[Any]") -> None:
    """Perhaps nobody waits for it."""
    if not future.cancelled():
        future.exception()


def _tell_refused(opening: "asyncio.Future[None]") -> None:
    error = None if opening.cancelled() else opening.exception()
    if isinstance(error, Rejected):
        _log.warning("no process groups at this site: %s", error)
