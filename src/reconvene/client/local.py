"""The link to a site inside the program."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from reconvene.client.here import Here
from reconvene.client.inbox import Inboxes
from reconvene.client.isis_link import IsisLink
from reconvene.client.local_channel import LocalChannel
from reconvene.client.local_isis import LocalIsis
from reconvene.client.log_link import LogLink
from reconvene.client.membership import Membership
from reconvene.client.requests import Requests
from reconvene.client.roll import Roll
from reconvene.client.site import Site
from reconvene.client.source_link import source_dial
from reconvene.core.groups.events import Arrived, GroupEvent, Left, Process
from reconvene.errors import ReconveneError, Rejected
from reconvene.ids import Service
from reconvene.runtime.config.file import load
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import audit
from reconvene.runtime.domain.events import WideArrived, WideEnded, WideGroupEvent
from reconvene.runtime.node.main import running
from reconvene.runtime.site.interface import Engine

__all__ = ["LocalLink", "open"]

_CLOSED = "the site was closed"


@asynccontextmanager
async def open(config: Config | str | Path) -> AsyncIterator[Site]:  # noqa: A001
    """Runs a site in this program's event loop, from its configuration or the file that holds it.

    The site leaves its cluster when the block ends. Raises Malformed for a bad file, Unavailable where an address
    or the directory is in use.
    """
    if not isinstance(config, Config | str | Path):
        raise TypeError(f"config: a Config expected, or the path of its file, not {type(config).__name__}")
    if not isinstance(config, Config):
        config = load(config)
    async with running(config, source_dial(config) if config.log.follow else None) as engine:
        link = LocalLink(engine, config)
        try:
            yield Site(link)
        finally:
            link.close()


class LocalLink:
    """A Receiver to its engine."""

    is_connected = True

    def __init__(self, engine: Engine, config: Config) -> None:
        self.inboxes = Inboxes(config.limits.inbox_bytes, config.limits.inbox_messages)
        self.roll = Roll(engine.names)
        self.cluster = config.cluster
        self.name = config.name
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._members: dict[int, Membership] = {}
        self._access = engine.open(self)
        self.here = Here()
        self.requests = Requests()
        self.timeout_s = None
        self.retries = False
        self.channel: LocalChannel | None = None
        self.log: LogLink | None = None
        if engine.log is not None:
            log = self.log = LogLink(self)
            self.channel = LocalChannel(engine.log, config, self.requests, log)
            log.connect(self.channel.welcome)
        self.isis: IsisLink | None = None
        self.isis_channel: LocalIsis | None = None
        if engine.isis is not None:
            isis = self.isis = IsisLink(self, config.limits.inbox_bytes, config.limits.inbox_messages)
            self.isis_channel = LocalIsis(engine.isis, config, self.requests, isis)
        self._delivered: asyncio.Future[None] | None = None
        """Done when something is delivered to this process."""

    @property
    def groups(self) -> Self:
        """This link itself: nothing is between the program and its site."""
        return self

    async def connected(self, patient: bool = False) -> LocalChannel:
        self.here.check()
        assert self.channel is not None, "only its log asks for it"
        return self.channel

    async def isis_connected(self) -> LocalIsis:
        self.here.check()
        assert self.isis_channel is not None, "only its ISIS asks for it"
        return self.isis_channel

    def events(self, batch: list[GroupEvent]) -> None:
        members = self._members
        for event in batch:
            member = members.get(event.membership)
            if member is None:
                continue
            if type(event) is Arrived:
                if member.receive:
                    member.inbox.put(event)
            elif isinstance(event, Left):
                del members[event.membership]
                member.over(event.reason)
            else:
                member.inbox.put(event)
        self._note_delivery()

    def wide_events(self, batch: list[WideGroupEvent]) -> None:
        for event in batch:
            member = self._members.get(event.membership)
            if member is None:
                continue
            if isinstance(event, WideEnded):
                del self._members[event.membership]
                member.over(event.reason)
            elif member.receive or not isinstance(event, WideArrived):
                member.inbox.put(event)
        self._note_delivery()

    def _note_delivery(self) -> None:
        if self._delivered is not None:
            self._delivered.set_result(None)
            self._delivered = None

    async def _next_delivery(self) -> None:
        if self._delivered is None:
            self._delivered = self._loop.create_future()
        await asyncio.shield(self._delivered)

    async def join(self, member: Membership) -> None:
        self.here.check()
        member.membership = self._access.join(member.group, member.primary, member.wide)
        member.me = self._access.process
        self._members[member.membership] = member

    async def leave(self, member: Membership) -> None:
        self.here.check()
        self._access.leave(member.membership)

    def abandon(self, member: Membership) -> None:
        membership, member.membership = member.membership, 0
        if self._members.pop(membership, None) is not None:
            # Not now: this may be the middle of the site's turn.
            self._loop.call_soon(self._leave_quietly, membership)

    def _leave_quietly(self, membership: int) -> None:
        try:
            self._access.leave(membership)
        except ReconveneError:
            return  # it is over already

    def send(
        self,
        member: Membership,
        service: Service,
        payloads: list[bytes],
        to: tuple[Process, ...] | None,
        cluster: bool = False,
    ) -> Awaitable[None] | None:
        self.here.check()
        if member.leaving or not member.membership:
            member.check()
        taken = self._access.send(member.membership, service, payloads, to, cluster)
        return None if taken == len(payloads) else self._send_rest(member, service, payloads, to, taken, cluster)

    async def _send_rest(
        self,
        member: Membership,
        service: Service,
        payloads: list[bytes],
        to: tuple[Process, ...] | None,
        taken: int,
        cluster: bool,
    ) -> None:
        while taken < len(payloads):
            try:
                room = self._access.room_of(member.membership)
                if room.free() <= 0:
                    await room.wait()
                else:
                    await self._next_delivery()  # the membership has not begun
                self.here.check()
                member.check()
                taken += self._access.send(member.membership, service, payloads[taken:], to, cluster)
            except ReconveneError as error:
                error.taken += taken
                raise

    async def send_slices(
        self,
        member: Membership,
        service: Service,
        slices: Iterable[list[bytes]],
        to: tuple[Process, ...] | None,
        cluster: bool = False,
    ) -> int:
        total = 0
        for piece in slices:
            try:
                pending = self.send(member, service, piece, to, cluster)
                # The site has its turn between slices, though there may be room for more.
                await (asyncio.sleep(0) if pending is None else pending)
            except ReconveneError as error:
                error.taken += total
                raise
            total += len(piece)
        return total

    async def status(self) -> dict[str, object]:
        self.here.check()
        return self._engine.status()

    async def health(self) -> str:
        self.here.check()
        return self._engine.health()

    async def block(self, incoming: Iterable[str], outgoing: Iterable[str]) -> None:
        self.here.check()
        incoming, outgoing = list(incoming), list(outgoing)
        self._engine.block(self.roll.ordinals(incoming), self.roll.ordinals(outgoing))
        audit("faults injected", "this program", incoming=incoming, outgoing=outgoing)

    async def stop(self) -> None:
        raise Rejected("this site is inside the program: it ends with the block that opened it")

    def close(self) -> None:
        self.here.end(_CLOSED)
        if self.isis is not None:
            self.isis.close(_CLOSED)
        if self.log is not None and self.channel is not None:
            self.requests.lose_all(_CLOSED)
            self.log.close(_CLOSED)
            self.channel.close()
        if self._delivered is not None:
            self._delivered.set_result(None)
        self._access.close()
        for member in self._members.values():
            member.inbox.end(None)
        self._members.clear()
