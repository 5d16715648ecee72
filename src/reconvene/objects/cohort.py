"""A request that reaches all members of a group, and is run by one of them; another one takes over if that fails.

How it is made (Birman and Joseph, 5.2). A request is a CBCAST to the group. All members have the same view when they
receive it, so all choose the same *coordinator* without asking each other: the member nearest to the caller's site.
The others are its *cohorts*, and keep the request. What becomes of it:

1. The coordinator runs it, and casts *done* with the answer to the group: the cohorts need not run it any more.
2. Then it casts the answer to the caller. *Done* precedes that: so if the caller has the answer, all members have
   *done*, or get it, even if the coordinator fails at that moment. (Not if the caller's site is lost with it: before
   an answer is acted on outside, the caller flushes.)
3. A view without the coordinator comes after all that it sent. Where there is no *done* by then, the members choose
   another coordinator, which runs the request again. Where there is, and the answer may not have left, the next one
   only answers. What was answered is told to the group with the next *done*, or a little later.

A request is started again only if its coordinator failed. What it does outside should do no harm if it is done again.
What it changes inside belongs into `data`: the update comes with *done*. All members apply it once, or none does.

    async def quote(request: bytes) -> bytes:
        return await prices.find(request)

    async with Cohort(site.isis, "quotes", quote) as cohort:      # a member
        ...
    async with CohortCaller(site.isis, "quotes") as quotes:       # anyone
        print(await quotes.call(b"coffee", timeout=10))
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from reconvene.client.arguments import check_count, check_text
from reconvene.client.events import Process
from reconvene.client.group import Data, as_bytes
from reconvene.client.isis import Isis
from reconvene.client.isis_events import Action, Cast, GroupView
from reconvene.errors import OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.objects.cohort_caller import ANSWERED, Answer, CohortCaller, Kind, Request
from reconvene.objects.member import Member
from reconvene.objects.replicated import Copy

__all__ = ["Cohort", "Outcome"]

_log = logging.getLogger("reconvene.objects")

_NAME_LETTERS = 255
_WAITING = 1_024
"""Requests that wait at a coordinator; further ones are refused."""
_TELL_S = 0.2
"""What was answered is told to the group after this time, if no other message tells it before."""
_AGAIN_S = 0.1
"""What could not be sent is tried again after this time."""


class Outcome(msgspec.Struct, frozen=True):
    """Of a request that changes the cohort's data."""

    answer: bytes
    """For the caller."""
    update: bytes
    """For `data.apply`, at all members."""


Run = Callable[[bytes], Awaitable[bytes | Outcome]]


class Key(NamedTuple):
    """A request's."""

    caller: Process
    number: int


class _Done(msgspec.Struct, array_like=True, tag="done", frozen=True):
    """By the coordinator."""

    key: Key
    kind: Kind
    answer: bytes
    update: bytes | None
    told: list[Key]


class _Told(msgspec.Struct, array_like=True, tag="told", frozen=True):
    """The callers of these requests have their answers, or are gone."""

    keys: list[Key]


_message: msgspec.msgpack.Decoder[Request | _Done | _Told] = msgspec.msgpack.Decoder(Request | _Done | _Told)


class _Open(msgspec.Struct):
    """A request that is not done."""

    request: bytes
    coordinator: Process


class _Answered(msgspec.Struct):
    """A request that is done, and whose caller may not have the answer."""

    kind: Kind
    answer: bytes
    coordinator: Process


class _State(msgspec.Struct, array_like=True):
    """For a newcomer."""

    open: list[tuple[Key, _Open]]
    done: list[tuple[Key, _Answered]]
    data: bytes | None


