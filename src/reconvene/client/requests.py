"""What was asked of a site and is not answered yet, with the window that bounds it.

Promised: every request ends: with its answer, or, when the connection is lost, with OutcomeUnknown where it may have
had an effect and Unavailable where it had none that lasts.
"""

import asyncio
from typing import Any

from reconvene.client.channel import ERRORS, Channel
from reconvene.client.link import Place
from reconvene.errors import InvalidArgument, Malformed, OutcomeUnknown, ReconveneError, Unavailable
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
from reconvene.wire.clients import Block, Failed, Health, Join, Leave, Send, Status, Stop, check_request

__all__ = ["Lost", "Request", "Requests"]

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


class Request:
    __slots__ = ("future", "place", "size", "struct")

    def __init__(self, struct: AnyRequest, future: asyncio.Future[Any], place: Place | None, size: int) -> None:
        self.struct = struct
        self.future = future
        self.place = place
        self.size = size


class Requests:
    """Of one connection after the other; numbers are never used twice."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, Request] = {}
        self._last = 0
        self._sends = 0
        self._send_bytes = 0
        self._appends = 0
        self._append_bytes = 0

    def number(self) -> int:
        self._last += 1
        return self._last

    def add(
        self, channel: Channel, struct: AnyRequest, place: Place | None = None, size: int = 0
    ) -> "asyncio.Future[Any]":
        """Sends it; the future has the answer. Raises InvalidArgument where no site could read it."""
        if not isinstance(struct, _CHECKED_BEFORE):
            _check(struct)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._open[struct.request] = Request(struct, future, place, size)
        if isinstance(struct, Send):
            self._sends += 1
            self._send_bytes += size
        elif isinstance(struct, Append):
            self._appends += 1
            self._append_bytes += size
        channel.send(struct, size + _header_bytes(struct))
        return future

    def has_room(self, channel: Channel) -> bool:
        """Whether a further Send may go out."""
        window = channel.welcome
        return self._sends < window.window_requests and self._send_bytes < window.window_bytes

    def has_room_to_append(self, channel: Channel) -> bool:
        window = channel.welcome
        return self._appends < window.window_requests and self._append_bytes < window.window_bytes

    @property
    def only_waiting(self) -> bool:
        """Nothing is open but reads that wait for the log to grow: they can be asked again, anywhere."""
        return all(isinstance(one.struct, Fetch) and one.struct.wait for one in self._open.values())

    def take(self, number: int) -> Request | None:
        """The request is answered. None: nobody asked, or nobody waits any more."""
        request = self._open.pop(number, None)
        if request is not None:
            if isinstance(request.struct, Send):
                self._sends -= 1
                self._send_bytes -= request.size
            elif isinstance(request.struct, Append):
                self._appends -= 1
                self._append_bytes -= request.size
        return request

    def answer(self, number: int, result: Any = None) -> None:
        request = self.take(number)
        if request is not None and not request.future.done():
            request.future.set_result(result)

    def fail(self, failed: Failed) -> Request | None:
        request = self.take(failed.request)
        if request is not None:
            error = ERRORS.get(failed.kind, Unavailable)(failed.reason)
            error.taken = failed.taken
            _settle(request, error)
        return request

    def lose_all(self, reason: str) -> None:
        """The connection is gone."""
        requests, self._open = self._open, {}
        self._sends = self._send_bytes = self._appends = self._append_bytes = 0
        for request in requests.values():
            if isinstance(request.struct, _NOT_TWICE):
                _settle(request, OutcomeUnknown(f"{reason}: what was asked may or may not have been done"))
            else:
                _settle(request, Lost(reason))


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
        request.future.exception()  # told to who waits; if nobody does any more, that is no fault
