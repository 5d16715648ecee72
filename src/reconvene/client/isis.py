"""Process groups in the manner of ISIS, as a program has them: one process, and one queue of what it receives."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from reconvene.client.arguments import check_count, check_text, check_timeout
from reconvene.client.events import Process
from reconvene.client.group import Data, as_bytes, slices
from reconvene.client.isis_call import Call
from reconvene.client.isis_events import GroupView, IsisEvent
from reconvene.client.isis_link import IsisLink
from reconvene.client.isis_place import Place
from reconvene.client.isis_reading import Reading
from reconvene.client.isis_state import Pair, StateProvider, VectorPair, VectorProvider, as_provider, as_vector
from reconvene.client.isis_wide import Wide, is_wide, wide_named, wide_numbered
from reconvene.client.status import IsisGroupStatus, isis_groups
from reconvene.client.time_limits import in_time
from reconvene.errors import InvalidArgument, ReconveneError, TimedOut, Unavailable
from reconvene.wire import client_isis as wire

__all__ = ["Isis", "IsisGroup"]

_NAME_BYTES = 255
_COMPONENTS = 16
_COMPONENT_BYTES = 64
_NUMBERS = 1 << 62
_MOST = 4_096
_PACK_BYTES = 128 << 10
"""About how much goes together. Of 100 B each, twice as many messages a second as with packs of 32 KiB: what a pack
costs is divided by more of them."""


class Isis:
    """From `Site.isis`. Cast from as many tasks as you like; read events from one.

    The process begins with the first request. What it receives waits until it is read, up to a limit; beyond that it
    is cut off."""

    def __init__(self, link: IsisLink) -> None:
        self._link = link
        self._reading = Reading(link)

    async def open(self, name: str = "") -> Process:
        """Begins the process, if it has not begun. Returns its identity. `name` is for traces."""
        check_text(name, "name", _NAME_BYTES, 0)
        await self._link.open(name)
        return self.me

    @property
    def me(self) -> Process:
        """This process, as others see it; another one after `Killed`. Raises Unavailable before it has begun."""
        if self._link.me is None:
            raise Unavailable("this process has not begun: it does with its first request, or with open()")
        return self._link.named(self._link.me)

    @property
    def wide_me(self) -> Process:
        """This process as other clusters know it, written as "berlin/a:1:7". Raises Unavailable before it has
        begun."""
        me = self.me
        return wide_named((self._link.cluster, *me))

    def site_number(self, process: Process | str) -> int:
        """The place of a process's site in the list of the cluster's sites, from 0: the same at all sites."""
        return self._link.numbered([process])[0].site

    # -- groups

    async def join(
        self,
        group: str,
        *,
        state: StateProvider | Pair | None = None,
        vector: VectorProvider | VectorPair | None = None,
        answers: bool = True,
        last_to_fail: bool = False,
        wide: bool = False,
        timeout: float | None = None,
    ) -> "IsisGroup":
        """Joins a group, and waits for the first view with this process in it, and for the group's state. `async with
        await isis.join("bank") as bank:` leaves it at the end of the block.

        state: gives this member's state to newcomers, and takes the group's: an object with `give()` and
        `take(chunks)`, or a pair of functions. What is received meanwhile is held back.
        vector: the same, but `take` gets a contribution of every member.
        answers: False for one that only listens: where all are asked to reply, its site does, with nothing. Where one
        or some replies are asked for, they come from others.
        last_to_fail: views are on stable storage before they are seen. Where all members have failed, this waits for
        those that failed last.
        wide: processes of other clusters can cast to this one by the group's name, with `wide=True` (see domains.md).
        Views are those of this cluster all the same.
        timeout: s. Raises TimeoutError where it is not joined by then; then it is not joined.
        Also raises Rejected for a group that this process is in, and for a wide one that does not leave the cluster;
        Unavailable at a limit, and where the process is killed meanwhile. Outside of the primary component it waits.
        """
        _check_group(group)
        if state is not None and vector is not None:
            raise InvalidArgument("state and vector: one of them expected, not both")
        provider = as_provider(state) or as_vector(vector, self._link.named)
        joining = self._link.join(
            group,
            provider,
            vector=vector is not None,
            answers=bool(answers),
            last_to_fail=bool(last_to_fail),
            wide=bool(wide),
        )
        place = await in_time(timeout, joining, f"group {group!r}: not joined within {timeout} s")
        return IsisGroup(self, self._link, place, self._reading)

    async def groups(self, *, wide: bool = False) -> list[IsisGroupStatus]:
        """All groups that have members, with their members and properties. `wide`: those that were joined with
        `wide=True`, with their members in all connected clusters, as far as the site knows; they have no views."""
        if wide:
            return isis_groups(await self._link.wide_groups())
        return isis_groups(await self._link.ask(wire.IsisGroups, late=TimedOut))

    async def set_properties(self, group: str, properties: Mapping[str, Data]) -> None:
        """Sets properties of a group, which come with its views. This process need not be in it. Returns when that is
        announced. Raises Rejected where there is no such group."""
        _check_group(group)
        values = {
            check_text(name, "a property's name", _NAME_BYTES): as_bytes(properties[name]) for name in properties
        }
        size = sum(map(len, values.values()))
        await self._link.ask(lambda number: wire.IsisSet(number, group, values), size)

    async def delete(self, group: str) -> None:
        """All members leave the group, at the same place of the order; each reads GroupLeft. This process need not be
        one of them. Returns when that is announced. Raises Rejected where there is no such group."""
        _check_group(group)
        await self._link.ask(lambda number: wire.IsisDelete(number, group))

    # -- casting

    async def cbcast(
        self,
        data: Data,
        to: str | Iterable[Process | str],
        *,
        label: str | Mapping[str, int] | None = None,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> Call:
        """Sends one message, which every destination receives after all that precedes it.

        to: a group, or processes. Those of other clusters are named with their cluster: "paris/b:1:7".
        wide: to the members of the group in all connected clusters that have joined it with `wide=True`.
        label: what it is ordered after: of None, everything that this process has sent and received without a label;
        of a text, everything with the same one; UNORDERED: nothing. Or numbers by component: see docs/isis.md.
        replies: how many replies are asked for, ALL for one of each destination. A destination that fails counts as
        one, and so does one whose cluster is out of reach.
        timeout: s, for all of it: until it is sent, and until the replies have come.

        Returns when the site has taken it: at once, unless the group is just gaining a member, or as much is under
        way as may be. Raises Rejected (no such group, nobody to send to, too large), Unavailable (not in the primary
        component, all destinations out of reach, or killed before it was sent), OutcomeUnknown (the connection broke,
        or the time is over).
        """
        return await self._cast(0, data, to, _cbcast_label(label), replies, wide, timeout)

    async def cbcast_many(
        self,
        payloads: Iterable[Data],
        to: str | Iterable[Process | str],
        *,
        label: str | Mapping[str, int] | None = None,
    ) -> int:
        """The same for many, within the cluster, in their order, without replies: many of them go together, which
        costs far less. Waits for room as it goes. Returns how many were sent.

        `payloads` may be endless or lazy: no more of it is taken than there is room for. Where it fails, those before
        the failure may have been sent: the error's `taken` says how many are known to be."""
        asked = _cbcast_label(label)
        numbered = _check_group(to) if isinstance(to, str) else self._link.numbered(to)
        sent = 0
        for first, *more in packs(payloads):
            try:
                await self._link.cast(0, numbered, first, asked, 0, None, more)
            except ReconveneError as error:
                error.taken += sent
                raise
            sent += 1 + len(more)
            await asyncio.sleep(0)  # the site has its turn, though there may be room for more
        return sent

    async def abcast(
        self,
        data: Data,
        to: str | Iterable[Process | str],
        *,
        label: str = "",
        causal: bool = False,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> Call:
        """As `cbcast`, but all destinations receive the ABCASTs of one label in one order. `causal`: also after all
        that precedes it; not to other clusters. Those to other clusters and those within the cluster have no common
        order."""
        _check_label(label)
        kind = wire.CAUSAL_ABCAST if causal else 1
        return await self._cast(kind, data, to, label, replies, wide, timeout)

    async def gbcast(self, data: Data, to: str, *, wide: bool = False, timeout: float | None = None) -> Call:
        """Sends one message to a group, which all members receive at the same place among all other casts and views:
        as an Action. `wide` is refused: a GBCAST stays in its cluster."""
        _check_group(to)
        return await self._cast(wire.GBCAST, data, to, None, 0, wide, timeout)

    async def _cast(
        self,
        kind: int,
        data: Data,
        to: str | Iterable[Process | str],
        label: str | Mapping[str, int] | None,
        replies: int,
        wide: bool,
        timeout: float | None,
    ) -> Call:
        payload = data if type(data) is bytes else as_bytes(data)
        if replies:
            _check_replies(replies)
        if timeout is not None:
            check_timeout(timeout)
        if wide or not isinstance(to, str):
            to, far = self._addressed(to, wide=wide)
            if far is not None:
                return await self._link.cast_wide(kind, far, payload, label, replies, timeout)
        numbered = _check_group(to) if isinstance(to, str) else self._link.numbered(to)
        return await self._link.cast(kind, numbered, payload, label, replies, timeout)

    def _addressed(
        self, to: str | Iterable[Process | str], *, wide: bool
    ) -> tuple[str | Iterable[Process | str], str | list[Wide] | None]:
        """The destinations, and the same by cluster where the cast may leave this one."""
        if isinstance(to, str):
            _check_group(to)
            return to, to if wide else None
        if isinstance(to, Process) or not isinstance(to, Iterable):
            return to, None  # it is refused where the processes are numbered
        listed = list(to)
        if not any(map(is_wide, listed)):
            return listed, None
        far, own = wide_numbered(listed, self._link.cluster), self._link.cluster
        if own and all(cluster == own for cluster, *_ in far):
            return [Process(site, incarnation, number) for _, site, incarnation, number in far], None
        return listed, far

    async def flush(self, timeout: float | None = None) -> None:
        """Returns when all that this process has cast, and all that it has received, has reached all its
        destinations. Raises OutcomeTimedOut after `timeout` s, Unavailable where the process is blocked, or killed
        meanwhile."""
        await in_time(timeout, self._link.ask(wire.IsisFlush), f"not flushed within {timeout} s")

    async def watch(self, process: Process | str) -> None:
        """Has this process read a ProcessFailed when the other one is over: when it or its site has failed, or when
        it was closed. At once, where it is over by now. Nothing of it is read after that. Returns when the site has
        taken it. A watch ends with this process, also where it is killed. Watching it twice changes nothing.

        Of a process of another cluster ("paris/b:1:7"), it reads what that cluster says; Unreachable while that is
        out of reach, Reachable when it is back; WatchRefused where that cluster has no such site, or no room.

        Raises Rejected where the site can't watch processes, Unavailable where this process is blocked, or watches
        1,024 others; or where the other cluster is out of reach."""
        near, far = self._addressed([process], wide=False)
        if far is None:
            await self._link.watch(*self._link.numbered(near))
        else:
            assert isinstance(far, list), "a process was named"
            await self._link.watch(far[0])

    # -- reading

    def __aiter__(self) -> AsyncIterator[IsisEvent]:
        """What this process receives, in order. Ends with the block of its site; raises Unavailable where the process
        was cut off."""
        return self

    async def __anext__(self) -> IsisEvent:
        event = await self._next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def events(self, timeout: float | None = None) -> AsyncIterator[IsisEvent]:
        """As `async for event in isis`; with `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            try:
                event = await in_time(timeout, self._next(), "")
            except TimedOut:
                return
            if event is None:
                return
            yield event

    async def next(self, timeout: float | None = None) -> IsisEvent:
        """The next event. Raises TimeoutError where nothing comes in `timeout` s, Unavailable where nothing will.
        May be cancelled: nothing is lost."""
        event = await in_time(timeout, self._next(), f"nothing came in {timeout} s")
        if event is None:
            raise Unavailable("the site was closed")
        return event

    async def _next(self) -> IsisEvent | None:
        self._link.here.check_loop()
        return await self._reading.next()

    def after_read(self, what: Callable[[], None]) -> None:
        """Calls `what` when the program has read all that has come by now, and asks for the next event. Where the
        replies of a call are in, this is when the program has also read what their senders cast before them."""
        self._reading.after(what)

    async def wait_and_drain(self, timeout: float | None = None) -> list[IsisEvent]:
        """All that may be read at once, at least one event; none at the end. Raises TimedOut."""
        self._link.here.check_loop()
        return await in_time(timeout, self._reading.some(), f"nothing came in {timeout} s")


