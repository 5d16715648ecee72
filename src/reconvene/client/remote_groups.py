"""The groups of a client over a socket: memberships, which are joined again at each connection, and what is sent."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable
from typing import Any, Protocol

from reconvene.client.channel import Channel
from reconvene.client.here import Here
from reconvene.client.inbox import Again
from reconvene.client.membership import Membership
from reconvene.client.requests import Requests
from reconvene.client.sending import cut, failure, first_answered
from reconvene.core.effects import ConfKind
from reconvene.core.groups import events
from reconvene.core.groups.events import ViewId
from reconvene.errors import OutcomeTimedOut, ReconveneError, Rejected, TimedOut, Unavailable
from reconvene.ids import Service
from reconvene.runtime.domain import events as wide
from reconvene.wire.clients import (
    WIDE_MINOR,
    Arrived,
    Blocked,
    Join,
    Joined,
    Leave,
    Left,
    Send,
    Viewed,
    WideArrived,
    WideViewed,
)

__all__ = ["RemoteGroups"]


class Connection(Protocol):
    """What the groups need of the link."""

    here: Here
    requests: Requests
    loop: asyncio.AbstractEventLoop
    timeout_s: float
    name: str
    channel: Channel | None

    async def connected(self, patient: bool = False) -> Channel: ...

    async def wait_for_news(self, until: float | None) -> None: ...

    async def answer(self, asked: "asyncio.Future[Any]", late: type[TimedOut | OutcomeTimedOut]) -> object: ...


class RemoteGroups:
    def __init__(self, link: Connection) -> None:
        self._link = link
        self._members: dict[Membership, None] = {}
        """In the order of their joins, in which they are joined again."""
        self._numbered: dict[int, Membership] = {}
        self._given_up: set[str] = set()
        """Groups whose join was given up before the site answered it: they are left first."""

    @property
    def quiet(self) -> bool:
        """This client is in no group, and has no request about one under way."""
        return not self._members and not self._given_up

    # -- connections

    def connect(self, channel: Channel) -> None:
        for member in self._members:
            self._ask_to_join(channel, member)

    def lose(self) -> None:
        self._numbered.clear()
        self._given_up.clear()
        for member in list(self._members):
            member.membership = 0
            member.begun = False
            if member.leaving:
                self._members.pop(member, None)
                member.inbox.end(None)

    def close(self) -> None:
        for member in self._members:
            member.inbox.end(None)
        self._members.clear()

    # -- what arrives

    def receive(self, struct: Arrived | Viewed | Blocked | Left | Joined | WideArrived | WideViewed) -> None:
        match struct:
            case WideArrived():
                member = self._numbered.get(struct.membership)
                if member is not None:
                    member.inbox.put(_wide_arrived(struct))
            case WideViewed(membership, regular, conf, domains, unreachable, members, lost):
                viewed = wide.WideViewed(
                    membership, regular, conf, tuple(domains), tuple(unreachable), tuple(members), tuple(lost)
                )
                self._begin(membership, viewed)
            case Arrived():
                self._arrived(struct)
            case Viewed(membership=membership):
                self._begin(membership, _view_changed(struct))
            case Blocked(membership=membership):
                self._begin(membership, events.Blocked(membership))
            case Left(membership=membership, reason=reason):
                member = self._numbered.pop(membership, None)
                if member is not None:
                    self._members.pop(member, None)
                    member.over(reason)
            case Joined():
                self._joined(struct)

    def answered(self, member: Membership) -> None:
        """A request of this membership has failed: its group may be joined again."""
        self._given_up.discard(member.group)

    def _arrived(self, arrived: Arrived) -> None:
        member = self._numbered.get(arrived.membership)
        if member is not None:
            member.inbox.put(
                events.Arrived(
                    arrived.membership, events.Process(*arrived.sender), Service(arrived.service), arrived.payloads,
                    ViewId(*arrived.view), arrived.conf, arrived.first, arrived.timestamp, arrived.index,
                )
            )  # fmt: skip

    def _begin(self, membership: int, event: events.ViewChanged | events.Blocked | wide.WideViewed) -> None:
        member = self._numbered.get(membership)
        if member is not None:
            member.begun = True
            member.inbox.put(event)

    def _joined(self, joined: Joined) -> None:
        request = self._link.requests.take(joined.request)
        channel = self._link.channel
        if request is None or request.place is None or channel is None:
            return
        member = request.place
        if member not in self._members:  # it was given up meanwhile
            self._given_up.discard(member.group)
            channel.send(Leave(self._link.requests.number(), joined.membership))
            return
        member.membership = joined.membership
        self._numbered[joined.membership] = member
        again = member.me != events.Process(0, 0, 0)
        member.me = events.Process(*channel.welcome.process)
        if again:
            member.inbox.put(Again(member.me, self._link.name))
        if not request.future.done():
            request.future.set_result(None)

    # -- joining and leaving

    async def join(self, member: Membership) -> None:
        until = self._link.loop.time() + self._link.timeout_s
        channel = await self._link.connected()
        while member.group in self._given_up:
            await self._link.wait_for_news(until)
            channel = await self._link.connected()
        check_wide(channel, member)
        self._members[member] = None
        await self._link.answer(self._ask_to_join(channel, member), TimedOut)

    def _ask_to_join(self, channel: Channel, member: Membership) -> "asyncio.Future[None]":
        struct = Join(self._link.requests.number(), member.group, member.primary, member.receive, member.wide)
        future = self._link.requests.add(channel, struct, member)
        future.add_done_callback(lambda done: self._refused(member, done))
        return future

    def _refused(self, member: Membership, asked: "asyncio.Future[None]") -> None:
        """A join that fails, the first or a later one, ends the membership; a lost connection is tried again."""
        error = None if asked.cancelled() else asked.exception()
        if error is not None and self._link.channel is not None and member in self._members:
            self._members.pop(member, None)
            member.inbox.end(Unavailable(f"group {member.group!r}: {error}"))

    async def leave(self, member: Membership) -> None:
        self._link.here.check()
        channel = self._link.channel
        if channel is None or not member.membership:
            self.abandon(member)
            member.inbox.end(None)
            return
        await self._link.answer(
            self._link.requests.add(channel, Leave(self._link.requests.number(), member.membership)), TimedOut
        )

    def abandon(self, member: Membership) -> None:
        if member in self._members and not member.membership and self._link.channel is not None:
            self._given_up.add(member.group)
        self._members.pop(member, None)
        membership, member.membership, member.begun = member.membership, 0, False
        if self._link.channel is not None and self._numbered.pop(membership, None) is not None:
            self._link.channel.send(Leave(self._link.requests.number(), membership))

    # -- sending

    def send(
        self,
        member: Membership,
        service: Service,
        payloads: list[bytes],
        to: tuple[events.Process, ...] | None,
        cluster: bool = False,
    ) -> Awaitable[None] | None:
        return self._send(member, service, payloads, to, cluster)

    async def _send(
        self,
        member: Membership,
        service: Service,
        payloads: list[bytes],
        to: tuple[events.Process, ...] | None,
        cluster: bool,
    ) -> None:
        await (await self._submit(member, service, payloads, to, cluster))

    async def _submit(
        self,
        member: Membership,
        service: Service,
        payloads: list[bytes],
        to: tuple[events.Process, ...] | None,
        cluster: bool,
    ) -> "asyncio.Future[None]":
        """Sends as soon as the window allows it; the answer is in the future."""
        channel = await self._clear_to_send(member)
        longest = max(map(len, payloads))
        if longest > channel.welcome.message_bytes:
            raise Rejected(f"message of {longest} bytes: at most {channel.welcome.message_bytes} are taken")
        struct = Send(
            self._link.requests.number(), member.membership, int(service), payloads,
            None if to is None else list(to), cluster,
        )  # fmt: skip
        return self._link.requests.add(channel, struct, member, sum(map(len, payloads)))

    async def send_slices(
        self,
        member: Membership,
        service: Service,
        slices: Iterable[list[bytes]],
        to: tuple[events.Process, ...] | None,
        cluster: bool = False,
    ) -> int:
        under_way: deque[tuple[asyncio.Future[None], int]] = deque()
        refused: ReconveneError | None = None
        taken = 0
        try:
            for piece in cut(slices):
                try:
                    under_way.append((await self._submit(member, service, piece, to, cluster), len(piece)))
                except ReconveneError as error:
                    refused = error  # what is under way before it may still land
                    break
                while under_way[0][0].done():
                    taken += first_answered(under_way)
                    if not under_way:
                        break
            while under_way:
                await asyncio.wait([under_way[0][0]])
                taken += first_answered(under_way)
            if refused is not None:
                raise refused
        except ReconveneError as error:
            raise await failure(error, [future for future, _ in under_way], taken) from None
        except BaseException:
            for future, _ in under_way:
                future.cancel()
            raise
        return taken

    async def _clear_to_send(self, member: Membership) -> Channel:
        """A connection that has a membership and room. Room is waited for as long as it takes, the rest is not."""
        self._link.here.check()
        until: float | None = None
        while True:
            member.check()
            channel = self._link.channel
            if channel is not None and member.begun:
                if self._link.requests.sends.free() > 0:
                    return channel
                until = None
                await self._link.requests.sends.wait()
                self._link.here.check()
            else:
                if until is None:
                    until = self._link.loop.time() + self._link.timeout_s
                await self._link.wait_for_news(until)


def check_wide(channel: Channel, member: Membership) -> None:
    """Raises Rejected where the site is too old to know wide groups."""
    if member.wide and channel.welcome.minor < WIDE_MINOR:
        raise Rejected(f"{channel.address}: the site knows no wide groups; expected a newer one")


def _wide_arrived(arrived: WideArrived) -> wide.WideArrived:
    return wide.WideArrived(
        arrived.membership, arrived.sender, Service(arrived.service), arrived.payload, arrived.conf, arrived.counter,
        arrived.place,
    )  # fmt: skip


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
