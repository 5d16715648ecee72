"""A log without a site: every step of it happens when a test says so."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

from msgspec.structs import replace

from reconvene.corel.batch import Kind
from reconvene.corel.events import Color
from reconvene.corel.following.messages import Answer, Ask
from reconvene.entries import EntryBatch
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import UNNAMED
from reconvene.room import UNBOUNDED, Room, Waiter
from reconvene.runtime.log.durable import DurableWaiters
from reconvene.runtime.log.finding import Finder
from reconvene.runtime.log.places import Places
from reconvene.wire.client_log import Append, Appended, Forward, Order, Part

__all__ = ["FakeLog", "Shared"]


Waiting = tuple[int, list[bytes], bytes | None, int, Kind]
"""(first, messages, session, number, kind)"""


class Shared:
    """What all replicas agree on: the order, and what is in it of client sessions."""

    def __init__(self) -> None:
        self.batches: list[EntryBatch] = []
        self.green = 0
        self.base = 0
        self.taken: dict[tuple[bytes, int], int] = {}
        """By session and number: the position where it counts."""
        self.sources: dict[int, tuple[bytes, int]] = {}
        self.logs: list[FakeLog] = []
        self.snapshots: dict[str, tuple[int, bytes]] = {}
        self.uses: dict[str, int] = {}
        """By name of a state machine in use: where it started."""


class FakeLog:
    """One replica. With `sync` and `order` on, appends become durable and ordered at the end of the loop's round."""

    def __init__(self, name: str = "a", shared: Shared | None = None) -> None:
        self.name = self.author = name
        self.shared = Shared() if shared is None else shared
        self.shared.logs.append(self)
        self.sync = True
        self.order = True
        self.most = 1_000_000
        self.trouble: str | None = None
        self.appends: list[tuple[int, bytes | None, int]] = []
        """(messages, session, number) of each call."""
        self.last = 0
        self.waiting: list[Waiting] = []
        """What has no position."""
        self.durable = DurableWaiters(0)
        self.places = Places()
        self._finder = Finder(self, self.places)
        self.room = Room(self.free)
        self.begins = False
        self.barriers: list[asyncio.Future[None]] = []
        self.moved: dict[int, Callable[[int], None]] = {}
        self.changed: dict[int, Callable[[list[tuple[Color, str, int, int, int]]], None]] = {}
        self.keys = count()
        self.replicas: list[object] = []
        self.expected: list[int] = []
        """Positions that somebody waits for."""

    # -- what a test does

    def turn(self) -> None:
        if self.sync:
            self.durable.reached(self.last)
        if self.order:
            self.order_all()

    def order_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            self._place(*each)
        if waiting:
            for log in self.shared.logs:
                for moved in list(log.moved.values()):
                    moved(self.green)
                for barrier in log.barriers:
                    if not barrier.done():
                        barrier.set_result(None)
            self.tell(Color.GREEN, waiting)
        self.room.wake()

    def _place(self, first: int, messages: list[bytes], session: bytes | None, number: int, kind: Kind) -> None:
        shared = self.shared
        void = []
        for at in range(len(messages)):
            if session is not None:
                self.shared.sources[shared.green + at] = (session, number + at)
                if (session, number + at) in shared.taken:
                    void.append(at)
                shared.taken.setdefault((session, number + at), shared.green + at)
        shared.batches.append(
            EntryBatch(shared.green, self.name, 1, first, first * 1_000, kind, messages, tuple(void))
        )
        for log in shared.logs:
            log.places.green(self.name, first, len(messages), shared.green)
        shared.green += len(messages)

    def change(self, data: bytes = b"replicas") -> None:
        """An entry that is not an application's."""
        self.last += 1
        self.shared.batches.append(EntryBatch(self.green, self.name, 1, self.last, 0, Kind.CHANGE, [data]))
        self.shared.green += 1

    def truncate(self, position: int) -> None:
        self.shared.base = position

    def tell(self, color: Color, waiting: Sequence[Waiting]) -> None:
        changes = [(color, self.name, 1, first, len(messages)) for first, messages, *_ in waiting]
        for changed in list(self.changed.values()):
            changed(changes)

    # -- the port

    @property
    def base(self) -> int:
        return self.shared.base

    @property
    def green(self) -> int:
        return self.shared.green

    def append(self, append: Append) -> Appended:
        messages, session, number, kind = append.messages, append.session, append.number, Kind(append.kind)
        if self.trouble is not None:
            raise Unavailable(self.trouble)
        if max(map(len, messages)) > 1_000_000:
            raise Rejected("a message that is too large")
        if self.free() < len(messages):
            raise Unavailable("no room")
        self.appends.append((len(messages), session, number))
        green = self.green
        taken = 0
        if session is not None:
            while taken < len(messages) and self._has(session, number + taken):
                taken += 1
        first = self.last + 1 - taken
        rest = list(messages[taken:])
        if rest:
            self.waiting.append((first + taken, rest, session, number + taken, kind))
            self.last += len(rest)
            asyncio.get_running_loop().call_soon(self.turn)
            self.tell(Color.RED, self.waiting[-1:])
        parts = [Part(taken, "", 0, 0, False)] if taken else []
        if rest:
            parts.append(Part(len(rest), self.author, 1, first + taken, True))
        return Appended(append.request, parts, green)

    def forward(self, forward: Forward) -> Appended:
        raise Rejected("no outpost forwards to it")

    def confirmed(self, session: bytes, first: int) -> list[tuple[int, int, int]]:
        return []

    def committed(self, session: bytes) -> tuple[int, int] | None:
        found = [(number, at) for (name, number), at in self.shared.taken.items() if name == session]
        return max(found, default=None)

    def cursor(self, session: bytes) -> tuple[int, bytes] | None:
        return None

    def cursors(self, after: bytes, most: int) -> list[tuple[bytes, int, bytes]]:
        return []

    def _has(self, session: bytes, number: int) -> bool:
        return (session, number) in self.shared.taken

    def free(self) -> int:
        if self.trouble is not None:
            return UNBOUNDED
        return max(0, self.most - sum(len(messages) for _, messages, *_ in self.waiting))

    def why_no_appends(self) -> str | None:
        return None

    def why_no_order(self) -> str | None:
        return None

    def when_room(self, count: int, enter: Callable[[], None]) -> Waiter:
        return self.room.when(count, enter)

    def ordered(self, counter: int) -> "asyncio.Future[int]":
        return asyncio.get_running_loop().create_task(self._ordered(counter))

    async def _ordered(self, counter: int) -> int:
        return (await self._finder.find(self.name, counter, 1, 0, False))[0][0]

    def find(self, order: Order) -> "asyncio.Future[list[tuple[int, int]] | None]":
        found: asyncio.Future[list[tuple[int, int]] | None] = asyncio.get_running_loop().create_task(
            self._finder.find(order.author, order.first, order.count, order.since, order.retried)
        )
        return found

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        if not self.base <= start <= self.green:
            raise Rejected(f"position {start} can't be read")
        found = []
        for batch in self.shared.batches:
            cut = max(0, start - batch.position)
            if cut >= len(batch.messages):
                continue
            void = tuple(at - cut for at in batch.void if at >= cut)
            found.append(
                EntryBatch(
                    batch.position + cut, batch.author, 1, batch.first + cut, batch.time, batch.kind_number,
                    batch.messages[cut:], void,
                )
            )  # fmt: skip
            messages -= len(found[-1].messages)
            size -= sum(map(len, found[-1].messages))
            if messages <= 0 or size <= 0:
                break
        return found

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        return [
            replace(batch, messages=[] if batch.kind == "data" else batch.messages, left_out=len(batch))
            for batch in self.read(start, 1 << 30, 1 << 30)[:batches]
        ]  # fmt: skip

    def counted(self, start: int, count: int) -> list[int | None]:
        shared = self.shared
        return [
            shared.taken[shared.sources[at]] if at in shared.sources else at for at in range(start, start + count)
        ]

    async def origin(self, position: int) -> int | None:
        return self.counted(position, 1)[0]

    def placed(self, start: int) -> Iterator[tuple[str, int, int, int]]:
        for batch in self.read(start, 1 << 30, 1 << 30):
            yield batch.author, batch.first, len(batch), batch.position

    def pending(self, messages: int, newest: bool = False) -> list[tuple[Color, EntryBatch]]:
        return [
            (Color.RED, EntryBatch(self.green, self.name, 1, first, 0, kind, datas))
            for first, datas, _, _, kind in self.waiting
            if kind is Kind.DATA
        ]

    def watch(self, moved: Callable[[int], None]) -> Callable[[], None]:
        key = next(self.keys)
        self.moved[key] = moved
        return partial(_drop, self.moved, key)

    def watch_colors(self, changed: Callable[[list[tuple[Color, str, int, int, int]]], None]) -> Callable[[], None]:
        key = next(self.keys)
        self.changed[key] = changed
        return partial(_drop, self.changed, key)

    def expect(self, position: int) -> None:
        self.expected.append(position)

    def answer_follower(self, ask: Ask, late: bool = False) -> Answer | None:
        raise Rejected("nobody follows this log")

    def barrier(self) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.waiting:
            self.barriers.append(future)
        else:
            future.set_result(None)
        return future

    def status(self) -> dict[str, object]:
        return {
            **{"enabled": True, "replica": True, "waits": None, "left_out": None, "number": 1, "phase": "open"},
            **{"primary": 1, "last_primary": 1, "base": self.base, "green": self.green, "yellow": 0, "red": 0},
            **{"unlogged": 0, "own": {"messages": 0, "bytes": 0}, "participants": [self.name], "strangers": []},
            **{"replicas": {}, "quorum": {"kind": "majority"}, "forced": False, "snapshot": {"lacks": False}},
            **{"malformed": 0, "storage": "ok"},
        }

    def snapshot(self, name: str = UNNAMED) -> tuple[int, int] | None:
        kept = self.shared.snapshots.get(name)
        return None if kept is None else (kept[0], len(kept[1]))

    def read_snapshot(self, offset: int, size: int, name: str = UNNAMED) -> bytes:
        return self.shared.snapshots[name][1][offset : offset + size]

    def save_snapshot(self, position: int, data: bytes, name: str = UNNAMED) -> "asyncio.Future[None]":
        if position > self.green:
            raise Rejected(f"position {position} is beyond the green line")
        self.shared.snapshots[name] = (position, data)
        return _done()

    def use_snapshot(self, name: str, start: int) -> "asyncio.Future[None]":
        self.shared.uses[name] = start
        return _done()

    def drop_snapshot(self, name: str) -> "asyncio.Future[None]":
        self.shared.snapshots.pop(name, None)
        self.shared.uses.pop(name, None)
        return _done()

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> "asyncio.Future[int]":
        self.replicas.append((add, remove, quorum))
        self.change()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(self.green - 1)
        return future

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        return {"lost": list(lost)}

    def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        return {"lost": list(lost), "orders": True}

    def check_readable(self) -> None:
        pass

    def init(self, without: Sequence[str] = ()) -> None:
        self.replicas.append(["init", *without])

    def force_lost(self, lost: Sequence[str]) -> None:
        self.replicas.append(list(lost))


def _done() -> "asyncio.Future[None]":
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


def _drop(watched: dict[int, Any], key: int) -> None:
    watched.pop(key, None)
