"""A resilient object: a class of yours with a copy at each of several processes, that goes on while one copy is left.

How it is made: the processes that have a copy are a group. A call is an ABCAST to all of them, so
all number the calls alike. One member, the *coordinator*, runs the operation; the others, its cohorts, keep the
call. All choose the same coordinator without asking: the member nearest to the caller's site. What the operation
changes and what it returns go to all members in one CBCAST. So either all of them have both, or none has, and then
a cohort runs the operation again: it sees in a view that the coordinator has failed, and all see that at the same
place. Calls that could disturb each other are run one after the other, in the order of their numbers.

    class Till:
        def __init__(self) -> None:
            self.sold: dict[str, int] = {}

        @operation(by="what")                    # calls with different `what` may run at the same time
        async def sell(self, work: Work, what: str, count: int) -> str:
            if self.sold.get(what, 0) + count > 10:
                return "sold out"
            work.change(self.add, what, count)   # at all members, together with the result
            return "sold"

        @change
        def add(self, what: str, count: int) -> None:
            self.sold[what] = self.sold.get(what, 0) + count

        def snapshot(self) -> object:
            return self.sold

        def restore(self, state: dict[str, int]) -> None:
            self.sold = state

    async with ResilientObject(site.isis, "till", Till()) as till:
        print(await till.run(Till.sell, "tea", 3))
        print(till.copy.sold)               # this process's copy: at once, perhaps old
    till = ResilientCaller(site.isis, "till", Till)    # a process without a copy
    print(await till.run(Till.sell, "tea", 3))

A call of a process outside of the group asks all members for a reply. Each replies with the result when it has that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Concatenate, Generic

import msgspec

from reconvene.client.arguments import encoded
from reconvene.client.events import Process
from reconvene.client.isis import Isis
from reconvene.client.isis_events import Action, Cast, GroupView
from reconvene.errors import InvalidArgument, OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.objects.member import Member, answer_nothing
from reconvene.objects.operations import Ask, C, OperationFailed, P, R, Resilient, Result, change, make_ask, operation

__all__ = ["OperationFailed", "Resilient", "ResilientObject", "Work", "change", "operation"]

_log = logging.getLogger("reconvene.objects")

_REMEMBERED = 1_000
"""Calls behind the newest one whose results are remembered, for callers that were killed and come back."""
_RESULT_BYTES = 64 << 10
_CALLS = 64
"""Of one member that are under way; more wait."""
_AGAIN_S = 0.1


class Note(msgspec.Struct, array_like=True, tag="note", frozen=True):
    number: int
    value: Any


class Done(msgspec.Struct, array_like=True, tag="done", frozen=True):
    number: int
    changes: list[tuple[str, list[Any], dict[str, Any]]]
    result: Any = None
    error: str = ""


_cast = msgspec.msgpack.Decoder(Ask | Note | Done)


class Call(msgspec.Struct, array_like=True):
    """One that is not done."""

    ask: Ask
    caller: Process
    coordinator: Process
    attempt: int = 1
    notes: list[Any] = []


class Work:
    """What an operation gets besides its arguments."""

    def __init__(self, call: Call, send: Callable[[Any], Awaitable[None]]) -> None:
        self.id = call.ask.id.hex()
        """Of the call, the same for every attempt: for things outside that are to be done once."""
        self.attempt = call.attempt
        """1, and one more for each coordinator that has failed."""
        self.notes = tuple(call.notes)
        """What was noted at earlier attempts."""
        self._changes: list[tuple[str, list[Any], dict[str, Any]]] = []
        self._send = send

    def change(self, change: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Runs a method that is marked with `change`, at all members, once the operation has returned: all its
        changes, in their order, and together with its result."""
        if getattr(change, "__reconvene__", "") != "change":
            raise TypeError(f"change: a method marked with @change expected, not {change!r}")
        self._changes.append((change.__name__, list(args), dict(kwargs)))

    async def note(self, value: Any) -> None:
        """Tells the cohorts how far the operation is: whoever continues it finds this in `notes`. Returns when it is
        on its way."""
        await self._send(value)

    @property
    def changes(self) -> list[tuple[str, list[Any], dict[str, Any]]]:
        return self._changes


