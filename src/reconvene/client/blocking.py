"""The same without asyncio: for scripts, threads, and executors of a data pipeline.

One thread in the background has an event loop; every call hands its work over and waits. Objects may be used from
any thread. Threads do not survive a fork: connect in the process that uses the connection (in a Spark job, inside
the function that runs on the executor), not before it.
"""

import asyncio
import os
import ssl
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from reconvene.client import connecting
from reconvene.client import group as asynchronous
from reconvene.client import site as asynchronous_site
from reconvene.client.addresses import Addresses
from reconvene.client.arguments import check_timeout
from reconvene.client.blocking_log import Log
from reconvene.client.events import Batch, Blocked, Event, Process, Rejoined, View
from reconvene.client.group import Data
from reconvene.errors import InvalidArgument, ReconveneError, Unavailable
from reconvene.ids import Service
from reconvene.runtime.access.key_files import ClientKey
from reconvene.runtime.config.settings import Config, Limits

__all__ = ["Group", "LoopThread", "Site", "connect", "open"]

T = TypeVar("T")


@contextmanager
def open(config: Config | str | Path) -> Iterator["Site"]:  # noqa: A001
    """As `reconvene.open`: the site runs in the background thread."""
    from reconvene.client import local

    with _background(lambda: local.open(config)) as site:
        yield site


@contextmanager
def connect(
    addresses: Addresses,
    *,
    key: ClientKey | str | Path | None = None,
    key_name: str | None = None,
    tls: ssl.SSLContext | str | Path | bool = False,
    timeout: float = connecting.TIMEOUT_S,
    wait: float = 0.0,
    limits: Limits | None = None,
    return_to_first: bool = True,
) -> Iterator["Site"]:
    """As `reconvene.connect`."""
    with _background(
        lambda: connecting.connect(
            addresses,
            key=key,
            key_name=key_name,
            tls=tls,
            timeout=timeout,
            wait=wait,
            limits=limits,
            return_to_first=return_to_first,
        )
    ) as site:
        yield site


class Site:
    """As `reconvene.Site`; each call waits."""

    def __init__(self, thread: "LoopThread", site: asynchronous_site.Site) -> None:
        self._thread = thread
        self._site = site

    @property
    def name(self) -> str:
        return self._site.name

    @property
    def connected(self) -> bool:
        return self._site.connected

    @property
    def cluster(self) -> str:
        return self._site.cluster

    @property
    def sites(self) -> tuple[str, ...]:
        return self._site.sites

    @property
    def log(self) -> Log:
        return Log(self._thread, self._site.log)

    def join(
        self, name: str, *, primary: bool = False, receive: bool = True, timeout: float | None = None
    ) -> "Group":
        """Raises TimeoutError if there is no view in `timeout` s; then the group is not joined."""
        joined = self._thread.run(self._site.join(name, primary=primary, receive=receive), timeout)
        return Group(self._thread, joined)

    def status(self) -> dict[str, object]:
        return self._thread.run(self._site.status())

    def health(self) -> str:
        return self._thread.run(self._site.health())

    def block(self, incoming: Iterable[str] = (), outgoing: Iterable[str] = ()) -> None:
        self._thread.run(self._site.block(incoming, outgoing))

    def stop(self) -> None:
        self._thread.run(self._site.stop())


