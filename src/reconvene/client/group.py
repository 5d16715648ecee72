"""A named group of processes, as one of its members has it."""

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Self, TypeAlias

from reconvene.client.arguments import check_payloads, check_timeout
from reconvene.client.events import Batch, Blocked, Event, Lost, Message, Process, Rejoined, View, ViewId, WideView
from reconvene.client.inbox import Again, Waiting
from reconvene.client.link import Link
from reconvene.client.membership import Membership
from reconvene.client.time_limits import in_time
from reconvene.core.effects import ConfKind
from reconvene.core.groups.events import Arrived, ViewChanged
from reconvene.core.groups.events import Blocked as CoreBlocked
from reconvene.errors import InvalidArgument, Rejected, TimedOut, Unavailable
from reconvene.ids import Service
from reconvene.runtime.domain.events import WideArrived, WideViewed

__all__ = ["SLICE", "Data", "Group", "as_bytes", "slices"]

SLICE = 2_048
"""Messages that `send_many` hands over at once; between two slices others have their turn."""

Data: TypeAlias = bytes | bytearray | memoryview

_SERVICES: dict[str | int, Service] = {
    **{service.label: service for service in Service},
    **{service: service for service in Service},
}
_BYTES = {bytes}
_SCOPES = ("wide", "cluster")
_ARRIVALS = (Arrived, WideArrived)