class ResilientObject(Member, Generic[C]):
    """flush: `run` returns when the result and its changes are everywhere they have to go, so that they stay even if
    this site is cut off or fails. False is quicker: it returns when this member has them."""

    def __init__(self, isis: Isis, name: str, copy: C, *, flush: bool = True, last_to_fail: bool = False) -> None:
        super().__init__(isis, name, last_to_fail=last_to_fail)
        for method in ("snapshot", "restore"):
            if not callable(getattr(copy, method, None)):
                raise TypeError(f"copy: an object with {method}() expected, not {type(copy).__name__}")
        self.copy = copy
        self._flush = bool(flush)
        self._number = 0
        """Of the newest call."""
        self._open: dict[int, Call] = {}
        """By number, in its order."""
        self._results: dict[int, Result] = {}
        """By number."""
        self._running: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[bytes, asyncio.Future[Result | None]] = {}
        """By id: own calls. None: this process was killed meanwhile."""
        self._room = asyncio.Semaphore(_CALLS)
        self._casts: dict[int, Cast] = {}
        """By number: calls from outside of the group that this member has to reply to."""
        self._replying: set[asyncio.Task[None]] = set()

    # -- calling

    async def run(
        self, operation: Callable[Concatenate[C, Work, P], Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Calls an operation, as in `till.run(Till.sell, "tea", 3)`. Its effect is there once, also where members
        fail meanwhile, or this process is killed and comes back. It waits while this is not the primary component.

        Arguments and result are what msgpack can hold. Raises OperationFailed where the operation raises,
        OutcomeUnknown where this process was away for too long to know, Unavailable when the object is over.
        """
        ask = make_ask(type(self.copy), operation, args, kwargs)
        data = encoded(ask, "arguments")
        async with self._room:
            result = await self._result(ask, data)
        return result.checked(ask.operation)  # type: ignore[no-any-return]

    async def _result(self, ask: Ask, data: bytes) -> Result:
        since: int | None = None
        while True:
            await self._ready()
            result = next((result for result in self._results.values() if result.id == ask.id), None)
            if result is None:
                is_open = any(call.ask.id == ask.id for call in self._open.values())
                if not is_open and since is not None and since < self._number - _REMEMBERED:
                    raise OutcomeUnknown(f"{ask.operation}: this process was away for more than {_REMEMBERED} calls")
                since = self._number
                result = await self._wait(ask.id, None if is_open else data)
            if result is not None and await self._is_everywhere():
                return result

    async def _wait(self, id_: bytes, data: bytes | None) -> Result | None:
        """`data`: it is still to be sent."""
        waiting: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = waiting
        try:
            if data is not None:
                await self._in_group().abcast(data, label=self.name, causal=True)
            return await waiting
        except Unavailable:
            await asyncio.sleep(_AGAIN_S)  # nothing was sent
            return None
        except OutcomeUnknown:
            return await waiting  # None, or the result where this process is not killed
        finally:
            del self._waiting[id_]

    async def _is_everywhere(self) -> bool:
        if self._flush:
            try:
                await self._isis.flush()
            except ReconveneError:
                return False  # this process is blocked or killed: what it has may be lost
        return True

    # -- the group

    def received(self, cast: Cast | Action) -> None:
        try:
            said = _cast.decode(cast.data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return  # of a stranger
        match said:
            case Ask() if isinstance(cast, Cast) and cast.kind == "abcast":
                self._number += 1
                self._results.pop(self._number - _REMEMBERED, None)
                self._open[self._number] = Call(said, cast.sender, self._nearest(cast.sender), notes=[])
                if cast.wants_reply:
                    self._casts[self._number] = cast
            case Note(number, value) if (call := self._coordinated(number, cast.sender)) is not None:
                call.notes.append(value)
            case Done(number) if (call := self._coordinated(number, cast.sender)) is not None:
                self._finish(call, said)
        self._start()

    def viewed(self, view: GroupView) -> None:
        for call in self._open.values():
            if call.coordinator not in view.members:
                call.coordinator = self._nearest(call.caller)
                call.attempt += 1
        self._start()

    def _coordinated(self, number: int, sender: Process) -> Call | None:
        call = self._open.get(number)
        return call if call is not None and call.coordinator == sender else None

    def _finish(self, call: Call, done: Done) -> None:
        error = done.error
        for name, args, kwargs in done.changes:
            try:
                method = getattr(self.copy, name, None)
                if getattr(method, "__reconvene__", "") != "change":
                    raise Rejected(f"{type(self.copy).__name__} has no change {name!r}")
                method(*args, **kwargs)  # type: ignore[misc]
            except Exception as raised:  # the same at every member, so that they stay alike
                _log.exception("%s: %s", self.name, name)
                error = error or f"{name}: {type(raised).__name__}: {raised}"
        del self._open[done.number]
        self._running.pop(done.number, None)
        result = Result(call.ask.id, done.result, error)
        if done.number > self._number - _REMEMBERED:
            self._results[done.number] = result
        waiting = self._waiting.get(result.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(result)
        cast = self._casts.pop(done.number, None)
        if cast is not None:
            self._spawn(self._reply(cast, result))

    async def _reply(self, cast: Cast, result: Result) -> None:
        """Where this process is killed meanwhile, it counts as failed."""
        with suppress(ReconveneError):
            await self._ready()
            while not await self._is_everywhere():
                await asyncio.sleep(_AGAIN_S)
                await self._ready()
            await cast.reply(encoded(result, "result"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._replying.add(task)
        task.add_done_callback(self._replying.discard)

    # -- running

    def _start(self) -> None:
        for number, call in self._may_run():
            if call.coordinator == self._isis.me and number not in self._running:
                self._running[number] = asyncio.create_task(self._run(number, call))

    def _may_run(self) -> Iterator[tuple[int, Call]]:
        """Those that no earlier one could disturb."""
        items: list[Any] = []
        for number, call in self._open.items():
            item = call.ask.item
            if (item is None and not items) or (item is not None and item not in items and None not in items):
                yield number, call
            items.append(item)

    async def _run(self, number: int, call: Call) -> None:
        async def note(value: Any) -> None:
            await self._send(encoded(Note(number, value), "note"))

        ask = call.ask
        work = Work(call, note)
        try:
            function = getattr(self.copy, ask.operation, None)
            if getattr(function, "__reconvene__", "") != "operation":
                raise Rejected(f"{type(self.copy).__name__} has no such operation")
            result = await function(work, *ask.arguments, **ask.named)  # type: ignore[misc]
            if len(encoded(result, "result")) > _RESULT_BYTES:
                raise InvalidArgument(f"result: at most {_RESULT_BYTES} bytes expected")
            done = encoded(Done(number, work.changes, result), "changes")
        except Exception as error:
            _log.exception("%s: %s", self.name, ask.operation)
            done = encoded(Done(number, [], None, f"{type(error).__name__}: {error}"), "error")
        await self._send(done)

    async def _send(self, data: bytes) -> None:
        """Where this process is killed meanwhile, the task is cancelled, and another member goes on."""
        while True:
            await self._ready()
            try:
                await self._in_group().cbcast(data)
                return
            except Unavailable:
                await asyncio.sleep(_AGAIN_S)  # nothing was sent: the site is blocked

    # -- state

    def state(self) -> Any:
        return (
            self._number,
            list(self._open.items()),
            sorted(self._results.items(), key=_number),
            self.copy.snapshot(),
        )

    def restore(self, state: Any) -> None:
        kind = tuple[int, list[tuple[int, Call]], list[tuple[int, Result]], Any]
        self._number, open_, results, copy = msgspec.convert(state, kind)
        self._open, self._results = dict(open_), dict(results)
        self.copy.restore(copy)

    def interrupted(self, error: ReconveneError) -> None:
        for task in self._running.values():
            task.cancel()
        self._running.clear()
        casts, self._casts = self._casts, {}
        for cast in casts.values():
            self._spawn(answer_nothing(cast))  # refused where it was killed; where it leaves, it will not have it
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)


def _number(result: tuple[int, Result]) -> int:
    return result[0]
