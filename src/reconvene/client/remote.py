"""The link to a site over a socket: fails over, reconnects, joins its groups again."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from reconvene.client.addresses import Address
from reconvene.client.channel import Channel, open_channel
from reconvene.client.here import Here
from reconvene.client.inbox import Inboxes
from reconvene.client.isis_link import IsisLink
from reconvene.client.log_link import LogLink
from reconvene.client.remote_groups import RemoteGroups
from reconvene.client.requests import Requests, failure_of
from reconvene.client.returning import Returning, pauses
from reconvene.client.roll import Roll
from reconvene.client.time_limits import in_time
from reconvene.errors import OutcomeTimedOut, ReconveneError, Rejected, TimedOut, Unavailable
from reconvene.runtime.access.key_files import ClientKey
from reconvene.wire.client_isis import IsisAnswer
from reconvene.wire.client_log import Appended, Colored, Fetched, Ordered
from reconvene.wire.clients import (
    Arrived,
    Block,
    Blocked,
    Done,
    Failed,
    Health,
    Joined,
    Left,
    Status,
    Stop,
    ToClient,
    Told,
    Viewed,
    WideArrived,
    WideViewed,
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
        self.loop = asyncio.get_running_loop()
        self.requests = Requests()
        self.channel: Channel | None = None
        self._news: asyncio.Future[None] | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._trouble = ""
        """Why there is no connection."""
        self._closing = False
        self.retries = True
        self.groups = RemoteGroups(self)
        self.log = LogLink(self)
        self.isis = IsisLink(self, inboxes.limit_bytes, inboxes.limit_messages)
        self._returning = Returning(self, self._open_first) if returns and len(addresses) > 1 else None

    # -- connections

    async def start(self, wait_s: float) -> None:
        """The first connection. Raises Rejected where a site refuses, Unavailable where none answers in time."""
        give_up_at = self.loop.time() + wait_s
        waits = pauses(*_BACK_OFF_S)
        while True:
            try:
                await self._connect()
                return
            except Unavailable as error:
                pause = next(waits)
                if self.loop.time() + pause > give_up_at:
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
        self.groups.connect(channel)
        self.log.connect(welcome)
        self.isis.connect(channel)
        self._notify()
        if self._returning is not None and channel.address != self._addresses[0]:
            self._returning.begin()

    @property
    def quiet(self) -> bool:
        """The connection could be replaced by another one without any effect on the program."""
        return self.groups.quiet and self.requests.only_waiting and self.log.quiet and self.isis.quiet

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
        self.groups.lose()
        self.isis.lose(reason)
        if self._returning is not None:
            self._returning.end()
        self.requests.lose_all(reason)
        self.log.lose()
        self._notify()
        if not self._closing:
            _log.warning("connection lost, trying again: %s", reason)
            self._reconnecting = self.loop.create_task(self._reconnect())

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
        self.isis.close(_CLOSED)
        channel = self.channel
        if channel is not None:
            channel.close(_CLOSED)
        self.groups.close()
        self.log.close(_CLOSED)
        self._notify()
        if channel is not None:
            await channel.wait_closed()
        if self._returning is not None:
            await self._returning.close()

    # -- waiting for a connection, a membership, room

    def _notify(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)

    async def wait_for_news(self, until: float | None) -> None:
        if self._closing:
            raise Unavailable(_CLOSED)
        if self._news is None:
            self._news = self.loop.create_future()
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
        until = None if patient else self.loop.time() + self.timeout_s
        while self.channel is None:
            await self.wait_for_news(until)
        return self.channel

    @property
    def isis_channel(self) -> Channel | None:
        return self.channel

    async def isis_connected(self) -> Channel:
        return await self.connected()

    # -- what arrives

    def _receive(self, structs: list[ToClient]) -> None:
        for struct in structs:
            match struct:
                case Arrived() | Viewed() | Blocked() | Left() | Joined() | WideArrived() | WideViewed():
                    self.groups.receive(struct)
                case Done(requests=numbers):
                    for number in numbers:
                        self.requests.answer(number)
                case Appended():
                    self.log.appends.answer(struct)
                case Ordered() | Fetched():
                    self.requests.answer(struct.request, struct)
                case Colored():
                    self.log.colored(struct)
                case Told(request=request, document=document):
                    self.requests.answer(request, document)
                case _ if isinstance(struct, IsisAnswer):
                    self.isis.receive(struct)
                case Failed():
                    self._fail(struct.request, failure_of(struct))
                case _:
                    pass  # of the handshake, which is over
        if self._news is not None:
            self._notify()
        if self._returning is not None:
            self._returning.consider()

    def _fail(self, number: int, error: ReconveneError) -> None:
        if not self.log.appends.fail(number, error) and not self.isis.casts.fail(number, error):
            failed = self.requests.fail(number, error)
            if failed is not None and failed.place is not None:
                self.groups.answered(failed.place)

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
        return await self.answer(self.requests.add(channel, make(self.requests.number())), late)

    async def answer(self, asked: "asyncio.Future[Any]", late: type[TimedOut | OutcomeTimedOut]) -> object:
        async def answered() -> object:
            return await asked

        return await in_time(
            self.timeout_s, answered(), f"site {self.name} did not answer in {self.timeout_s:g} s", late
        )
