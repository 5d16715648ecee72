"""An asyncio event loop in virtual time.

Given: coroutines that know nothing of it. Promised: the clock stands still while anything is ready, and then jumps
to what comes next, so a test that sleeps for an hour takes no time; the same program takes the same steps in the same
order each time it runs. Callbacks run in the order in which they became ready, timers that are due at the same moment
in the order in which they were set. Tasks and futures hash by their number, not by their address, so a set of them is
the same set in every run.

What can't be simulated is refused: threads, sockets, processes, signals. Connections between the cluster's machines
are simulated (`testing.stream`).
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from heapq import heappop
from itertools import count
from random import Random
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from reconvene.sim.durations import show_duration
from reconvene.sim.loop import Loop
from reconvene.testing.errors import NotSimulated, Stuck, TimedOut
from reconvene.testing.process import Process, owner_of, process_of
from reconvene.testing.streams import Streams
from reconvene.testing.waiting import is_own_task, task_of, what_waits

__all__ = ["SimLoop", "SimWorld"]

EPOCH_NS = 1_767_225_600_000_000_000
"""When simulated clocks begin: 2026-01-01 UTC."""
_COLLECT_EVERY = 100_000
"""Callbacks between two collections of garbage. Left to itself, it would run at other moments in every environment,
and what it finds may have a finalizer."""
_QUIET_NS = 60_000_000_000
"""When no task of the test or of its programs has taken a step for this long, it is looked at whether one ever
will."""
_HOPELESS_NS = 600_000_000_000
"""The same where only the client's own tasks go on: such as one that looks for a site that is never started."""

_MOST_AWAITS = 100
"""Of `finally` blocks of a coroutine that is closed at the end."""

T = TypeVar("T")
P = TypeVar("P", bound=asyncio.BaseProtocol)
Ts = TypeVarTuple("Ts")


class SimWorld:
    """The time and randomness of a simulation: see reconvene.world."""

    def __init__(self, timeline: Loop, random: Random) -> None:
        self._timeline = timeline
        self._random = random

    def monotonic_ns(self) -> int:
        return self._timeline.now

    def time_ns(self) -> int:
        return EPOCH_NS + self._timeline.now

    def random_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


class _Numbered:
    """Hashes by the order of creation."""

    _number: int

    def __hash__(self) -> int:
        return self._number


class _SimFuture(_Numbered, asyncio.Future[Any]):
    pass


