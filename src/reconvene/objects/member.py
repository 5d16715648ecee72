"""A member of a group in the manner of ISIS: what all objects on `site.isis` have in common.

A process has one queue for what it receives, whichever group that comes from. So one task reads it for all objects of
the process (`Reader`), and hands each event to the object whose group it belongs to.

An object is a `Member` with a few methods. `received` gets the casts, `viewed` the views, in the order in which the
process receives them. `state` and `restore` carry the object's state to newcomers. They are plain functions, not
coroutines: when a view is handed over, everything before it has taken effect.

Where this process was killed (its site was cut off, or its connection lost), the member joins again by itself and
takes the group's state; `interrupted` is called before that, to end what waits. Where nobody else is left in the
group, it goes on with the state that it has.
"""

import asyncio
import hashlib
import logging
from contextlib import suppress
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

import msgspec

from reconvene.client.arguments import check_text
from reconvene.client.events import Blocked, Process
from reconvene.client.isis import Isis, IsisGroup
from reconvene.client.isis_events import Action, Cast, GroupLeft, GroupView, IsisEvent, Killed
from reconvene.client.time_limits import in_time
from reconvene.errors import Malformed, OutcomeUnknown, ReconveneError, Rejected, Unavailable

__all__ = ["Member", "answer_nothing"]

_log = logging.getLogger("reconvene.objects")

_NAME_LETTERS = 255
_AGAIN_S = 0.5
"""A join that was refused is tried again after this time."""
_LEAVE_S = 5.0
"""How long the end of an `async with` block waits until the group is left."""


