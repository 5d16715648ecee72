"""What calls a cohort: sends a request to its group, and waits for the one answer.

The request asks every member for a reply, which only says that the answer was sent. So the caller learns if all
members fail before that.
"""

import asyncio
from collections.abc import AsyncIterator
from enum import IntEnum
from itertools import count
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

import msgspec

from reconvene.client.arguments import check_text
from reconvene.client.group import Data, as_bytes
from reconvene.client.isis import Isis
from reconvene.client.isis_call import Call
from reconvene.client.isis_events import ALL, UNORDERED, Cast, ProcessFailed, Reply, Unreachable
from reconvene.client.time_limits import within
from reconvene.errors import OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.objects.member import Reader

__all__ = ["ANSWERED", "Answer", "CohortCaller", "Kind", "Request"]

_NAME_LETTERS = 255
ANSWERED = b"1"
"""A member's reply once the answer was cast. An empty one: it has left the group before."""


class Kind(IntEnum):
    ANSWER = 0
    REJECTED = 1
    FAILED = 2
    UNAVAILABLE = 3


_ERRORS: dict[Kind, type[ReconveneError]] = {
    Kind.REJECTED: Rejected,
    Kind.FAILED: OutcomeUnknown,
    Kind.UNAVAILABLE: Unavailable,
}


class Request(msgspec.Struct, array_like=True, tag="ask", frozen=True):
    """By CBCAST to the group."""

    number: int
    """Among its caller's."""
    data: bytes


class Answer(msgspec.Struct, array_like=True, tag="answer", frozen=True):
    """By CBCAST to the caller."""

    cohort: str
    number: int
    kind: Kind
    data: bytes


class _Mark(msgspec.Struct, array_like=True, tag="mark", frozen=True):
    """From a caller to itself: all that the members sent it comes before."""

    cohort: str
    number: int


_message: msgspec.msgpack.Decoder[Answer | _Mark] = msgspec.msgpack.Decoder(Answer | _Mark)


_NUMBERS: "WeakKeyDictionary[Isis, count[int]]" = WeakKeyDictionary()
"""By process: no two requests of it have the same number."""


class CohortCaller:
    """For processes that are no members, or are. Inside its block the process's events are read for it."""

    def __init__(self, isis: Isis, name: str) -> None:
        if not isinstance(isis, Isis):
            raise TypeError(f"isis: a site's process expected, as in site.isis, not {type(isis).__name__}")
        self.name = check_text(name, "name", _NAME_LETTERS)
        self._isis = isis
        self._numbers = _NUMBERS.setdefault(isis, count(1))
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._over: ReconveneError | None = Unavailable(f"{name!r}: call it in its `async with` block")

    async def __aenter__(self) -> Self:
        self._over = None
        Reader.of(self._isis).listen(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        Reader.of(self._isis).unlisten(self)
        self._end(Unavailable(f"{self.name!r}: its `async with` block is over"))

    async def call(self, request: Data, timeout: float | None = None) -> bytes:
        """The answer. One member runs the request, and another one if that fails.

        Raises Rejected where `run` does, where there is no such group, and where the request is too large;
        Unavailable where nothing was sent, or too many requests wait; OutcomeUnknown where all members failed, where
        this process was killed meanwhile, or where `run` failed; and OutcomeTimedOut after `timeout` s."""
        return await within(timeout, self._call(as_bytes(request)), "answered")

    async def _call(self, request: bytes) -> bytes:
        if self._over is not None:
            raise type(self._over)(str(self._over))
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        watching = None
        try:
            call = await self._isis.cbcast(msgspec.msgpack.encode(Request(number, request)), self.name, replies=ALL)
            watching = asyncio.create_task(self._watch(call, number))
            return await answer
        finally:
            del self._waiting[number]
            if watching is not None:
                watching.cancel()

    async def _watch(self, call: Call, number: int) -> None:
        try:
            if not await _is_answered(call):
                # All have failed or left. What they cast before that is received already, and perhaps not read.
                mark = msgspec.msgpack.encode(_Mark(self.name, number))
                await self._isis.cbcast(mark, [self._isis.me], label=UNORDERED)
        except ReconveneError as error:
            self._fail(number, OutcomeUnknown(str(error)))

    def _fail(self, number: int, error: ReconveneError) -> None:
        answer = self._waiting.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(error)
            answer.exception()  # perhaps nobody waits for it yet

    # -- what the reader hands over

    def direct(self, cast: Cast) -> None:
        try:
            message = _message.decode(cast.data)
        except (msgspec.DecodeError, ValueError):
            return
        if message.cohort != self.name:
            return
        number = message.number
        if isinstance(message, _Mark):
            if cast.sender == self._isis.me:
                why = "all members failed or left before they had answered; the request may have been run"
                self._fail(number, OutcomeUnknown(f"{self.name!r}: {why}"))
        elif message.kind is Kind.ANSWER:
            answer = self._waiting.get(number)
            if answer is not None and not answer.done():
                answer.set_result(message.data)
        else:
            self._fail(number, _ERRORS[message.kind](f"{self.name!r}: {message.data.decode(errors='replace')}"))

    def cut_off(self, error: ReconveneError) -> None:
        for number in self._waiting:
            self._fail(number, OutcomeUnknown(f"{self.name!r}: {error}; the request may have been run"))

    def _end(self, error: ReconveneError) -> None:
        self._over = error
        self.cut_off(error)


async def _is_answered(call: AsyncIterator[Reply | ProcessFailed | Unreachable]) -> bool:
    """Whether a member says that the answer was cast."""
    found = False
    async for reply in call:
        found = found or (isinstance(reply, Reply) and reply.data == ANSWERED)
    return found