class SimTask(_Numbered, asyncio.Task[Any]):
    def __init__(self, number: int, coro: Any, context: Context, **keywords: Any) -> None:
        self._number = number  # first: asyncio puts a task into a set while it is being made
        self.owner = process_of(context)
        self.is_own = is_own_task(coro)
        super().__init__(coro, context=context, **keywords)


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self, random: Random, limit_ns: int) -> None:
        super().__init__()
        self.timeline = Loop()
        self.world = SimWorld(self.timeline, random)
        self.fault: BaseException | None = None
        """Of a site: an error of Reconvene's own, which ends the run."""
        self.streams: Streams | None = None
        """Connections between the cluster's machines, once there are some."""
        self._limit_ns = limit_ns
        self._numbers = count()
        self._ready: Any  # a deque of handles: asyncio.BaseEventLoop's own
        self._runs = 0
        self._stepped_at = 0
        """When a task of the test or of a program last took a step."""
        self._look_at = _QUIET_NS
        """When it is looked at whether one ever will again."""
        self.tasks: list[SimTask] = []
        """All of them, so that one of a dead process is not closed before the end."""
        self.set_exception_handler(self._handle_exception)

    # -- time

    def time(self) -> float:
        return self.timeline.now / 1e9

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self.timeline.at(max(round(when * 1e9), self.timeline.now), self._ready.append, timer)
        return timer

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._thread_id not in (None, threading.get_ident()):  # type: ignore[attr-defined]
            _refuse("a thread")
        return self.call_soon(callback, *args, context=context)

    def _run_once(self) -> None:
        """What asyncio's loop does in one round, without waiting for anything outside."""
        ready = self._ready
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            self._advance()
        for _ in range(len(ready)):
            handle: asyncio.Handle = ready.popleft()
            if handle.cancelled():
                continue
            owner = owner_of(handle)
            if owner is None:
                self._stepped(handle)
            elif owner.dead:
                continue
            elif owner.paused:
                owner.held.append(handle)
                continue
            elif not owner.is_site:
                self._stepped(handle)
            self._runs += 1
            if self._runs % _COLLECT_EVERY == 0:
                gc.collect()
            handle._run()
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault

    def _stepped(self, handle: asyncio.Handle) -> None:
        task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
        if isinstance(task, SimTask) and not task.is_own:
            self._stepped_at = self.timeline.now

    def _advance(self) -> None:
        timeline = self.timeline
        heap = timeline.heap
        while heap and isinstance(heap[0][3], asyncio.TimerHandle) and heap[0][3].cancelled():
            heappop(heap)
        if not heap:
            raise Stuck(f"at {show_duration(timeline.now)} nothing can happen any more. {what_waits(self.tasks)}")
        at = heap[0][0]
        if at > self._limit_ns:
            raise TimedOut(
                f"the scenario has not ended after {show_duration(self._limit_ns)} of virtual time, its limit. "
                f"{what_waits(self.tasks)}"
            )
        if at > self._look_at:
            self._look_whether_stuck()
        timeline.run(at)

    def _look_whether_stuck(self) -> None:
        """Sites and heartbeats go on for ever. If nothing else is to come, the test would wait for ever."""
        now = self.timeline.now
        self._look_at = max(self._stepped_at, now) + _QUIET_NS
        quiet_ns = now - self._stepped_at
        if quiet_ns < _QUIET_NS:
            return
        for _, _, _, timer in self.timeline.heap:
            if isinstance(timer, asyncio.TimerHandle) and self._may_wake(timer, hopeless=quiet_ns >= _HOPELESS_NS):
                return
        raise Stuck(
            f"at {show_duration(self.timeline.now)} the test waits for something that nothing will bring about. "
            f"{what_waits(self.tasks)}"
        )

    def _may_wake(self, timer: asyncio.TimerHandle, hopeless: bool) -> bool:
        """Whether something may come of it for the test."""
        owner = owner_of(timer)
        if timer.cancelled() or (owner is not None and (owner.is_site or owner.dead)):
            return False
        if getattr(timer._callback, "__func__", None) in HEARTBEATS:  # type: ignore[attr-defined]
            return False
        task = task_of(timer)
        return not (hopeless and isinstance(task, SimTask) and task.is_own)

    def resume(self, process: Process) -> None:
        process.paused = False
        held, process.held = process.held, []
        self._ready.extend(held)

    # -- tasks and futures

    def create_future(self) -> asyncio.Future[Any]:
        future = _SimFuture(loop=self)
        future._number = next(self._numbers)
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        self._check_closed()  # type: ignore[attr-defined]
        number = next(self._numbers)
        # asyncio counts tasks over the whole process, so its default names differ from run to run.
        label = f"task-{number}" if name is None else str(name)
        task = SimTask(number, coro, copy_context() if context is None else context, loop=self, name=label)
        self.tasks.append(task)
        if len(self.tasks) % 1024 == 0:
            self.tasks = [known for known in self.tasks if not known.done()]
        return task

    async def cancel_others(self) -> None:
        """Ends the tasks of the test that its scenario has left behind, as asyncio.run does."""
        own = asyncio.current_task()
        others = [task for task in self.tasks if task.owner is None and task is not own and not task.done()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def end(self) -> None:
        """Closes the loop, and whatever was still running in it."""
        self.close()
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
        self.tasks.clear()

    def _handle_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        handle = context.get("handle")
        owner = None if handle is None else owner_of(handle)
        error = context.get("exception")
        if owner is not None and owner.is_site and isinstance(error, BaseException):
            self.fault = error
        else:
            self.default_exception_handler(context)

    # -- connections

    async def create_connection(
        self,
        protocol_factory: Callable[[], P],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        **keywords: Any,
    ) -> tuple[asyncio.Transport, P]:
        return await self._streams_for(ssl, keywords).connect(protocol_factory, host or "", port or 0)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: object = None,
        port: int | None = None,
        *,
        ssl: object = None,
        **keywords: Any,
    ) -> asyncio.AbstractServer:
        streams = self._streams_for(ssl, keywords)
        return streams.listen(protocol_factory, host if isinstance(host, str) else "", port or 0)

    def _streams_for(self, ssl: object, keywords: dict[str, Any]) -> Streams:
        if ssl:
            _refuse("TLS")
        if keywords.get("sock") is not None or self.streams is None:
            _refuse("a real socket")
        return self.streams

    def _write_to_self(self) -> None:
        """There is no one to wake."""

    def _process_events(self, event_list: object) -> None:
        """There are none."""


_NOT_SIMULATED = {
    **dict.fromkeys(("run_in_executor", "set_default_executor"), "a thread (run_in_executor, asyncio.to_thread)"),
    **dict.fromkeys(("getaddrinfo", "getnameinfo"), "the resolver of host names"),
    **dict.fromkeys(
        ("add_reader", "add_writer", "create_datagram_endpoint", "connect_accepted_socket", "sock_accept",
         "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_sendall", "sock_sendfile",
         "sock_sendto", "sendfile", "start_tls"),
        "a real socket",
    ),
    **dict.fromkeys(
        ("create_unix_connection", "create_unix_server"), "a Unix socket; the cluster's addresses are simulated:"
    ),
    **dict.fromkeys(("add_signal_handler", "remove_signal_handler"), "a signal"),
    **dict.fromkeys(("connect_read_pipe", "connect_write_pipe"), "a pipe"),
    **dict.fromkeys(("subprocess_exec", "subprocess_shell"), "a subprocess"),
}  # fmt: skip
"""Methods of an event loop, and what they would need from outside."""


def _refuse(what: str) -> NoReturn:
    raise NotSimulated(f"{what}: can't be used in a simulated event loop; docs/testing.md says what can")


def _refusing(what: str) -> Callable[..., NoReturn]:
    def method(loop: SimLoop, *arguments: object, **keywords: object) -> NoReturn:
        _refuse(what)

    return method


for _name, _what in _NOT_SIMULATED.items():
    setattr(SimLoop, _name, _refusing(_what))


def _close(coroutine: Any) -> None:
    """Of a process that is dead: its `finally` blocks have nobody to await any more."""
    for _ in range(_MOST_AWAITS):
        try:
            coroutine.close()
        except RuntimeError:  # it went on to await something
            continue
        except Exception:
            return
        return


HEARTBEATS: set[Any] = set()
"""Methods that a client calls for ever while it is only connected; the cluster names them."""