class Group:
    """As `reconvene.Group`; each call waits. Several threads may read: each event goes to one of them."""

    def __init__(self, thread: "LoopThread", group: asynchronous.Group) -> None:
        self._thread = thread
        self._group = group
        self._reading = threading.Lock()
        self._drained: deque[Batch | View | Blocked | Rejoined] = deque()
        self._events: Iterator[Event] = iter(())

    @property
    def name(self) -> str:
        return self._group.name

    @property
    def me(self) -> Process:
        return self._group.me

    @property
    def view(self) -> View:
        """The last one that reached the background thread; the view of what is being read is the one read last."""
        return self._group.view

    @property
    def blocked(self) -> bool:
        return self._group.blocked

    def send(
        self, data: Data, service: Service | str = Service.AGREED, to: Iterable[Process | str] | None = None
    ) -> None:
        self._thread.run(self._group.send(data, service, to))

    def send_many(
        self,
        payloads: Iterable[Data],
        service: Service | str = Service.AGREED,
        to: Iterable[Process | str] | None = None,
    ) -> int:
        """`payloads` is walked through in this thread: it may block, and it may use this group."""
        sent = 0
        for piece in asynchronous.slices(payloads):
            try:
                sent += self._thread.run(self._group.send_many(piece, service, to))
            except ReconveneError as error:
                error.taken += sent
                raise
        return sent

    def leave(self) -> None:
        self._thread.run(self._group.leave())

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Until the group is left; with `timeout`, also until nothing comes for so many s."""
        while True:
            try:
                event = self._next(timeout)
            except TimeoutError:
                return
            if event is None:
                return
            yield event

    def next(self, timeout: float | None = None) -> Event:
        """Raises TimeoutError where nothing comes in `timeout` s, Unavailable where nothing will."""
        event = self._next(timeout)
        if event is None:
            raise Unavailable(f"group {self.name!r}: this process left it")
        return event

    def batches(self, timeout: float | None = None) -> Iterator[Batch | View | Blocked | Rejoined]:
        """As `events`, with messages in batches."""
        while True:
            with self._reading:
                try:
                    if not self._drained and not self._fetch(timeout):
                        return
                except TimeoutError:
                    return
                batch = self._drained.popleft()
            yield batch

    def _next(self, timeout: float | None) -> Event | None:
        with self._reading:
            while True:
                event = next(self._events, None)
                if event is not None:
                    return event
                if not self._drained and not self._fetch(timeout):
                    return None
                first = self._drained.popleft()
                self._events = first.messages() if isinstance(first, Batch) else iter((first,))

    def _fetch(self, timeout: float | None) -> bool:
        """One trip to the background thread for all that waits there. False: the end."""
        try:
            self._drained += self._thread.run(self._group.wait_and_drain(), timeout)
        except Unavailable:
            if not self._thread.over:
                raise
        return bool(self._drained)


class LoopThread:
    """An event loop in the background."""

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
        """Waits for it; who gives up waiting gives up the work too."""
        if self.over or not self.here:
            work.close()
            closed, forked = "the connection was closed here", "made before a fork: connect again in this process"
            raise Unavailable(closed if self.here else f"this connection was {forked}")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("reconvene.blocking: called from its own background thread, which would wait for ever")
        try:
            check_timeout(timeout)
        except (TypeError, InvalidArgument):
            work.close()
            raise
        done = self.start(work if timeout is None else _limited(work, timeout))
        try:
            return done.result()
        except CancelledError:
            raise Unavailable("the connection was closed here") from None
        except BaseException:
            done.cancel()
            raise

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


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _limited(work: Coroutine[Any, Any, T], timeout: float) -> T:
    async with asyncio.timeout(timeout):
        return await work


async def _end_all() -> None:
    """Whoever still waits in another thread is told that it is over."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


@contextmanager
def _background(opening: Callable[[], AbstractAsyncContextManager[asynchronous_site.Site]]) -> Iterator[Site]:
    thread = LoopThread()
    try:
        ready: Future[asynchronous_site.Site] = Future()
        over = asyncio.Event()
        held = thread.start(_hold(opening, ready, over))
        held.add_done_callback(lambda done: _pass_on(done, ready))
        yield Site(thread, ready.result())
    finally:
        if thread.here:
            thread.notify(over)
            wait([held])
        thread.close()


async def _hold(
    opening: Callable[[], AbstractAsyncContextManager[asynchronous_site.Site]],
    ready: Future[asynchronous_site.Site],
    over: asyncio.Event,
) -> None:
    """One task from beginning to end, as what it opens may expect."""
    async with opening() as site:
        ready.set_result(site)
        await over.wait()


def _pass_on(done: Future[None], ready: Future[asynchronous_site.Site]) -> None:
    """What keeps it from opening is what the caller gets to see."""
    if not ready.done():
        error = done.exception()
        ready.set_exception(Unavailable("it ended before it began") if error is None else error)