class IsisGroup:
    """From `Isis.join`. The end of an `async with` block leaves the group."""

    def __init__(self, isis: Isis, link: IsisLink, place: Place, reading: Reading) -> None:
        self._isis = isis
        self._link = link
        self._place = place
        self._reading = reading

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.leave()
        except Unavailable:
            self._link.abandon(self._place)  # killed, or the site was closed

    @property
    def name(self) -> str:
        return self._place.group

    @property
    def view(self) -> GroupView:
        """The last view that was read; after `join`, the first one. Raises Unavailable once this process is not in
        the group any more."""
        self._place.check()
        view = self._reading.view_of(self._place)
        assert view is not None, "it was joined"
        return view

    async def cbcast(
        self,
        data: Data,
        *,
        label: str | Mapping[str, int] | None = None,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> Call:
        """`Isis.cbcast` to the members of this group, this process included."""
        self._place.check()
        return await self._isis.cbcast(data, self.name, label=label, replies=replies, wide=wide, timeout=timeout)

    async def cbcast_many(self, payloads: Iterable[Data], *, label: str | Mapping[str, int] | None = None) -> int:
        """`Isis.cbcast_many` to the members of this group."""
        self._place.check()
        return await self._isis.cbcast_many(payloads, self.name, label=label)

    async def abcast(
        self,
        data: Data,
        *,
        label: str = "",
        causal: bool = False,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> Call:
        """`Isis.abcast` to the members of this group."""
        self._place.check()
        return await self._isis.abcast(
            data, self.name, label=label, causal=causal, replies=replies, wide=wide, timeout=timeout
        )

    async def gbcast(self, data: Data, *, timeout: float | None = None) -> Call:
        """`Isis.gbcast` to the members of this group."""
        self._place.check()
        return await self._isis.gbcast(data, self.name, timeout=timeout)

    async def rank(self, order: Iterable[Process | str], timeout: float | None = None) -> None:
        """Gives the members other ranks, the first the lowest: the next view shows it. Raises Rejected where this is
        no permutation of the members. One that is none when its turn comes is ignored by all."""
        self._place.check()
        ranked = list(self._link.numbered(order))
        request = self._link.ask(lambda number: wire.IsisRank(number, self.name, [*ranked]))
        await in_time(timeout, request, f"group {self.name!r}: not announced within {timeout} s")

    async def set(self, **properties: Data) -> None:
        """Sets properties of the group, which come with its views."""
        self._place.check()
        await self._isis.set_properties(self.name, properties)

    async def delete(self) -> None:
        """All members leave the group, at the same place of the order; each reads GroupLeft."""
        self._place.check()
        await self._isis.delete(self.name)

    async def leave(self, timeout: float | None = None) -> None:
        """Returns when this process has left: all that it cast to the group was received before. The program still
        reads what came before that; GroupLeft follows it."""
        why = f"group {self.name!r}: not left within {timeout} s"
        await in_time(timeout, self._link.leave(self._place), why)


def packs(payloads: Iterable[Data]) -> Iterator[list[bytes]]:
    """What goes together, lazily."""
    for piece in slices(payloads):
        pack: list[bytes] = []
        size = 0
        for payload in piece:
            if pack and size + len(payload) > _PACK_BYTES:
                yield pack
                pack, size = [], 0
            pack.append(payload)
            size += len(payload)
        yield pack


def _check_group(group: object) -> str:
    if not isinstance(group, str):
        raise TypeError(f"a group's name is text, not {type(group).__name__}")
    return check_text(group, "a group's name", _NAME_BYTES)


def _check_replies(replies: object) -> None:
    if replies != -1:
        check_count(replies, "replies", 0, _MOST + 1)


def _check_label(label: object) -> str:
    if not isinstance(label, str):
        raise TypeError(f"label: text expected, not {type(label).__name__}")
    if len(label.encode(errors="surrogatepass")) > _NAME_BYTES:
        raise InvalidArgument(f"label: at most {_NAME_BYTES} bytes expected")
    return label


def _cbcast_label(label: object) -> str | dict[str, int] | None:
    if label is None:
        return None
    if isinstance(label, str):
        return _check_label(label)
    if not isinstance(label, Mapping):
        raise TypeError(f"label: text or numbers by component expected, not {type(label).__name__}")
    if len(label) > _COMPONENTS:
        raise InvalidArgument(f"label: at most {_COMPONENTS} components expected, not {len(label)}")
    for component, number in label.items():
        check_text(component, "a label's component", _COMPONENT_BYTES, 0)
        check_count(number, f"label component {component!r}", 0, _NUMBERS)
    return dict(label)