class Cohort(Member):
    """A member of the group. `await cohort.call(request)` calls it, as `CohortCaller.call` does."""

    def __init__(
        self,
        isis: Isis,
        name: str,
        run: Run,
        *,
        data: Copy | None = None,
        at_once: int = 16,
        last_to_fail: bool = False,
    ) -> None:
        """run: what the coordinator does with a request; returns the answer, or an Outcome. Where it raises Rejected,
        the caller gets that; where it raises something else, the caller gets OutcomeUnknown.
        data: what requests change, as of `ReplicatedData`; newcomers get its state.
        at_once: requests that this member runs at the same time."""
        super().__init__(isis, check_text(name, "name", _NAME_LETTERS), last_to_fail=last_to_fail)
        if not callable(run):
            raise TypeError(f"run: a coroutine function expected, not {type(run).__name__}")
        self._run = run
        self._data = data
        self._caller = CohortCaller(isis, name)
        self._open: dict[Key, _Open] = {}
        self._done: dict[Key, _Answered] = {}
        self._casts: dict[Key, Cast] = {}
        """Requests that this member has to reply to once they are answered."""
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: list[Key] = []
        """Answered by this member; the group has still to be told."""
        self._telling: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(check_count(at_once, "at_once", 1))

    async def __aenter__(self) -> Self:
        await self._caller.__aenter__()
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, traceback)
        await self._caller.__aexit__(kind, error, traceback)

    async def call(self, request: Data, timeout: float | None = None) -> bytes:
        """As `CohortCaller.call`."""
        return await self._caller.call(request, timeout)

    # -- what comes

    def received(self, cast: Cast | Action) -> None:
        try:
            message = _message.decode(cast.data)
        except (msgspec.DecodeError, ValueError):
            return
        match message:
            case Request(number, request) if isinstance(cast, Cast):
                key = Key(cast.sender, number)
                self._open[key] = _Open(request, self._nearest(cast.sender))
                if cast.wants_reply:
                    self._casts[key] = cast
                self._start(key)
            case _Done(key=key, told=told):
                self._settle(told)
                request_ = self._open.get(key)
                if request_ is not None and request_.coordinator == cast.sender:
                    del self._open[key]
                    self._finish(key, message, cast.sender)
            case _Told(keys):
                self._settle(keys)

    def _finish(self, key: Key, done: _Done, coordinator: Process) -> None:
        self._done[key] = _Answered(done.kind, done.answer, coordinator)
        if self._data is not None and done.update is not None:
            self._data.apply(done.update, coordinator)
        self._send_answer(key)

    def _settle(self, keys: list[Key]) -> None:
        for key in keys:
            self._done.pop(key, None)
            self._reply(key, ANSWERED)

    def viewed(self, view: GroupView) -> None:
        for key, request in list(self._open.items()):
            if request.coordinator not in view.members:
                request.coordinator = self._nearest(key.caller)
                self._start(key)
        for key, done in list(self._done.items()):
            if done.coordinator not in view.members:
                done.coordinator = self._nearest(key.caller)
                self._send_answer(key)

    def interrupted(self, error: ReconveneError) -> None:
        for task in (*self._running.values(), *self._tasks):
            task.cancel()
        self._running.clear()
        for key in list(self._casts):
            self._reply(key, b"")  # refused where the process was killed; where it leaves, it will not answer
        self._open.clear()
        self._done.clear()
        self._told.clear()

    def state(self) -> _State:
        data = None if self._data is None else self._data.snapshot()
        return _State(sorted(self._open.items(), key=_by_key), sorted(self._done.items(), key=_by_key), data)

    def restore(self, state: Any) -> None:
        taken = msgspec.convert(state, _State)
        self._open, self._done = dict(taken.open), dict(taken.done)
        if self._data is not None and taken.data is not None:
            self._data.restore(taken.data)

    # -- what the coordinator does

    def _start(self, key: Key) -> None:
        if self._open[key].coordinator == self._isis.me and key not in self._running:
            task = self._running[key] = asyncio.create_task(self._work(key, self._open[key].request))
            task.add_done_callback(lambda _: self._running.pop(key, None) if self._running.get(key) is task else None)

    async def _work(self, key: Key, request: bytes) -> None:
        if len(self._running) > _WAITING:
            why = f"{_WAITING} requests wait at this member of {self.name!r}: try again later"
            await self._cast_done(key, Kind.UNAVAILABLE, why.encode(), None)
            return
        kind, update = Kind.ANSWER, None
        async with self._room:
            try:
                found = await self._run(request)
                answer, update = (found.answer, found.update) if isinstance(found, Outcome) else (found, None)
                answer = as_bytes(answer)
            except Rejected as error:
                kind, answer = Kind.REJECTED, str(error).encode()
            except Exception as error:
                _log.exception("%s: a request failed", self.name)
                kind, answer = Kind.FAILED, f"it failed at {self._isis.me}: {type(error).__name__}: {error}".encode()
        await self._cast_done(key, kind, answer, update)

    async def _cast_done(self, key: Key, kind: Kind, answer: bytes, update: bytes | None) -> None:
        told, self._told = self._told, []
        done = _Done(key, kind, answer, update, told)
        try:
            await self._cast(self.name, done)
        except Rejected as error:  # it is too large
            await self._cast(self.name, _Done(key, Kind.FAILED, str(error).encode(), None, told))

    def _send_answer(self, key: Key) -> None:
        if self._done[key].coordinator == self._isis.me:
            self._spawn(self._answer(key, self._done[key]))

    async def _answer(self, key: Key, done: _Answered) -> None:
        with suppress(Rejected):  # the caller is gone
            await self._cast([key.caller], Answer(self.name, key.number, done.kind, done.answer))
        self._told.append(key)
        if self._telling is None:
            self._telling = self._spawn(self._tell())

    async def _tell(self) -> None:
        try:
            await asyncio.sleep(_TELL_S)
        finally:
            self._telling = None
        told, self._told = self._told, []
        if told:
            await self._cast(self.name, _Told(told))

    async def _cast(self, to: str | list[Process], message: _Done | _Told | Answer) -> None:
        """Under the default label: what is cast to the caller comes after what was cast to the group."""
        me = self._isis.me
        while self._isis.me == me:
            try:
                self._in_group()
                await self._isis.cbcast(msgspec.msgpack.encode(message), to)
                return
            except Unavailable:
                await asyncio.sleep(_AGAIN_S)  # it is blocked; where it is killed, this task is cancelled
            except OutcomeUnknown:
                return

    def _reply(self, key: Key, data: bytes) -> None:
        cast = self._casts.pop(key, None)
        if cast is not None:
            task = asyncio.create_task(_reply(cast, data))
            _REPLYING.add(task)
            task.add_done_callback(_REPLYING.discard)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


_REPLYING: set[asyncio.Task[None]] = set()
"""A task is kept by nobody else."""


async def _reply(cast: Cast, data: bytes) -> None:
    with suppress(ReconveneError):
        await cast.reply(data)


def _by_key(item: tuple[Key, object]) -> Key:
    return item[0]
