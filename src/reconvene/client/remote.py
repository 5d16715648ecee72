"""The link to a site over a socket: fails over, reconnects, joins its groups again."""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from reconvene.client.addresses import Address
from reconvene.client.channel import Channel, open_channel
from reconvene.client.flights import cut, failure, landed
from reconvene.client.here import Here
from reconvene.client.inbox import Again, Inboxes
from reconvene.client.log_link import LogLink
from reconvene.client.membership import Membership
from reconvene.client.requests import Requests, failure_of
from reconvene.client.returning import Returning, pauses
from reconvene.client.roll import Roll
from reconvene.client.time_limits import in_time
from reconvene.core.effects import ConfKind
from reconvene.core.groups import events
from reconvene.core.groups.events import ViewId
from reconvene.errors import OutcomeTimedOut, ReconveneError, Rejected, TimedOut, Unavailable
from reconvene.ids import Service
from reconvene.runtime.access.key_files import ClientKey
from reconvene.wire.client_log import Appended, Colored, Fetched, Ordered
from reconvene.wire.clients import (
    Arrived,
    Block,
    Blocked,
    Done,
    Failed,
    Health,
    Join,
    Joined,
    Leave,
    Left,
    Send,
    Status,
    Stop,
    ToClient,
    Told,
    Viewed,
)

__all__ = ["RemoteLink"]

_log = logging.getLogger("reconvene.client")

_BACK_OFF_S = (0.05, 2.0)
"""Between rounds over all addresses: the first pause and the longest, each more or less by half."""


_CLOSED = "the connection was closed here"


