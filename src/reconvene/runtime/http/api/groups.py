"""Sends to groups, and their views and messages as a stream.

Given: the site's processes. Promised: a listener is a process of its own, which is a member for as long as its stream
lasts. All sends come from one process of the site, which joins a group at the first of them and leaves it when none
has come for a while. What waits for a listener is bounded; one that reads too slowly is cut off.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import assert_never

from reconvene.core.groups.events import Arrived, Blocked, GroupEvent, Left, Process, ViewChanged, ViewId
from reconvene.corel.clients.refusals import NoRoom
from reconvene.errors import Rejected, TimedOut
from reconvene.ids import Service, message_id
from reconvene.runtime.domain.events import WideGroupEvent
from reconvene.runtime.http.answers import Refusal
from reconvene.runtime.http.api.documents import GroupLeft, GroupMessage, GroupView, shown
from reconvene.runtime.http.api.streams import CutOff, Stream, sse
from reconvene.runtime.site.interface import Engine, ProcessHandle

__all__ = ["GroupSenders", "Listening", "check_name"]

IDLE_S = 60.0
"""The sending process leaves a group to which nothing was sent for this long."""
MOST_GROUPS = 64
"""Most groups that it is in."""


class _Listener:
    """A `Receiver` that keeps what its reader has not taken."""

    def __init__(self, names: Sequence[str], base64: bool, most_bytes: int) -> None:
        self._names = names
        self._base64 = base64
        self._most_bytes = most_bytes
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self.news = asyncio.Event()
        self.left = False
        self.overflow = False

    def take(self) -> bytes:
        taken = b"".join(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return taken

    def events(self, batch: list[GroupEvent]) -> None:
        for event in batch:
            match event:
                case ViewChanged():
                    own = None if event.process is None else self._name(event.process)
                    members = [self._name(member) for member in event.members]
                    view = GroupView(event.kind.value, _view(event.view), members, event.primary, own)
                    self._put(sse("view", view))
                case Arrived():
                    self._arrived(event)
                case Blocked():
                    self._put(sse("blocked", {}))
                case Left():
                    self._put(sse("left", GroupLeft(event.reason)))
                    self.left = True
                case _:
                    assert_never(event)
        self.news.set()

    def wide_events(self, batch: list[WideGroupEvent]) -> None:
        raise AssertionError("it joins no wide group")

    def _arrived(self, event: Arrived) -> None:
        sender, view = self._name(event.sender), _view(event.view)
        site = self._names[event.sender.site]
        for at, data in enumerate(event.payloads):
            number = message_id(site, event.sender.incarnation, event.first + at)
            message = GroupMessage(number, sender, event.service.label, view, *shown(data, self._base64))
            self._put(sse("message", message))

    def _put(self, event: bytes) -> None:
        if self.overflow:
            return
        self._bytes += len(event)
        if self._bytes > self._most_bytes:
            self.overflow = True
            self._waiting.clear()
        else:
            self._waiting.append(event)

    def _name(self, process: Process) -> str:
        return message_id(self._names[process.site], process.incarnation, process.number)


def _view(view: ViewId) -> str:
    return f"{view.configuration}.{view.change}"


class Listening:
    """A listener's process, from the join to the end of its stream."""

    def __init__(self, engine: Engine, group: str, primary: bool, base64: bool, most_bytes: int) -> None:
        """Raises as `Engine.open` and `ProcessHandle.join` do."""
        self._listener = _Listener(engine.names, base64, most_bytes)
        self._process = engine.open(self._listener)
        try:
            self._process.join(group, primary)
        except BaseException:
            self._process.close()
            raise

    def close(self) -> None:
        self._process.close()

    async def run(self, stream: Stream) -> None:
        listener = self._listener
        while not stream.over:
            listener.news.clear()
            taken = listener.take()
            if listener.overflow:
                raise CutOff
            if taken:
                await stream.write(taken)
            elif listener.left:
                return
            else:
                await stream.idle(listener.news)


class _Membership:
    def __init__(self, number: int, used_at: float) -> None:
        self.number = number
        self.used_at = used_at
        self.news = asyncio.Event()
        """Something happened to it: it may have begun."""
        self.over = False


class GroupSenders:
    """The process that sends for HTTP; a `Receiver`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process: ProcessHandle | None = None
        self._groups: dict[str, _Membership] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._process is not None:
            self._process.close()
            self._process = None
        self._groups.clear()

    async def send(self, group: str, service: Service, data: bytes, seconds: float) -> None:
        """Returns once the site has taken it. Raises Rejected, Unavailable (nothing was sent), Refusal."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if await self._send_once(group, service, data):
                        return
        except TimeoutError:
            membership = self._groups.get(group)
            process = self._process
            if membership is not None and process is not None and process.room_of(membership.number).free() <= 0:
                raise NoRoom("the site's queue is full (limits.queue_messages, limits.queue_bytes)") from None
            raise TimedOut(f"group {group!r}: no view came in time: nothing was sent") from None

    async def _send_once(self, group: str, service: Service, data: bytes) -> bool:
        process, membership = self._joined(group)
        try:
            if process.send(membership.number, service, [data]):
                return True
        except Rejected as error:
            if membership.over or self._groups.get(group) is not membership:
                return False  # it was ended meanwhile: join again
            raise Refusal(413, f"body: {error}") from None
        room = process.room_of(membership.number)
        if room.free() <= 0:
            await room.wait()
        else:
            membership.news.clear()
            await membership.news.wait()
        return False

    def _joined(self, group: str) -> tuple[ProcessHandle, _Membership]:
        loop = asyncio.get_running_loop()
        if self._process is None:
            self._process = self._engine.open(self)
        membership = self._groups.get(group)
        if membership is None:
            if len(self._groups) >= MOST_GROUPS:
                raise NoRoom(f"messages are being sent to {MOST_GROUPS} groups over HTTP, the limit")
            membership = self._groups[group] = _Membership(self._process.join(group, False), loop.time())
            if self._sweeper is None:
                self._sweeper = loop.call_later(IDLE_S / 2, self._sweep)
        membership.used_at = loop.time()
        return self._process, membership

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for group, membership in list(self._groups.items()):
            if membership.used_at + IDLE_S <= loop.time() and self._process is not None:
                del self._groups[group]
                self._process.leave(membership.number)
        self._sweeper = loop.call_later(IDLE_S / 2, self._sweep) if self._groups else None

    def events(self, batch: list[GroupEvent]) -> None:
        for event in batch:
            if isinstance(event, Arrived):
                continue
            for group, membership in list(self._groups.items()):
                if membership.number == event.membership:
                    if isinstance(event, Left):
                        membership.over = True
                        del self._groups[group]
                    asyncio.get_running_loop().call_soon(membership.news.set)  # not amid the turn

    def wide_events(self, batch: list[WideGroupEvent]) -> None:
        raise AssertionError("it joins no wide group")


def check_name(group: str, most_bytes: int) -> None:
    if not 1 <= len(group.encode(errors="surrogateescape")) <= most_bytes:
        raise Refusal(400, f"group: expected a name of 1 to {most_bytes} bytes")
