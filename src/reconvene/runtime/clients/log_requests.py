"""The log as one client of a site has it: its requests in, their answers out.

Given: the site's log. Promised: appends are taken in their order, and wait where the log has no room; what a client
may have unanswered is bounded, and none of it outlives its connection.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, assert_never

from reconvene.corel.batch import Kind
from reconvene.corel.keeping.snapshot_rows import MOST_NAMES
from reconvene.entries import EntryBatch
from reconvene.errors import OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.runtime.access.auth import Role
from reconvene.runtime.clients.output import ClientOutput
from reconvene.runtime.log.interface import Appended, LogPort
from reconvene.runtime.log.places import Places
from reconvene.runtime.log.transactions import check_kind, collected, refuse_commits
from reconvene.wire import client_log as wire
from reconvene.wire.clients import STAGING_MINOR, Told

__all__ = ["MOST_WAITING", "WINDOW_BYTES", "WINDOW_REQUESTS", "ClientLog", "last_own", "parts_of", "pending_of"]

WINDOW_REQUESTS = 1_024
WINDOW_BYTES = 4 << 20
"""Of Appends that a client may have unanswered: the same window as for Sends, counted by itself."""
MOST_WAITING = 16_384
"""Other requests of one client that may wait for the log at once."""
_NOT_YET_S = 0.01
_BATCH_BYTES = 64
_MESSAGE_BYTES = 5
_FIRST_LOOK = 64

T = TypeVar("T")


class ClientLog:
    def __init__(
        self,
        port: LogPort,
        out: ClientOutput,
        need: Callable[[Role, str], None],
        fail: Callable[[int, ReconveneError], None],
        red_messages: int,
        snapshot_bytes: int,
        minor: int,
    ) -> None:
        """`minor`: of the protocol, as the client speaks it."""
        self._port = port
        self._minor = minor
        self._out = out
        self._need = need
        self._fail = fail
        self._red_messages = red_messages
        self._snapshot_bytes = snapshot_bytes
        self._loop = asyncio.get_running_loop()
        self._queue: deque[wire.Append] = deque()
        """Those for which the log has no room."""
        self._open: dict[int, int] = {}
        """By request, of an Append that is not answered: bytes of its messages."""
        self._open_bytes = 0
        self._pump: asyncio.Task[None] | None = None
        self._ends: dict[int, Callable[[], object]] = {}
        """By request: what makes it wait no longer."""
        self._orders: set[int] = set()
        self._muted: set[int] = set()
        """Orders that nobody waits for any more."""
        self._fetches: dict[int, wire.Fetch] = {}
        """Those that wait for the log to grow."""
        self._unwatch: Callable[[], None] | None = None
        self._places = Places(port)
        self._uploads: dict[str, tuple[int, int, bytearray]] = {}
        """By name: position, bytes, and what is there of a snapshot that is being saved."""
        self._closed = False

    def receive(self, message: wire.LogRequest) -> None:
        """Raises Rejected where a client oversteps its window: its connection ends."""
        try:
            self._carry_out(message)
        except _Overstepped:
            raise
        except ReconveneError as error:
            self._fail(message.request, error)

    def close(self) -> None:
        self._closed = True
        self._queue.clear()
        self._open.clear()
        if self._pump is not None:
            self._pump.cancel()
        ends, self._ends = self._ends, {}
        for end in ends.values():
            end()
        if self._unwatch is not None:
            self._unwatch()
        self._places.close()
        self._uploads.clear()

    def _carry_out(self, message: wire.LogRequest) -> None:
        match message:
            case wire.Append():
                self._append(message)
            case wire.Order():
                self._order(message)
            case wire.Fetch():
                self._fetch(message)
            case wire.Collect(request=request):
                self._push(request, collected(self._port, message.ranges, message.size))
            case wire.LastCommit(request=request, session=session):
                self._tell(request, self._port.committed(session))
            case wire.Forget(request=request):
                self._forget(request)
            case wire.Pending():
                self._tell(message.request, *pending_of(self._port, message.messages))
            case wire.WatchColors():
                self._watch_colors(message.request)
            case wire.Barrier(request=request):
                passed = self._port.barrier()
                self._await(request, passed, lambda _: self._tell(request, self._port.green))
            case wire.LogStatus(request=request):
                self._tell(request, self._port.status(), 16 << 10)
            case wire.Snapshot(request=request, name=name):
                self._tell(request, self._port.snapshot(name))
            case wire.ReadSnapshot():
                self._read_snapshot(message)
            case wire.SaveSnapshot():
                self._save_snapshot(message)
            case wire.UseSnapshot(request=request, name=name):
                self._need(Role.ADMIN, "keep what a state machine needs of the log")
                self._await(
                    request, self._port.use_snapshot(name, message.start), lambda _: self._out.answer(request)
                )
            case wire.DropSnapshot(request=request, name=name):
                self._need(Role.ADMIN, "drop a snapshot of the log")
                self._await(request, self._port.drop_snapshot(name), lambda _: self._out.answer(request))
            case wire.ChangeReplicas(request=request):
                self._need(Role.ADMIN, "change the log's replicas")
                changed = self._port.change_replicas(add=message.add, remove=message.remove, quorum=message.quorum)
                self._await(request, changed, lambda position: self._tell(request, position))
            case wire.Losses(request=request, lost=lost):
                self._tell(request, self._port.losses(lost), 16 << 10)
            case wire.Init(request=request, without=without):
                self._need(Role.ADMIN, "begin a log")
                self._port.init(without)
                self._out.answer(request)
            case wire.ForceLost(request=request, lost=lost):
                self._need(Role.ADMIN, "give up replicas of the log")
                self._port.force_lost(lost)
                self._out.answer(request)
            case _:
                assert_never(message)

    def _tell(self, request: int, document: object, size: int = _BATCH_BYTES) -> None:
        self._out.push(Told(request, document), size)

    # -- waiting

    def _await(self, request: int, future: "asyncio.Future[T]", then: Callable[[T], None]) -> None:
        """Answers when it is done, unless it is forgotten before."""
        self._wait(request, future.cancel)
        future.add_done_callback(partial(self._done, request, then))

    def _wait(self, request: int, end: Callable[[], object]) -> None:
        if len(self._ends) >= MOST_WAITING or request in self._ends:
            end()
            raise _Overstepped(f"more than {MOST_WAITING} requests wait for the log, or two of one number")
        self._ends[request] = end

    def _forget(self, request: int) -> None:
        if request in self._orders:
            self._muted.add(request)  # the log goes on waiting for it, so it goes on counting
            return
        end = self._ends.pop(request, None)
        if end is not None:
            end()

    def _done(self, request: int, then: Callable[[T], None], future: "asyncio.Future[T]") -> None:
        self._orders.discard(request)
        if self._ends.pop(request, None) is None or request in self._muted:
            self._muted.discard(request)
            if not future.cancelled():
                future.exception()  # nobody waits any more
            return
        if future.cancelled():
            self._fail(request, Unavailable(f"site {self._port.name}: the log gave it up"))
            return
        error = future.exception()
        if error is None:
            then(future.result())
        elif isinstance(error, ReconveneError):
            self._fail(request, error)
        else:
            raise error

    # -- appends

    def _append(self, append: wire.Append) -> None:
        size = sum(map(len, append.messages))
        if len(self._open) > WINDOW_REQUESTS or self._open_bytes > WINDOW_BYTES or append.request in self._open:
            raise _Overstepped(f"more than {WINDOW_REQUESTS} appends or {WINDOW_BYTES} bytes were sent unanswered")
        self._need(Role.APPEND, "append to the log")
        check_kind(append.kind, append.messages)
        if len(append.messages) > self._red_messages:
            raise Rejected(f"{len(append.messages)} messages at once: at most log.red_messages, {self._red_messages}")
        if self._queue or self._port.room() < len(append.messages):
            self._opens(append.request, size)
            self._queue.append(append)
            if self._pump is None:
                self._pump = self._loop.create_task(self._drain())
        else:
            appended, green = self._take(append)
            self._opens(append.request, size)
            self._answer_when_durable(append, appended, green)

    def _opens(self, request: int, size: int) -> None:
        self._open[request] = size
        self._open_bytes += size

    def _take(self, append: wire.Append) -> tuple[Appended, int]:
        green = self._port.green
        return self._port.append(append.messages, append.session, append.number, Kind(append.kind)), green

    async def _drain(self) -> None:
        """While the log has no room. Its end is the end of waiting."""
        while self._queue and not self._closed:
            first = self._queue[0]
            try:
                await self._port.wait_for_room()
                if self._port.room() < len(first.messages):
                    await asyncio.sleep(_NOT_YET_S)  # there is room, but not for this
                    continue
                appended, green = self._take(first)
            except ReconveneError as error:
                self._answered(first.request)
                self._fail(first.request, error)
            else:
                self._answer_when_durable(first, appended, green)
            self._queue.popleft()
        self._pump = None

    def _answer_when_durable(self, append: wire.Append, appended: Appended, green: int) -> None:
        parts = parts_of(appended)
        answer = wire.Appended(append.request, parts, green)
        own = last_own(parts, self._port.name)
        if own:
            self._port.durable(own).add_done_callback(partial(self._durable, answer))
        else:
            self._answered(append.request)
            self._out.push(answer)

    def _durable(self, answer: wire.Appended, durable: "asyncio.Future[None]") -> None:
        if not self._answered(answer.request):
            if not durable.cancelled():
                durable.exception()
            return
        if durable.cancelled() or durable.exception() is not None:
            why = "" if durable.cancelled() else f": {durable.exception()}"
            self._fail(answer.request, OutcomeUnknown(f"site {self._port.name}: not known to be durable{why}"))
        else:
            self._out.push(answer)

    def _answered(self, request: int) -> bool:
        size = self._open.pop(request, None)
        self._open_bytes -= size or 0
        return size is not None

    def _order(self, order: wire.Order) -> None:
        future = self._places.find(order.author, order.first, order.count, order.since, order.retried)
        self._await(order.request, future, lambda places: self._out.push(wire.Ordered(order.request, places)))
        self._orders.add(order.request)

    # -- reading

    def _fetch(self, fetch: wire.Fetch) -> None:
        port = self._port
        port.check_readable()
        if not fetch.wait or fetch.start < port.green or fetch.start < port.base:
            self._fetched(fetch)
            return

        self._wait(fetch.request, lambda: self._fetches.pop(fetch.request, None))
        self._fetches[fetch.request] = fetch
        if self._unwatch is None:
            self._unwatch = port.watch(self._moved)

    def _moved(self, green: int) -> None:
        ready = [fetch for fetch in self._fetches.values() if fetch.start < green]
        for fetch in ready:
            del self._fetches[fetch.request], self._ends[fetch.request]
            try:
                self._fetched(fetch)
            except ReconveneError as error:
                self._fail(fetch.request, error)

    def _fetched(self, fetch: wire.Fetch) -> None:
        port = self._port
        batches: Sequence[EntryBatch] = []
        if port.base <= fetch.start < port.green:
            if fetch.bare:
                batches = port.headings(fetch.start, fetch.messages)
            else:
                batches = port.read(fetch.start, fetch.messages, fetch.size)
        if self._minor < STAGING_MINOR:
            refuse_commits(batches)
        self._push(fetch.request, batches)

    def _push(self, request: int, batches: Sequence[EntryBatch]) -> None:
        size = sum(map(_bytes_of, batches))
        self._out.push(wire.Fetched(request, self._port.base, self._port.green, list(batches)), size)

    def _watch_colors(self, request: int) -> None:
        def changed(changes: "list[tuple[object, str, int, int, int]]") -> None:
            told = [(str(getattr(color, "value", color)), *rest) for color, *rest in changes]
            self._out.push(wire.Colored(request, told), 48 * len(told))  # type: ignore[arg-type]

        self._wait(request, self._port.watch_colors(changed))  # type: ignore[arg-type]
        self._out.push(wire.Colored(request, []))  # from here on

    # -- snapshots

    def _read_snapshot(self, read: wire.ReadSnapshot) -> None:
        newest = self._port.snapshot(read.name)
        if newest is None or newest[0] != read.position:
            self._tell(read.request, None)
        else:
            piece = self._port.read_snapshot(read.offset, read.size, read.name)
            self._tell(read.request, piece, len(piece))

    def _save_snapshot(self, save: wire.SaveSnapshot) -> None:
        self._need(Role.ADMIN, "save a snapshot of the log")
        if save.total > self._snapshot_bytes:
            raise Rejected(f"a snapshot of {save.total} bytes: at most log.snapshot_bytes, {self._snapshot_bytes}")
        if save.offset == 0:
            self._begin_upload(save)
        begun = self._uploads.get(save.name)
        if begun is None or (begun[0], begun[1], len(begun[2])) != (save.position, save.total, save.offset):
            self._uploads.pop(save.name, None)
            raise Rejected("a piece of a snapshot that does not follow the one before it")
        data = begun[2]
        data += save.data
        if len(data) < save.total:
            if not save.data:
                raise Rejected("an empty piece of a snapshot")
            self._out.answer(save.request)
            return
        del self._uploads[save.name]
        if len(data) > save.total:
            raise Rejected(f"a snapshot longer than the {save.total} bytes that were announced")
        saved = self._port.save_snapshot(save.position, bytes(data), save.name)
        self._await(save.request, saved, lambda _: self._out.answer(save.request))

    def _begin_upload(self, save: wire.SaveSnapshot) -> None:
        """Snapshots of several names may come at the same time, within one limit."""
        self._uploads.pop(save.name, None)
        others = sum(total for _, total, _ in self._uploads.values())
        if save.total + others > self._snapshot_bytes:
            raise Rejected(
                f"snapshots of {save.total + others} bytes at the same time: at most log.snapshot_bytes, "
                f"{self._snapshot_bytes}"
            )
        if len(self._uploads) >= MOST_NAMES:
            raise Rejected(f"more than {MOST_NAMES} snapshots at the same time")
        self._uploads[save.name] = (save.position, save.total, bytearray())


class _Overstepped(Rejected):
    """The client breaks the protocol: its connection ends."""


def parts_of(appended: Appended) -> list[wire.Part]:
    """What became of an append, as clients are told."""
    return [
        wire.Part(part.count, part.author, part.incarnation, part.first, part.new, part.position)
        for part in appended.parts
    ]


def last_own(parts: list[wire.Part], site: str) -> int:
    """The counter of the last of them that may not be durable yet; 0: all of them are."""
    own = (part for part in parts if part.author == site and part.position is None)
    return max((part.first + part.count - 1 for part in own), default=0)


def pending_of(port: LogPort, messages: int) -> "tuple[tuple[int, list[_Listed]], int]":
    """((green line, what is not green …), about how many bytes that takes), as long as it is not too much."""
    most = min(messages, wire.FETCH_MESSAGES)
    look = min(most, _FIRST_LOOK)
    while True:
        # A little at first: a few messages may be all that there is room for.
        found = port.pending(look)
        size = sum(_bytes_of(batch) for _, batch in found)
        if look == most or size > wire.FETCH_BYTES // 4 or sum(map(len, (batch for _, batch in found))) < look:
            break
        look = min(most, 4 * look)
    listed: list[_Listed] = []
    size = 0
    for color, batch in found:
        if listed and size + _bytes_of(batch) > wire.FETCH_BYTES:
            break
        size += _bytes_of(batch)
        listed.append((color.value, batch.author, batch.incarnation, batch.first, batch.time, batch.messages))
    return (port.green, listed), size


_Listed = tuple[str, str, int, int, int, list[bytes]]


def _bytes_of(batch: EntryBatch) -> int:
    return _BATCH_BYTES + sum(map(len, batch.messages)) + _MESSAGE_BYTES * len(batch.messages)
