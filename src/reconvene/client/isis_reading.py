"""From what a site says of a process's groups to what its program reads, one event after the other."""

from collections import deque
from collections.abc import Callable, Iterator

from reconvene.client.events import Blocked, Process
from reconvene.client.isis_events import (
    Action,
    Cast,
    GroupLeft,
    GroupView,
    IsisEvent,
    Killed,
    ProcessFailed,
    Reachable,
    Unreachable,
    WatchRefused,
)
from reconvene.client.isis_link import IsisLink
from reconvene.client.isis_place import Place
from reconvene.client.isis_queue import Item, Renamed
from reconvene.client.isis_wide import wide_named
from reconvene.core.groups import events
from reconvene.wire.client_isis import (
    CAST_KINDS,
    GBCAST,
    IsisBlocked,
    IsisCasts,
    IsisFailed,
    IsisLeft,
    IsisViewed,
    IsisWideReceived,
    IsisWideTold,
    Reached,
)

__all__ = ["Reading"]

_TOLD: dict[int, type[ProcessFailed | Unreachable | Reachable | WatchRefused]] = {
    Reached.FAILED: ProcessFailed,
    Reached.AWAY: Unreachable,
    Reached.BACK: Reachable,
    Reached.UNWATCHED: WatchRefused,
}


class Reading:
    def __init__(self, link: IsisLink) -> None:
        self._link = link
        self._ready: Iterator[IsisEvent] = iter(())
        self.views: dict[Place, GroupView] = {}
        """By membership: the last view that was read."""
        self._read = 0
        """So many items of the queue were read, and the program asked for more."""
        self._later: deque[tuple[int, Callable[[], None]]] = deque()
        """What is to be called when so many items were read."""

    def after(self, what: Callable[[], None]) -> None:
        """Calls it when the program has read all that has come by now, and asks for more: now, or later. Where it
        reads no more, it is not called."""
        if self._link.queue.put_in <= self._read:
            what()
        else:
            self._later.append((self._link.queue.put_in, what))

    async def next(self) -> IsisEvent | None:
        """None at the end."""
        while True:
            event = next(self._ready, None)
            if event is not None:
                return event
            self._read = self._link.queue.taken_out
            while self._later and self._later[0][0] <= self._read:
                self._later.popleft()[1]()
            if not await self._link.queue.wait():
                return None
            await self._take()

    async def some(self) -> list[IsisEvent]:
        """All that waits and may be read at once, at least one; none at the end. What the program does with them
        comes before a view for which its state is to be taken down."""
        found: list[IsisEvent] = []
        first = await self.next()
        if first is not None:
            found.append(first)
            found += self._ready
            queue = self._link.queue
            while not queue.empty and not self._needs_program(*queue.first()):
                await self._take()
                found += self._ready
        return found

    def _needs_program(self, item: Item, place: Place | None) -> bool:
        return (
            isinstance(item, IsisViewed)
            and place is not None
            and (item.newcomer is not None or not place.released.done())
        )

    async def _take(self) -> None:
        """The first item becomes events. It stays where this is cancelled, or the program's `give` fails."""
        queue = self._link.queue
        item, place = queue.first()
        if isinstance(item, IsisViewed):
            assert place is not None
            if place.transfer is not None and not place.released.done():
                await _until(place)
                return
            if not place.abandoned:
                self._ready = iter((self._view(item, place),))
            queue.drop_first()
            return
        queue.drop_first()
        self._ready = self._events(item, place)

    def _events(self, item: Item, place: Place | None) -> Iterator[IsisEvent]:
        named = self._link.named
        match item:
            case IsisCasts():
                if place is None or not (place.abandoned and place.over):
                    yield from self._casts(item, named(item.sender))
            case IsisWideReceived():
                if place is None or not (place.abandoned and place.over):
                    yield Cast(
                        item.payload, wide_named(item.sender), CAST_KINDS[item.kind], item.group, 0, item.counter,
                        item.replies, self._link, item.clock,
                    )  # fmt: skip
            case IsisWideTold():
                yield _TOLD[item.what](wide_named(item.process))
            case IsisFailed():
                yield ProcessFailed(named(item.process))
            case IsisBlocked():
                yield Blocked()
            case IsisLeft():
                if place is not None:
                    self.views.pop(place, None)
                if place is None or not place.abandoned:
                    yield GroupLeft(item.group, item.deleted)
            case Renamed(was, me):
                self.views.clear()
                yield Killed(named(was), named(me))

    def _casts(self, casts: IsisCasts, sender: Process) -> Iterator[IsisEvent]:
        group, view, counter = casts.group, casts.view, casts.first
        if casts.kind == GBCAST:
            assert group is not None, "a GBCAST goes to a group"
            for data in casts.payloads:
                yield Action(data, sender, group, view, counter)
                counter += 1
            return
        kind, replies, link = CAST_KINDS[casts.kind], casts.replies, self._link
        for data in casts.payloads:
            yield Cast(data, sender, kind, group, view, counter, replies, link, casts.clock)
            counter += 1

    def view_of(self, place: Place) -> GroupView | None:
        """The last view that was read; before any was, the first one."""
        found = self.views.get(place)
        return self._made(place.first, place) if found is None and place.first is not None else found

    def _view(self, viewed: IsisViewed, place: Place) -> GroupView:
        link = self._link
        members = tuple(events.Process(*member) for member in viewed.members)
        if viewed.newcomer is not None and place.provider is not None and not place.over:
            newcomer = events.Process(*viewed.newcomer)
            if newcomer != link.me:
                place.kept[newcomer] = (viewed.view, place.provider.pieces())
                link.giving.give_wanted(place, newcomer)
        now = set(members)
        for gone in [process for process in place.kept if process not in now]:
            del place.kept[gone]
        view = self.views[place] = self._made(viewed, place)
        place.members = members
        return view

    def _made(self, viewed: IsisViewed, place: Place) -> GroupView:
        link = self._link
        named = link.named
        members = tuple(events.Process(*member) for member in viewed.members)
        before, now = set(place.members), set(members)
        return GroupView(
            viewed.group,
            viewed.view,
            tuple(map(named, members)),
            viewed.properties,
            tuple(named(process) for process in members if process not in before),
            tuple(named(process) for process in place.members if process not in now),
            tuple(map(named, viewed.lost)),
            tuple(link.site_name(site) for site in viewed.last_to_fail),
            viewed.primary,
        )


async def _until(place: Place) -> None:
    """The program has the group's state, or is not in the group any more."""
    released = place.released.get_loop().create_future()

    def release(_: object) -> None:
        if not released.done():
            released.set_result(None)

    place.released.add_done_callback(release)
    try:
        await released
    finally:
        place.released.remove_done_callback(release)