class Member:
    _answers: ClassVar[bool] = True
    """It replies to what asks for replies. False: its site does, with nothing, when the cast is in the process's
    queue."""

    def __init__(self, isis: Isis, name: str, *, last_to_fail: bool = False) -> None:
        """`name`: of the group, which is the object's own: nobody else casts to it. `last_to_fail`: where all members
        were killed or have failed, those that were the last go on first, so that what they have is kept; the others
        wait for them. All members expected to say the same."""
        if not isinstance(isis, Isis):
            raise TypeError(f"isis: a site's process expected, as in site.isis, not {type(isis).__name__}")
        self.name = check_text(name, "name", _NAME_LETTERS)
        self._isis = isis
        self._last_to_fail = bool(last_to_fail)
        self._group: IsisGroup | None = None
        self._view: GroupView | None = None
        """The last one that was handed over; None until there is one with this process in it."""
        self._joined_as: Process | None = None
        self._blocked = False
        """The site is outside of the primary component: the others may have gone on without it."""
        self._joining: asyncio.Task[None] | None = None
        self._over: ReconveneError | None = None
        """Why it will not be used any more."""
        self._declining: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        """All that came before this process left the group has been read."""
        self._changes: set[asyncio.Future[None]] = set()

    # -- what an object makes of it

    def received(self, cast: Cast | Action) -> None:
        """Something was cast to the group."""

    def viewed(self, view: GroupView) -> None:
        """The members have changed. All of them have received the same casts before it."""

    def state(self) -> Any:
        """For newcomers: what msgpack can hold. Members that have received the same casts, in whichever order, must
        have the same; dictionaries may differ in their order, sets may not be in it."""

    def restore(self, state: Any) -> None:
        """The group's state, at a newcomer."""

    def interrupted(self, error: ReconveneError) -> None:
        """This process is not in the group any more: what it waits for will not come, for this reason."""

    def blocked(self) -> None:
        """The site is outside of the primary component: nothing is sent or received until the next view, or until
        this process was killed."""

    # -- for programs

    async def __aenter__(self) -> Self:
        """Joins the group, and takes its state. Outside of the primary component this waits."""
        reader = Reader.of(self._isis)
        reader.add(self)
        try:
            await self._join()
            while self._view is None:
                await self._changed()
        except BaseException:
            reader.remove(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leaves the group. Others go on with it."""
        if kind is GeneratorExit:
            return  # a coroutine that is closed can't send anything
        group = self._group
        self._end(Unavailable(f"{self.name!r} was left"))
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
        try:
            if group is not None:
                async with asyncio.timeout(_LEAVE_S):
                    await group.leave()
                    await self._left.wait()
        except (Unavailable, TimeoutError):
            pass  # it is over anyway, or is left as soon as the site is back in the primary component
        finally:
            Reader.of(self._isis).remove(self)

    @property
    def members(self) -> tuple[Process, ...]:
        """Of the group, by rank; none while this process is not in it."""
        return () if self._view is None else self._view.members

    @property
    def is_current(self) -> bool:
        """This process is in the group and its site in the primary component: what it shows is the group's state.
        Otherwise it shows the state before it was cut off."""
        return self._view is not None and self._group is not None and not self._blocked

    async def ready(self, timeout: float | None = None) -> None:
        """Returns once `is_current`. Raises TimedOut after `timeout` s, Unavailable where the object is over."""
        await in_time(timeout, self._ready(), f"{self.name!r}: not in its group within {timeout} s")

    async def _ready(self) -> None:
        while not self.is_current:
            await self._changed()

    def _nearest(self, caller: Process) -> Process:
        """The member whose site is nearest to the caller's; of equals the one with the lowest
        rank (5.2). All members choose the same one, since they have the same view."""
        site = self._isis.site_number
        return min(self.members, key=lambda member: abs(site(member) - site(caller)))

    async def _changed(self) -> None:
        """Waits for the next change of any kind."""
        if self._over is not None:
            raise type(self._over)(str(self._over))
        future = asyncio.get_running_loop().create_future()
        self._changes.add(future)
        try:
            await future
        finally:
            self._changes.discard(future)

    def _tell_changed(self) -> None:
        for future in self._changes:
            if not future.done():
                future.set_result(None)

    def _in_group(self) -> IsisGroup:
        """Raises Unavailable where this process is not in the group now."""
        if self._over is not None:
            raise type(self._over)(str(self._over))
        if self._group is None or self._view is None:
            raise Unavailable(f"{self.name!r}: this process is not in its group now: it is joining it again")
        return self._group

    # -- joining

    async def _join(self) -> None:
        self._group = self._view = None
        provider = (self._give, self._take)
        self._group = await self._isis.join(
            self.name, state=provider, answers=self._answers, last_to_fail=self._last_to_fail
        )
        self._joined_as = self._isis.me
        self._left.clear()
        self._tell_changed()

    def _give(self) -> list[bytes]:
        try:
            state = _canonical(self.state())
        except Exception as error:
            self._stop(error)
            return []  # the newcomer tries again, and finds another member, or none
        return [hashlib.blake2b(state).digest(), state]

    def _take(self, chunks: list[bytes]) -> None:
        # Chunks come from several members where one failed meanwhile. They fit if the members had the same state.
        if len(chunks) != 2 or hashlib.blake2b(chunks[1]).digest() != chunks[0]:
            raise Malformed(f"{self.name!r}: members with different states, or damaged on its way")
        self.restore(msgspec.msgpack.decode(chunks[1]))

    async def _join_again(self, me: Process) -> None:
        while self._isis.me == me:  # else it was killed again, and `Killed` is still to be read
            try:
                await self._join()
                return
            except Rejected as error:
                self._end(error)
                return
            except ReconveneError as error:
                _log.info("%s: not joined yet: %s", self.name, error)
                await asyncio.sleep(_AGAIN_S)

    # -- what the reader hands over

    def _hand_over(self, event: IsisEvent) -> None:
        if self._over is not None:
            self._decline(event)
            return
        try:
            self._take_event(event)
        except Exception as error:
            self._stop(error)
        self._tell_changed()

    def _stop(self, error: Exception) -> None:
        """One of the object's own methods has raised."""
        _log.exception("%s: stopped", self.name)
        self._end(Unavailable(f"{self.name!r} was stopped: {type(error).__name__}: {error}"))
        if self._group is not None:
            self._joining = asyncio.create_task(self._group.leave())

    def _decline(self, event: IsisEvent) -> None:
        """It is over. Nobody may wait for its answers."""
        if isinstance(event, GroupLeft | Killed):
            self._left.set()
        elif isinstance(event, Cast) and event.wants_reply:
            task = asyncio.create_task(answer_nothing(event))
            self._declining.add(task)
            task.add_done_callback(self._declining.discard)

    def _take_event(self, event: IsisEvent) -> None:
        match event:
            case Cast() | Action():
                if self._view is not None:  # else it was received before this process was killed
                    self.received(event)
            case GroupView():
                if self._isis.me in event.members:
                    self._view, self._blocked = event, False
                    self.viewed(event)
            case GroupLeft(deleted=deleted):
                self._left.set()
                if deleted:
                    self._end(Unavailable(f"{self.name!r}: the group was deleted"))
            case Blocked():
                self._blocked = True
                self.blocked()
            case Killed(me=me) if me != self._joined_as:
                self._view, self._blocked = None, False
                self._left.set()
                self.interrupted(Unavailable(f"{self.name!r}: this process was killed: others went on without it"))
                if self._joining is not None:
                    self._joining.cancel()
                self._joining = asyncio.create_task(self._join_again(me))
            case _:
                pass

    def _end(self, error: ReconveneError) -> None:
        if self._over is None:
            self._over = error
            self._view = None
            self.interrupted(error)
            self._tell_changed()


async def answer_nothing(cast: Cast) -> None:
    """Nobody may wait for what will not come."""
    with suppress(ReconveneError):  # the process was killed
        await cast.reply()


class Listener(Protocol):
    """Gets what is cast to this process itself, and to no group."""

    def direct(self, cast: Cast) -> None: ...

    def cut_off(self, error: ReconveneError) -> None:
        """This process was killed, or nothing more will be read."""


class Reader:
    """Reads what one process receives, as long as it has objects. The program does not read it meanwhile: what it
    joins itself, it joins as another process, over a connection of its own."""

    _all: ClassVar[dict[Isis, "Reader"]] = {}
    """Those that have objects."""

    def __init__(self, isis: Isis) -> None:
        self._isis = isis
        self._members: dict[str, Member] = {}
        """By group."""
        self._listeners: dict[Listener, None] = {}
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, isis: Isis) -> "Reader":
        return cls._all.get(isis) or cls(isis)

    def add(self, member: Member) -> None:
        if member.name in self._members:
            raise Rejected(f"{member.name!r}: this process has an object of this name")
        self._members[member.name] = member
        self._begin()

    def remove(self, member: Member) -> None:
        if self._members.get(member.name) is member:
            del self._members[member.name]
        self._end_if_unused()

    def listen(self, listener: Listener) -> None:
        self._listeners[listener] = None
        self._begin()

    def unlisten(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        self._end_if_unused()

    def _begin(self) -> None:
        self._all[self._isis] = self
        if self._task is None:
            self._task = asyncio.create_task(self._read())

    def _end_if_unused(self) -> None:
        if not self._members and not self._listeners:
            self._all.pop(self._isis, None)
            if self._task is not None:
                self._task.cancel()
                self._task = None

    async def _read(self) -> None:
        why: ReconveneError = Unavailable("the site was closed")
        try:
            async for event in self._isis:
                self._dispatch(event)
        except ReconveneError as error:
            why = error  # it was cut off
        for member in list(self._members.values()):
            member._end(why)
            member._left.set()
        for listener in list(self._listeners):
            listener.cut_off(why)

    def _dispatch(self, event: IsisEvent) -> None:
        match event:
            case Cast(group=str(group)) | Action(group=group) | GroupView(group=group) | GroupLeft(group=group):
                member = self._members.get(group)
                if member is not None:
                    member._hand_over(event)
            case Cast(group=None):
                for listener in list(self._listeners):
                    listener.direct(event)
            case Killed() | Blocked():
                for member in list(self._members.values()):
                    member._hand_over(event)
                if isinstance(event, Killed):
                    for listener in list(self._listeners):
                        listener.cut_off(OutcomeUnknown("this process was killed: others went on without it"))
            case _:
                pass


def _canonical(state: Any) -> bytes:
    """The same bytes for states that differ in the order of dictionaries only."""
    return msgspec.msgpack.encode(_sorted(msgspec.msgpack.decode(msgspec.msgpack.encode(state))))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=msgspec.msgpack.encode)  # they may be of several kinds
        return {key: _sorted(value[key]) for key in keys}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
