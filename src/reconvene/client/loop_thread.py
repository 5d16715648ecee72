"""An event loop in a background thread: what `reconvene.blocking` runs on.

A call hands its work over to the loop and waits. Objects may be used from any thread. Threads do not survive a fork:
connect in the process that uses the connection (in a Spark job, inside the function that runs on the executor).
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from reconvene.client.time_limits import check_limit, in_time
from reconvene.errors import Unavailable

__all__ = ["LoopThread", "Opened", "Twin", "background", "walked"]

T = TypeVar("T")
C = TypeVar("C", bound=AbstractAsyncContextManager[Any])


class LoopThread:
    """The thread, and its event loop."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = _new_event_loop()
        self.over = False
        """The block that began it has ended."""
        self._thread = threading.Thread(target=self._work, name="reconvene", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Waits for the work. A caller that stops waiting cancels it. Raises TimedOut after `timeout` s."""
        if self.over or not self.here:
            work.close()
            closed, forked = "the connection was closed here", "made before a fork: connect again in this process"
            raise Unavailable(closed if self.here else f"this connection was {forked}")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("reconvene.blocking: called from its own background thread, which would wait for ever")
        check_limit(timeout, work)
        done = self.start(work if timeout is None else in_time(timeout, work, f"no answer in {timeout} s"))
        try:
            return done.result()
        except CancelledError:
            raise Unavailable("the connection was closed here") from None
        except BaseException:
            done.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """One trip to the loop for each item."""

        while found := self.run(_some(items)):
            yield found[0]

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def notify(self, happened: asyncio.Event) -> None:
        self._loop.call_soon_threadsafe(happened.set)

    @property
    def here(self) -> bool:
        """Not in a copy of the process that a fork made."""
        return os.getpid() == self._pid

    def close(self) -> None:
        self.over = True
        if self.here:
            self.start(_end_all()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Twin(Generic[T]):
    """An object of the asynchronous API, and the thread whose loop it belongs to."""

    def __init__(self, thread: LoopThread, inner: T) -> None:
        self._thread = thread
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)


class Opened(Twin[C]):
    """One that is a context manager."""

    def __enter__(self) -> Self:
        self._thread.run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._thread.over:
            self._thread.run(self._inner.__aexit__(kind, error, traceback))


def walked(values: Any) -> Any:
    """Goes through an iterable in the caller's thread, where it may block, or use the connection. What is no
    iterable is left for the asynchronous method to refuse."""
    if isinstance(values, Iterable) and not isinstance(values, Sequence | memoryview):
        return list(values)
    return values


@contextmanager
def background(opening: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[tuple[LoopThread, T]]:
    """A thread, and what `opening` opens in its loop, for the length of a block."""
    thread = LoopThread()
    try:
        ready: Future[T] = Future()
        over = asyncio.Event()
        held = thread.start(_hold(opening, ready, over))
        held.add_done_callback(lambda done: _pass_on(done, ready))
        yield thread, ready.result()
    finally:
        if thread.here:
            thread.notify(over)
            wait([held])
        thread.close()


async def _some(items: AsyncIterator[T]) -> tuple[T, ...]:
    """The next item; none at the end."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return ()


async def _hold(
    opening: Callable[[], AbstractAsyncContextManager[T]], ready: "Future[T]", over: asyncio.Event
) -> None:
    """One task from beginning to end, as what it opens may expect."""
    async with opening() as opened:
        ready.set_result(opened)
        await over.wait()


def _pass_on(done: "Future[None]", ready: "Future[T]") -> None:
    """An error that keeps it from opening is raised to the caller."""
    if not ready.done():
        error = done.exception()
        ready.set_exception(Unavailable("it ended before it began") if error is None else error)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _end_all() -> None:
    """Cancels what other threads still wait for."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
