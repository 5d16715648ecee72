"""A process's casts as its program has them: those without an id yet, calls that wait for replies, room for more.

Given: the site's answers, in their order. Promised: every cast is settled once, with its id or an error, and every
call ends; requests that may wait at the site are bounded.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from reconvene.client.isis_call import CallItem, OpenCall
from reconvene.client.isis_wide import Wide
from reconvene.client.requests import RequestChannel, Requests
from reconvene.core.groups import events
from reconvene.errors import OutcomeUnknown, ReconveneError
from reconvene.room import Room
from reconvene.wire import client_isis as wire

__all__ = ["Casting", "IsisCasts"]

_SPARE_REQUESTS = 16
"""Of the requests that a site lets wait: for those that the program does not wait for."""


class _Site(Protocol):
    requests: Requests

    @property
    def name(self) -> str: ...

    @property
    def cluster(self) -> str: ...


class Casting:
    """A cast that has no id yet."""

    __slots__ = ("asks", "call", "future", "size", "wide")

    def __init__(self, call: OpenCall, asks: bool, size: int, wide: bool = False) -> None:
        self.call = call
        self.wide = wide
        """To several clusters: such casts are counted apart."""
        self.asks = asks
        """It asks for replies."""
        self.size = size
        self.future: asyncio.Future[None] | None = None


class IsisCasts:
    def __init__(self, site: _Site) -> None:
        self._site = site
        self._loop = asyncio.get_running_loop()
        self._casting: dict[int, Casting] = {}
        """By request."""
        self._calls: dict[int, OpenCall] = {}
        """By counter."""
        self._wide_calls: dict[int, OpenCall] = {}
        """The same of casts to several clusters."""
        self._held = 0
        self._held_bytes = 0
        """Requests that may wait at the site."""
        self.room = Room(self._free)

    def _free(self) -> int:
        most = wire.HELD_REQUESTS - _SPARE_REQUESTS
        return most - self._held if self._held_bytes < wire.HELD_BYTES else 0

    def send(
        self,
        me: events.Process,
        channel: RequestChannel,
        kind: int,
        to: str | tuple[events.Process, ...],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        until: float | None,
        more: list[bytes],
        size: int,
    ) -> "Casting":
        """Its future, if it has one, is done when the cast has its id."""
        call = OpenCall(self._site.name, me.incarnation, until)
        number = self._site.requests.number()
        casting = self._casting[number] = Casting(call, replies != 0, size)
        self.hold(size)
        struct = wire.IsisCast(number, kind, to, payload, label, replies, more)  # type: ignore[arg-type]
        channel.send(struct, size + 64 + 5 * len(more))
        if number in self._casting:
            casting.future = self._loop.create_future()
        return casting

    def send_wide(
        self,
        me: events.Process,
        channel: RequestChannel,
        kind: int,
        to: str | list[Wide],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        until: float | None,
    ) -> "Casting":
        """The same to processes of several clusters."""
        call = OpenCall(f"{self._site.cluster}/{self._site.name}", me.incarnation, until)
        number = self._site.requests.number()
        casting = self._casting[number] = Casting(call, replies != 0, len(payload), True)
        self.hold(len(payload))
        struct = wire.IsisWideCast(number, kind, to, payload, label, replies)  # type: ignore[arg-type]
        channel.send(struct, len(payload) + 64 + (0 if isinstance(to, str) else 64 * len(to)))
        if number in self._casting:
            casting.future = self._loop.create_future()
        return casting

    def has_room(self, size: int) -> bool:
        return self._held == 0 or (self._free() > 0 and self._held_bytes + size <= wire.HELD_BYTES)

    def sent(self, request: int, counter: int) -> None:
        """The cast of this request has its id."""
        casting = self._casting.pop(request, None)
        if casting is None:
            return
        call = casting.call
        call.sent(counter)
        if casting.asks:
            (self._wide_calls if casting.wide else self._calls)[counter] = call
        else:
            call.end()
        self._settle(casting, None)

    def fail(self, request: int, error: ReconveneError) -> bool:
        """Returns whether the request was a cast."""
        casting = self._casting.pop(request, None)
        if casting is None:
            return False
        self._settle(casting, error)
        return True

    def _settle(self, casting: Casting, error: ReconveneError | None) -> None:
        self.release(casting.size)
        future = casting.future
        if future is None and error is not None:
            future = casting.future = self._loop.create_future()  # its caller has not begun to wait
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
                future.exception()

    def hold(self, size: int) -> None:
        """A request of this size may wait at the site."""
        self._held += 1
        self._held_bytes += size

    def release(self, size: int) -> None:
        self._held -= 1
        self._held_bytes -= size
        if self.room.waiting:
            self.room.wake()

    # -- replies

    def replied(self, counter: int, item: CallItem, *, wide: bool = False) -> None:
        call = (self._wide_calls if wide else self._calls).get(counter)
        if call is not None:
            call.put(item)

    def over(self, counter: int, *, wide: bool = False) -> None:
        call = (self._wide_calls if wide else self._calls).pop(counter, None)
        if call is not None:
            call.end()

    # -- the end

    def lose(self, unknown: str) -> None:
        """The connection is over: nothing more is heard of all that."""
        casting, self._casting = self._casting, {}
        for cast in casting.values():
            self._settle(cast, OutcomeUnknown(unknown))
        for call in self._take_calls():
            call.end(unknown)
        self._held = self._held_bytes = 0
        self.room.wake_all()

    def kill(self, why: str) -> None:
        """The process that asked is over. What has no id yet is answered."""
        for call in self._take_calls():
            call.end(f"cast {call.id}: {why}: it may or may not have been received")

    def _take_calls(self) -> list[OpenCall]:
        calls = [*self._calls.values(), *self._wide_calls.values()]
        self._calls, self._wide_calls = {}, {}
        return calls
