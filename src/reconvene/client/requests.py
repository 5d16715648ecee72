"""What was asked of a site and is not answered yet, with the window that bounds Sends.

Promised: every request ends: with its answer, or, when the connection is lost, with OutcomeUnknown where it may have
had an effect and Unavailable where it had none that lasts.
"""

import asyncio
from collections.abc import Collection
from itertools import count
from typing import Any, Protocol

from reconvene.client.channel import ERRORS
from reconvene.client.membership import Membership
from reconvene.errors import InvalidArgument, Malformed, OutcomeUnknown, ReconveneError, Unavailable
from reconvene.room import Room
from reconvene.wire.client_isis import IsisDelete, IsisGive, IsisRank, IsisReply, IsisRequest, IsisSet
from reconvene.wire.client_log import (
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

_NOT_TWICE = (
    *(Send, Block, Stop, SaveSnapshot, DropSnapshot, ChangeReplicas, ForceLost),
    *(IsisReply, IsisRank, IsisSet, IsisDelete),
)
"""What has an effect each time that it is asked."""

_CHECKED_BEFORE = (Send, Order, Fetch, IsisReply, IsisGive)
"""Frequent ones: all that is in them was checked, or made here."""

AnyRequest = Join | Leave | Send | Status | Health | Block | Stop | LogRequest | IsisRequest


class Lost(Unavailable):
    """The connection is gone, and what was asked may be asked again."""


class Request:
    __slots__ = ("future", "place", "size", "struct")

    def __init__(
        self, struct: AnyRequest, future: "asyncio.Future[Any]", place: Membership | None, size: int
    ) -> None:
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

    @property
    def held(self) -> Collection[object]:
        """Where the site is in this program: appends that wait for room in its log. Then no further ones are sent."""

    def send(self, struct: ToSite, size: int = 64) -> None:
        """`size`: about how many bytes it takes."""


class Requests:
    """Of one connection after the other; numbers are never used twice. Appends are not among them: `Appends`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, Request] = {}
        self.number = count(1).__next__
        """The next request's."""
        self._limits: Welcome | None = None
        self._sent = 0
        self._sent_bytes = 0
        """Of Sends that are not answered."""
        self.sends = Room(self._free)
        """How many Sends may go out now."""

    def connect(self, welcome: Welcome) -> None:
        """There is a connection, with these limits."""
        self._limits, self._sent, self._sent_bytes = welcome, 0, 0
        self.sends.wake()

    def _free(self) -> int:
        limits = self._limits
        if limits is None or self._sent >= limits.window_requests or self._sent_bytes >= limits.window_bytes:
            return 0
        return limits.window_requests - self._sent

    def add(
        self, channel: RequestChannel, struct: AnyRequest, place: Membership | None = None, size: int = 0
    ) -> "asyncio.Future[Any]":
        """Sends it; the future has the answer. Raises InvalidArgument where no site could read it."""
        if not isinstance(struct, _CHECKED_BEFORE):
            _check(struct)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._open[struct.request] = Request(struct, future, place, size)
        if type(struct) is Send:
            self._sent += 1
            self._sent_bytes += size
        channel.send(struct, size + _header_bytes(struct))
        return future

    @property
    def only_waiting(self) -> bool:
        """Nothing is open but reads that wait for the log to grow: they can be asked again, anywhere."""
        return all(isinstance(one.struct, Fetch) and one.struct.wait for one in self._open.values())

    def take(self, number: int) -> Request | None:
        """The request is answered. None: nobody asked, or nobody waits any more."""
        request = self._open.pop(number, None)
        if request is not None and type(request.struct) is Send:
            self._sent -= 1
            self._sent_bytes -= request.size
            if self.sends.waiting:
                self.sends.wake()
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
        self._limits, self._sent, self._sent_bytes = None, 0, 0
        self.sends.wake_all()


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
    return _REQUEST_BYTES + (4 * len(struct.group) if isinstance(struct, Join) else 0)


def _settle(request: Request, error: ReconveneError) -> None:
    if not request.future.done():
        request.future.set_exception(error)
        request.future.exception()  # no one may wait any more