class RemoteLink:
    def __init__(
        self,
        addresses: tuple[Address, ...],
        key: ClientKey | None,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        inboxes: Inboxes,
        returns: bool = False,
    ) -> None:
        self.inboxes = inboxes
        self.here = Here()
        self.roll = Roll(())
        self.cluster = ""
        self.name = ""
        self._addresses = addresses
        self._next = 0
        """The address that is tried next."""
        self._key = key
        self._tls = tls
        self.timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self.requests = Requests()
        self.channel: Channel | None = None
        self._places: dict[Membership, None] = {}
        """In the order of their joins, in which they are joined again."""
        self._numbered: dict[int, Membership] = {}
        self._given_up: set[str] = set()
        """Groups whose join was given up before the site answered it: they are left first."""
        self._news: asyncio.Future[None] | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._trouble = ""
        """Why there is no connection."""
        self._closing = False
        self.retries = True
        self.log = LogLink(self)
        self._returning = Returning(self, self._open_first) if returns and len(addresses) > 1 else None

    # -- connections

    async def start(self, wait_s: float) -> None:
        """The first connection. Raises Rejected where a site refuses, Unavailable where none answers in time."""
        give_up_at = self._loop.time() + wait_s
        waits = pauses(*_BACK_OFF_S)
        while True:
            try:
                await self._connect()
                return
            except Unavailable as error:
                pause = next(waits)
                if self._loop.time() + pause > give_up_at:
                    if wait_s and not isinstance(error, TimedOut):
                        raise TimedOut(f"{error}, for {wait_s:g} s") from None
                    raise
                await asyncio.sleep(pause)

    async def _connect(self) -> None:
        """Tries every address once."""
        errors: list[ReconveneError] = []
        for _ in self._addresses:
            address = self._addresses[self._next]
            self._next = (self._next + 1) % len(self._addresses)
            try:
                channel = await self._open(address)
            except ReconveneError as error:
                errors.append(error)
            else:
                self._use(channel)
                return
        why = "; ".join(map(str, errors))
        if any(isinstance(error, Rejected) for error in errors):
            raise Rejected(why)
        raise TimedOut(why) if all(isinstance(error, TimedOut) for error in errors) else Unavailable(why)

    async def _open(self, address: Address) -> Channel:
        opening = open_channel(address, self._key, self._tls, self._receive, self._lost)
        channel = await in_time(self.timeout_s, opening, f"{address}: no answer in {self.timeout_s:g} s")
        self._check_cluster(channel)
        return channel

    async def _open_first(self) -> Channel:
        return await self._open(self._addresses[0])

    def _check_cluster(self, channel: Channel) -> None:
        welcome = channel.welcome
        # Numbers never change: where the list of sites changes, one site may know more of them than another.
        others = any(mine != theirs for mine, theirs in zip(self.roll.names, welcome.names, strict=False))
        if self.cluster and (welcome.cluster != self.cluster or others):
            channel.close()
            raise Rejected(f"{channel.address}: a site of cluster {welcome.cluster!r}, or of other sites than before")

    def _use(self, channel: Channel) -> None:
        welcome = channel.welcome
        if channel.closed:  # it was lost as soon as it was there
            self.channel = channel
            self._lost(channel, f"{channel.address}: the site ended the connection")
            return
        if not self.cluster or len(welcome.names) > len(self.roll.names):
            self.roll = Roll(tuple(welcome.names))
            self.cluster = welcome.cluster
        self.name = welcome.site
        self.channel = channel
        self.requests.connect(welcome)
        for place in self._places:
            self._ask_to_join(channel, place)
        self.log.connect()
        self._tell_news()
        if self._returning is not None and channel.address != self._addresses[0]:
            self._returning.begin()

    @property
    def quiet(self) -> bool:
        """Nobody would notice if the connection were another one."""
        return not self._places and not self._given_up and self.requests.only_waiting and self.log.quiet

    @property
    def seen(self) -> int:
        return self.log.seen

    def move(self, channel: Channel) -> None:
        before, self.channel = self.channel, None
        self.requests.lose_all("this client moves to another site")
        self._next = 1 % len(self._addresses)
        self._use(channel)
        _log.info("back at the first site, %s", channel.address)
        if before is not None:
            before.close()

    def _lost(self, channel: Channel, reason: str) -> None:
        if channel is not self.channel:
            return
        self.channel = None
        self._trouble = reason
        self._numbered.clear()
        self._given_up.clear()
        for place in list(self._places):
            place.membership = 0
            place.begun = False
            if place.leaving:
                self._places.pop(place, None)
                place.inbox.end(None)
        if self._returning is not None:
            self._returning.end()
        self.requests.lose_all(reason)
        self.log.lose()
        self._tell_news()
        if not self._closing:
            _log.warning("connection lost, trying again: %s", reason)
            self._reconnecting = self._loop.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        for pause in pauses(*_BACK_OFF_S):
            try:
                await self._connect()
            except ReconveneError as error:
                self._trouble = str(error)
                _log.info("no connection yet: %s", error)
                await asyncio.sleep(pause)
            else:
                return

    async def close(self) -> None:
        self._closing = True
        self.here.end(_CLOSED)
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        channel = self.channel
        if channel is not None:
            channel.close(_CLOSED)
        for place in self._places:
            place.inbox.end(None)
        self._places.clear()
        self.log.close(_CLOSED)
        self._tell_news()
        if channel is not None:
            await channel.wait_closed()
        if self._returning is not None:
            await self._returning.close()

    # -- waiting for a connection, a membership, room

    def _tell_news(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)

    async def wait_for_news(self, until: float | None) -> None:
        if self._closing:
            raise Unavailable(_CLOSED)
        if self._news is None:
            self._news = self._loop.create_future()
        try:
            async with asyncio.timeout_at(until):
                await asyncio.shield(self._news)
        except TimeoutError:
            raise TimedOut(f"no connection in {self.timeout_s:g} s: {self._trouble or 'no answer'}") from None

    @property
    def is_connected(self) -> bool:
        return self.channel is not None

    async def connected(self, patient: bool = False) -> Channel:
        self.here.check()
        until = None if patient else self._loop.time() + self.timeout_s
        while self.channel is None:
            await self.wait_for_news(until)
        return self.channel

    async def _clear_to_send(self, place: Membership) -> Channel:
        """A connection that has a membership and room. Room is waited for as long as it takes, the rest is not."""
        self.here.check()
        until: float | None = None
        while True:
            place.check()
            channel = self.channel
            if channel is not None and place.begun:
                if self.requests.sends.free() > 0:
                    return channel
                until = None
                await self.requests.sends.wait()
                self.here.check()
            else:
                if until is None:
                    until = self._loop.time() + self.timeout_s
                await self.wait_for_news(until)

    # -- what arrives

    def _receive(self, structs: list[ToClient]) -> None:
        for struct in structs:
            match struct:
                case Arrived():
                    self._arrived(struct)
                case Done(requests=numbers):
                    for number in numbers:
                        self.requests.answer(number)
                case Viewed(membership=membership):
                    self._begin(membership, _view_changed(struct))
                case Blocked(membership=membership):
                    self._begin(membership, events.Blocked(membership))
                case Left(membership=membership, reason=reason):
                    place = self._numbered.pop(membership, None)
                    if place is not None:
                        self._places.pop(place, None)
                        place.over(reason)
                case Joined():
                    self._joined(struct)
                case Appended() | Ordered() | Fetched():
                    self.requests.answer(struct.request, struct)
                case Colored():
                    self.log.colored(struct)
                case Told(request=request, document=document):
                    self.requests.answer(request, document)
                case Failed():
                    failed = self.requests.fail(struct.request, failure_of(struct))
                    if failed is not None and failed.place is not None:
                        self._given_up.discard(failed.place.group)
                case _:
                    pass  # of the handshake, which is over
        if self._news is not None:
            self._tell_news()
        if self._returning is not None:
            self._returning.consider()

    def _arrived(self, arrived: Arrived) -> None:
        place = self._numbered.get(arrived.membership)
        if place is not None:
            place.inbox.put(
                events.Arrived(
                    arrived.membership, events.Process(*arrived.sender), Service(arrived.service), arrived.payloads,
                    ViewId(*arrived.view), arrived.conf, arrived.first, arrived.timestamp, arrived.index,
                )
            )  # fmt: skip

    def _begin(self, membership: int, event: events.ViewChanged | events.Blocked) -> None:
        place = self._numbered.get(membership)
        if place is not None:
            place.begun = True
            place.inbox.put(event)

    def _joined(self, joined: Joined) -> None:
        request = self.requests.take(joined.request)
        channel = self.channel
        if request is None or request.place is None or channel is None:
            return
        place = request.place
        if place not in self._places:  # it was given up meanwhile
            self._given_up.discard(place.group)
            channel.send(Leave(self.requests.number(), joined.membership))
            return
        place.membership = joined.membership
        self._numbered[joined.membership] = place
        again = place.me != events.Process(0, 0, 0)
        place.me = events.Process(*channel.welcome.process)
        if again:
            place.inbox.put(Again(place.me, self.name))
        if not request.future.done():
            request.future.set_result(None)

    # -- groups

    async def join(self, place: Membership) -> None:
        until = self._loop.time() + self.timeout_s
        channel = await self.connected()
        while place.group in self._given_up:
            await self.wait_for_news(until)
            channel = await self.connected()
        self._places[place] = None
        await self._answer(self._ask_to_join(channel, place), TimedOut)

    def _ask_to_join(self, channel: Channel, place: Membership) -> "asyncio.Future[None]":
        struct = Join(self.requests.number(), place.group, place.primary, place.receive)
        future = self.requests.add(channel, struct, place)
        future.add_done_callback(lambda done: self._refused(place, done))
        return future

    def _refused(self, place: Membership, asked: "asyncio.Future[None]") -> None:
        """A join that fails, the first or a later one, ends the place; a lost connection is tried again."""
        error = None if asked.cancelled() else asked.exception()
        if error is not None and self.channel is not None and place in self._places:
            self._places.pop(place, None)
            place.inbox.end(Unavailable(f"group {place.group!r}: {error}"))

    async def leave(self, place: Membership) -> None:
        self.here.check()
        channel = self.channel
        if channel is None or not place.membership:
            self.abandon(place)
            place.inbox.end(None)
            return
        await self._answer(self.requests.add(channel, Leave(self.requests.number(), place.membership)), TimedOut)

    def abandon(self, place: Membership) -> None:
        if place in self._places and not place.membership and self.channel is not None:
            self._given_up.add(place.group)
        self._places.pop(place, None)
        membership, place.membership, place.begun = place.membership, 0, False
        if self.channel is not None and self._numbered.pop(membership, None) is not None:
            self.channel.send(Leave(self.requests.number(), membership))

    def send(
        self, place: Membership, service: Service, payloads: list[bytes], to: tuple[events.Process, ...] | None
    ) -> Awaitable[None] | None:
        return self._send(place, service, payloads, to)

    async def _send(
        self, place: Membership, service: Service, payloads: list[bytes], to: tuple[events.Process, ...] | None
    ) -> None:
        await (await self._fly(place, service, payloads, to))

    async def _fly(
        self, place: Membership, service: Service, payloads: list[bytes], to: tuple[events.Process, ...] | None
    ) -> "asyncio.Future[None]":
        """Sends as soon as the window allows it; the answer is in the future."""
        channel = await self._clear_to_send(place)
        longest = max(map(len, payloads))
        if longest > channel.welcome.message_bytes:
            raise Rejected(f"message of {longest} bytes: at most {channel.welcome.message_bytes} are taken")
        struct = Send(
            self.requests.number(), place.membership, int(service), payloads, None if to is None else list(to)
        )
        return self.requests.add(channel, struct, place, sum(map(len, payloads)))

    async def send_slices(
        self,
        place: Membership,
        service: Service,
        slices: Iterable[list[bytes]],
        to: tuple[events.Process, ...] | None,
    ) -> int:
        flying: deque[tuple[asyncio.Future[None], int]] = deque()
        refused: ReconveneError | None = None
        taken = 0
        try:
            for piece in cut(slices):
                try:
                    flying.append((await self._fly(place, service, piece, to), len(piece)))
                except ReconveneError as error:
                    refused = error  # what is under way before it may still land
                    break
                while flying[0][0].done():
                    taken += landed(flying)
                    if not flying:
                        break
            while flying:
                await asyncio.wait([flying[0][0]])
                taken += landed(flying)
            if refused is not None:
                raise refused
        except ReconveneError as error:
            raise await failure(error, [future for future, _ in flying], taken) from None
        except BaseException:
            for future, _ in flying:
                future.cancel()
            raise
        return taken

    # -- the site

    async def status(self) -> object:
        return await self._ask(Status, TimedOut)

    async def health(self) -> object:
        return await self._ask(Health, TimedOut)

    async def block(self, incoming: Iterable[str], outgoing: Iterable[str]) -> None:
        sites = list(incoming), list(outgoing)
        for named in sites:
            self.roll.ordinals(named)
        await self._ask(lambda number: Block(number, *sites), OutcomeTimedOut)

    async def stop(self) -> None:
        await self._ask(Stop, OutcomeTimedOut)

    async def _ask(
        self, make: Callable[[int], Status | Health | Block | Stop], late: type[TimedOut | OutcomeTimedOut]
    ) -> object:
        channel = await self.connected()
        return await self._answer(self.requests.add(channel, make(self.requests.number())), late)

    async def _answer(self, asked: "asyncio.Future[Any]", late: type[TimedOut | OutcomeTimedOut]) -> object:
        async def answer() -> object:
            return await asked

        return await in_time(
            self.timeout_s, answer(), f"site {self.name} did not answer in {self.timeout_s:g} s", late
        )


def _view_changed(viewed: Viewed) -> events.ViewChanged:
    return events.ViewChanged(
        viewed.membership,
        ConfKind(viewed.kind),
        ViewId(*viewed.view),
        viewed.conf,
        tuple(events.Process(*member) for member in viewed.members),
        viewed.primary,
        None if viewed.process is None else events.Process(*viewed.process),
    )