class Group:
    """From `Site.join`. Read it from one task; send from as many as you like. The end of an `async with` block leaves
    the group."""

    def __init__(self, link: Link, place: Membership) -> None:
        self._link = link
        self._place = place
        self._inbox = place.inbox
        self._ready: deque[Event] = deque()
        self._batch: Batch | None = None
        self._at = 0
        """How many messages of `_batch` were read."""
        self._view: View | None = None
        self._known: tuple[Process, ...] = ()
        """The members of the last wide view that had any."""
        self._blocked = False
        self._me = place.me

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.leave()
        except Unavailable:
            self._link.groups.abandon(self._place)  # the connection is lost, or the site was closed
            self._inbox.end(None)

    @property
    def name(self) -> str:
        return self._place.group

    @property
    def me(self) -> Process:
        """This process, as other members see it."""
        found = self._link.roll.named(self._me)
        return found._replace(site=f"{self._link.cluster}/{found.site}") if self._place.wide else found

    @property
    def view(self) -> View:
        """The last view that was read here; after `join`, the first one. Raises Unavailable before the first view:
        a group with `primary=True` that is joined outside of the primary component has none."""
        if self._view is None:
            raise Unavailable(f"group {self.name!r}: not in the primary component yet")
        return self._view

    @property
    def blocked(self) -> bool:
        """Outside of the primary component, in a group with `primary=True`."""
        return self._blocked

    # -- sending

    async def send(
        self,
        data: Data,
        service: Service | str = Service.AGREED,
        to: Iterable[Process | str] | None = None,
        *,
        scope: str | None = None,
    ) -> None:
        """Hands one message to the site, and waits only if the site has no room or is far away.

        To every member of the group, or to those in `to`. In a wide group, scope="cluster" keeps it in this cluster.
        When it returns the site has the message; it was delivered when it comes back here. Raises Rejected (too
        large), Unavailable (blocked, left, no site), OutcomeUnknown (the connection broke before the answer).
        """
        if type(data) is not bytes:
            data = as_bytes(data)
        numbered = None if to is None else self._link.roll.numbered(to)
        stays = self._stays(scope)
        pending = self._link.groups.send(self._place, _service(service), [data], numbered, stays)
        if pending is not None:
            await pending

    async def send_many(
        self,
        payloads: Iterable[Data],
        service: Service | str = Service.AGREED,
        to: Iterable[Process | str] | None = None,
        *,
        scope: str | None = None,
    ) -> int:
        """The same for many, in their order. Waits for room as it goes. Returns how many were sent.

        `payloads` may be endless or lazy: no more of it is taken than there is room for. Where it fails, those
        before the failure may have been sent: the error's `taken` says how many are known to be.
        """
        numbered = None if to is None else self._link.roll.numbered(to)
        stays = self._stays(scope)
        return await self._link.groups.send_slices(self._place, _service(service), slices(payloads), numbered, stays)

    def _stays(self, scope: str | None) -> bool:
        """Whether the message stays in the cluster."""
        if scope is not None and scope not in _SCOPES:
            raise InvalidArgument(f"scope {scope!r}: one of {', '.join(_SCOPES)} expected")
        if scope is not None and not self._place.wide:
            raise Rejected(f"group {self.name!r}: a scope is for groups joined with wide=True")
        return scope == "cluster"

    async def leave(self) -> None:
        """The others get a view without this process; here the iteration ends where that is delivered."""
        if not self._place.leaving and not self._inbox.ended:
            self._place.leaving = True
            await self._link.groups.leave(self._place)

    # -- reading

    def __aiter__(self) -> AsyncIterator[Event]:
        """Messages and views, in order. Ends after `leave`; raises Unavailable where the membership ended for
        another reason, such as a reader too slow for its limit."""
        return self

    async def __anext__(self) -> Event:
        event = await self._next(None)
        if event is None:
            raise StopAsyncIteration
        return event

    async def events(self, timeout: float | None = None) -> AsyncIterator[Event]:
        """As `async for event in group`; with `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            try:
                event = await self._next(timeout)
            except TimedOut:
                return
            if event is None:
                return
            yield event

    async def next(self, timeout: float | None = None) -> Event:
        """The next event. Raises TimeoutError where nothing comes in `timeout` s, Unavailable where nothing will.
        May be cancelled: nothing is lost."""
        check_timeout(timeout)
        event = await self._next(timeout)
        if event is None:
            raise Unavailable(f"group {self.name!r}: this process left it")
        return event

    async def batches(self, timeout: float | None = None) -> AsyncIterator[Batch | View | Blocked | Rejoined]:
        """The same events with messages in batches, as they arrive: faster, since no object is made for each. With
        `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        inbox = self._inbox
        while True:
            if self._ready or self._batch is not None:
                for early in self._take_early():
                    yield early
            while not inbox.empty:
                event = inbox.take()
                yield self._batched(event) if isinstance(event, _ARRIVALS) else self._absorb(event)
            try:
                if not await self._wait(timeout):
                    return
            except TimedOut:
                return

    async def _next(self, timeout: float | None) -> Event | None:
        while True:
            batch = self._batch
            if batch is not None:
                at = self._at
                if at < len(batch.payloads):
                    self._at = at + 1
                    return Message(batch.payloads[at], batch.sender, batch.service, batch.first + at, batch.view)
                self._batch = None
            if self._ready:
                return self._ready.popleft()
            if self._inbox.empty:
                if not await self._wait(timeout):
                    return None
            else:
                self._link.here.check_loop()
            event = self._inbox.take()
            if not isinstance(event, _ARRIVALS):
                return self._absorb(event)
            self._batch = self._batched(event)
            self._at = 0

    async def _wait(self, timeout: float | None) -> bool:
        self._link.here.check_loop()
        if not self._place.receive:
            raise RuntimeError(f"group {self.name!r} was joined with receive=False: there is nothing to read")
        check_timeout(timeout)
        if timeout is None:
            return await self._inbox.wait()
        return await in_time(timeout, self._inbox.wait(), f"group {self.name!r}: nothing came in {timeout:g} s")

    async def wait_and_drain(self, timeout: float | None = None) -> list[Batch | View | Blocked | Rejoined]:
        """All that has arrived and was not read, at least one event; none at the end. Raises TimedOut."""
        drained = list(self._take_early())
        if not drained and self._inbox.empty:
            await self._wait(timeout)
        while not self._inbox.empty:
            event = self._inbox.take()
            drained.append(self._batched(event) if isinstance(event, _ARRIVALS) else self._absorb(event))
        return drained

    def _take_early(self) -> Iterator[Batch | View | Blocked | Rejoined]:
        """What reading message by message, or joining, left over."""
        batch, at, self._batch = self._batch, self._at, None
        if batch is not None and at < len(batch.payloads):
            yield Batch(
                batch.payloads[at:], batch.sender, batch.service, batch.first + at, batch.view, batch.timestamp,
                batch.index + at,
            )  # fmt: skip
        while self._ready:
            event = self._ready.popleft()
            assert not isinstance(event, Message), "messages wait in batches"
            yield event

    async def begin(self) -> None:
        """Waits for the membership's first event, which `view` and the reader get."""
        first = await self._first()
        assert not isinstance(first, _ARRIVALS), "a membership begins with its view"
        event = self._absorb(first)
        if self._place.receive:
            self._ready.append(event)
            return
        while not self._inbox.empty:
            self._listen(self._inbox.take())
        self._inbox.listener = self._listen

    async def _first(self) -> Waiting:
        while True:
            try:
                waits = await self._inbox.wait()
            except Unavailable as error:
                # What ends before it begins was refused, as where others of the group have the filter.
                raise Rejected(str(error)) from None
            if not waits:
                raise Unavailable(f"group {self.name!r}: the site was closed before it was joined")
            first = self._inbox.take()
            if not isinstance(first, Again):  # a connection lost meanwhile is nothing that the application saw
                return first

    def _listen(self, event: Waiting) -> None:
        """Without receiving: only what the group is like now counts."""
        if not isinstance(event, _ARRIVALS):
            self._absorb(event)

    # -- from what the site says to what the application sees

    def _batched(self, arrived: Arrived | WideArrived) -> Batch:
        if isinstance(arrived, WideArrived):
            cluster, site, incarnation, number = arrived.sender
            sender = Process(f"{cluster}/{site}", incarnation, number)
            view = _wide_id(arrived.conf)
            return Batch([arrived.payload], sender, arrived.service, arrived.counter, view, arrived.place, 0)
        return Batch(
            arrived.payloads, self._link.roll.named(arrived.sender), arrived.service, arrived.first, arrived.view,
            arrived.timestamp, arrived.index,
        )  # fmt: skip

    def _absorb(self, event: ViewChanged | CoreBlocked | Again | WideViewed) -> View | Blocked | Rejoined:
        if isinstance(event, ViewChanged):
            return self._absorb_view(event)
        if isinstance(event, Again):
            named = self._link.roll.named
            was, self._me = self._me, event.me
            return Rejoined(named(event.me), named(was), event.site)
        if isinstance(event, WideViewed):
            return self._absorb_wide(event)
        self._blocked = True
        return Blocked()

    def _absorb_wide(self, event: WideViewed) -> WideView:
        members = tuple(Process(f"{cluster}/{site}", *rest) for cluster, site, *rest in event.members)
        before = () if self._view is None else self._view.members
        joined: tuple[Process, ...] = ()
        left: tuple[Process, ...] = ()
        if members:
            joined = tuple(member for member in members if member not in before)
            left = tuple(member for member in before if member not in members)
        lost = tuple(
            Lost(where, tuple(member for member in self._known if member.site == where), conf)
            for where, conf in ((f"{cluster}/{site}", conf) for cluster, site, conf in event.lost)
        )
        view = WideView(
            "regular" if event.regular else "transitional", _wide_id(event.conf), members, False, joined, left,
            event.conf, event.domains, event.unreachable, lost,
        )  # fmt: skip
        self._view = view
        self._known = members or self._known
        return view

    def _absorb_view(self, changed: ViewChanged) -> View:
        members = tuple(map(self._link.roll.named, changed.members))
        if changed.process is not None:
            self._me = changed.process
        if changed.kind is ConfKind.HIDDEN:
            return View(changed.kind.value, changed.view, members, changed.primary, (), (), changed.conf)
        before = () if self._view is None else self._view.members
        known, now = set(before), set(members)
        self._view = View(
            changed.kind.value,
            changed.view,
            members,
            changed.primary,
            tuple(member for member in members if member not in known),
            tuple(member for member in before if member not in now),
            changed.conf,
        )
        self._blocked = False
        return self._view


def _wide_id(conf: str) -> ViewId:
    """Of a wide configuration; one that a part of a cluster is in alone has no number."""
    return ViewId(int(conf) if conf.isdecimal() else 0, 0)


def _service(service: Service | str) -> Service:
    if not isinstance(service, int | str):
        raise TypeError(f"service: one of {', '.join(known.label for known in Service)} expected, not {service!r}")
    found = _SERVICES.get(service)
    if found is None:
        raise InvalidArgument(f"service {service!r}: one of {', '.join(known.label for known in Service)} expected")
    return found


def as_bytes(data: object) -> bytes:
    """A copy of what may change later. Text and numbers are refused: how to encode them is the application's."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a message is bytes, not {type(data).__name__}")


def slices(payloads: Iterable[Data]) -> Iterator[list[bytes]]:
    """Of at most `SLICE` messages each, all of them bytes."""
    check_payloads(payloads)
    source = iter(payloads)
    while piece := list(islice(source, SLICE)):
        if set(map(type, piece)) != _BYTES:
            piece = [as_bytes(data) for data in piece]
        yield piece  # type: ignore[misc]
