"""What was asked of a site and is not answered yet, with the window that bounds it.

Promised: every request ends: with its answer, or, when the connection is lost, with OutcomeUnknown where it may have
had an effect and Unavailable where it had none that lasts.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from reconvene.client.channel import ERRORS
from reconvene.client.membership import Membership
from reconvene.errors import InvalidArgument, Malformed, OutcomeUnknown, ReconveneError, Unavailable
from reconvene.room import Room
from reconvene.wire.client_log import (
    Append,
    ChangeReplicas,
    DropSnapshot,
    Fetch,
    ForceLost,
    LogRequest,
    Order,
    SaveSnapshot,
)
from reconvene.wire.clients import (
    Block,
    Failed,
    Health,
    Join,
    Leave,
    Send,
    Status,
    Stop,
    ToSite,
    Welcome,
    check_request,
)

__all__ = ["Lost", "Request", "RequestChannel", "Requests", "failure_of"]

_REQUEST_BYTES = 64
_PAYLOAD_BYTES = 5
_PROCESS_BYTES = 24

_NOT_TWICE = (Send, Block, Stop, SaveSnapshot, DropSnapshot, ChangeReplicas, ForceLost)
"""What has an effect each time that it is asked."""

_CHECKED_BEFORE = (Send, Append, Order, Fetch)
"""Frequent ones: all that is in them was checked, or made here."""

AnyRequest = Join | Leave | Send | Status | Health | Block | Stop | LogRequest


class Lost(Unavailable):
    """The connection is gone, and what was asked may be asked again."""


class Answer(Protocol):
    """What takes the answer to a request: a future, or an object that acts on it at once."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...
    def exception(self) -> BaseException | None: ...


class Request:
    __slots__ = ("future", "place", "size", "struct")

    def __init__(self, struct: AnyRequest, future: Answer, place: Membership | None, size: int) -> None:
        self.struct = struct
        self.future = future
        self.place = place
        self.size = size


class RequestChannel(Protocol):
    """What carries requests to a site: a socket, or a call."""

    @property
    def address(self) -> object:
        """Where the site is, for errors."""

    @property
    def welcome(self) -> Welcome:
        """What the site said of itself: its name, its version, its limits."""

    @property
    def closed(self) -> bool: ...

    def send(self, struct: ToSite, size: int = 64) -> None:
        """`size`: about how many bytes it takes."""


class _Window:
    """Of requests of one kind that may be unanswered at once."""

    __slots__ = ("bytes", "count", "full", "limits", "room")

    def __init__(self) -> None:
        self.limits: Welcome | None = None
        self.full: Callable[[], bool] | None = None
        """Where the site is in this program: whether it has no room now."""
        self.room = Room(self._free)
        self.count = 0
        self.bytes = 0

    def _free(self) -> int:
        limits = self.limits
        if self.full is not None and self.full():
            return 0
        if limits is None or self.count >= limits.window_requests or self.bytes >= limits.window_bytes:
            return 0
        return limits.window_requests - self.count


class Requests:
    """Of one connection after the other; numbers are never used twice."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, Request] = {}
        self._last = 0
        self._sends = _Window()
        self._appends = _Window()
        self.sends = self._sends.room
        """How many Sends may go out now …"""
        self.appends = self._appends.room
        """… and how many Appends."""

    def connect(self, welcome: Welcome, full: Callable[[], bool] | None = None) -> None:
        """There is a connection, with these limits. `full`: whether the site in this program has no room for a
        further append."""
        self._appends.full = full
        for window in (self._sends, self._appends):
            window.limits, window.count, window.bytes = welcome, 0, 0
            window.room.wake()

    def number(self) -> int:
        self._last += 1
        return self._last

    def add(
        self, channel: RequestChannel, struct: AnyRequest, place: Membership | None = None, size: int = 0
    ) -> "asyncio.Future[Any]":
        """Sends it; the future has the answer. Raises InvalidArgument where no site could read it."""
        if not isinstance(struct, _CHECKED_BEFORE):
            _check(struct)
        future: asyncio.Future[Any] = self._loop.create_future()
        self.send(channel, struct, future, place, size)
        return future

    def send(
        self,
        channel: RequestChannel,
        struct: AnyRequest,
        answer: Answer,
        place: Membership | None = None,
        size: int = 0,
    ) -> None:
        """Sends it; `answer` takes the answer, perhaps before this returns."""
        self._open[struct.request] = Request(struct, answer, place, size)
        window = self._window(struct)
        if window is not None:
            window.count += 1
            window.bytes += size
        channel.send(struct, size + _header_bytes(struct))

    def _window(self, struct: AnyRequest) -> _Window | None:
        if type(struct) is Append:
            return self._appends
        return self._sends if type(struct) is Send else None

    @property
    def only_waiting(self) -> bool:
        """Nothing is open but reads that wait for the log to grow: they can be asked again, anywhere."""
        return all(isinstance(one.struct, Fetch) and one.struct.wait for one in self._open.values())

    def take(self, number: int) -> Request | None:
        """The request is answered. None: nobody asked, or nobody waits any more."""
        request = self._open.pop(number, None)
        window = None if request is None else self._window(request.struct)
        if request is not None and window is not None:
            window.count -= 1
            window.bytes -= request.size
            if window.room.waiting:
                window.room.wake()
        return request

    def answer(self, number: int, result: Any = None) -> None:
        request = self.take(number)
        if request is not None and not request.future.done():
            request.future.set_result(result)

    def fail(self, number: int, error: ReconveneError) -> Request | None:
        request = self.take(number)
        if request is not None:
            _settle(request, error)
        return request

    def lose_all(self, reason: str) -> None:
        """The connection is gone."""
        requests, self._open = self._open, {}
        for request in requests.values():
            _settle(request, _lost(request, reason))
        for window in (self._sends, self._appends):
            window.limits, window.count, window.bytes = None, 0, 0
            window.room.wake_all()

    def lose_questions(self, reason: str) -> None:
        """The site within the program answers appends, and nothing else any more."""
        for number, request in list(self._open.items()):
            if type(request.struct) is not Append:
                del self._open[number]
                _settle(request, _lost(request, reason))


def failure_of(failed: Failed) -> ReconveneError:
    """The error that a site's answer stands for."""
    error = ERRORS.get(failed.kind, Unavailable)(failed.reason)
    error.taken = failed.taken
    return error


def _lost(request: Request, reason: str) -> ReconveneError:
    if isinstance(request.struct, _NOT_TWICE):
        return OutcomeUnknown(f"{reason}: what was asked may or may not have been done")
    return Lost(reason)


def _check(struct: AnyRequest) -> None:
    """What a site can't read it refuses, and what can't be encoded would hold up all others."""
    try:
        check_request(struct)
    except (Malformed, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{type(struct).__name__}: {error}") from None


def _header_bytes(struct: AnyRequest) -> int:
    """About how many bytes it takes in a record, beside its messages."""
    if isinstance(struct, Send):
        named = 0 if struct.to is None else len(struct.to)
        return _REQUEST_BYTES + _PAYLOAD_BYTES * len(struct.payloads) + _PROCESS_BYTES * named
    if isinstance(struct, Append):
        return _REQUEST_BYTES + _PAYLOAD_BYTES * len(struct.messages)
    return _REQUEST_BYTES + (4 * len(struct.group) if isinstance(struct, Join) else 0)


def _settle(request: Request, error: ReconveneError) -> None:
    if not request.future.done():
        request.future.set_exception(error)
        request.future.exception()  # no one may wait any more
