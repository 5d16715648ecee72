"""A replicated file, as in section 5.4 of the ISIS paper, and its caller, with real processes.

A caller asks the copy at its own site, which is the coordinator of the request (the paper's footnote 6), for some
updates: in the same program, or as a client of the site. The coordinator takes the write-lock by an ABCAST with the
item as its label, tells each update by a CBCAST, and replies.

    asynchronous    it has the lock when it receives its own ABCAST, since all copies receive the requests in that
                    order; it waits for no update
    synchronous     it waits until every copy has answered: for the lock, and for each update
"""

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from time import monotonic_ns

import reconvene
from reconvene.client.isis import Isis

__all__ = ["CALL", "FILE", "Copy", "Figures", "in_turns", "request"]

FILE = "file"
CALL = b"call "
"""The beginning of a request."""
_ITEM = "item"
_FURTHER, _WARM_UP = 10, 4
"""Further updates of the longer requests; turns that do not count."""


class Copy:
    """One copy. `receive` is called with each cast to the file's group, and with each call."""

    def __init__(self, isis: Isis) -> None:
        self._isis = isis
        self._locked: dict[str, asyncio.Future[None]] = {}
        """By the id of a lock request of this copy: it came back."""
        self._early: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.updates = 0

    def receive(self, cast: reconvene.Cast) -> None:
        if cast.data.startswith(CALL):
            task = asyncio.create_task(self._coordinate(cast))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        if cast.data.startswith(b"update"):
            self.updates += 1
        elif cast.sender == self._isis.me and not cast.wants_reply:
            locked = self._locked.pop(cast.id, None)
            if locked is None:
                self._early.add(cast.id)
            else:
                locked.set_result(None)
        if cast.wants_reply:
            task = asyncio.create_task(_reply(cast))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _coordinate(self, cast: reconvene.Cast) -> None:
        _, mode, updates = cast.data.split()
        await self.update(int(updates), synchronous=mode == b"synchronous")
        await cast.reply(b"done")

    async def update(self, updates: int, *, synchronous: bool) -> None:
        """As the coordinator."""
        replies = reconvene.ALL if synchronous else 0
        lock = await self._isis.abcast(b"lock".ljust(64), FILE, label=_ITEM, replies=replies)
        if synchronous:
            await lock.replies()
        else:
            await self._own(lock.id)
        for _ in range(updates):
            update = await self._isis.cbcast(b"update".ljust(64), FILE, replies=replies)
            if synchronous:
                await update.replies()

    async def _own(self, cast_id: str) -> None:
        """Until this copy has received its own ABCAST."""
        if cast_id in self._early:
            self._early.discard(cast_id)
            return
        locked = self._locked[cast_id] = asyncio.get_running_loop().create_future()
        await locked


async def _reply(cast: reconvene.Cast) -> None:
    await cast.reply(b"yes")


async def request(isis: Isis, coordinator: str, updates: int, *, synchronous: bool) -> None:
    """Asks for so many updates. Returns when the reply has come."""
    mode = b"synchronous" if synchronous else b"asynchronous"
    call = await isis.cbcast(CALL + b"%s %d" % (mode, updates), [coordinator], replies=1, timeout=30)
    await call.first()


Figures = dict[str, float]


async def in_turns(
    count: int, ask: Callable[[int, bool], Awaitable[None]], rest: Callable[[], Awaitable[None]]
) -> Figures:
    """The medians, in ms, of a request with one update, and of each further update, in both modes. They take turns in
    one order and then in the other, so that each kind follows each other one.

    ask: called with the number of updates, and whether to wait for them.
    rest: after each request; its time does not count.
    """
    kinds = [(synchronous, updates) for synchronous in (False, True) for updates in (1, 1 + _FURTHER)]
    took: dict[tuple[bool, int], list[float]] = {kind: [] for kind in kinds}
    for turn in range(_WARM_UP + count):
        for synchronous, updates in kinds if turn % 2 else reversed(kinds):
            began = monotonic_ns()
            await ask(updates, synchronous)
            if turn >= _WARM_UP:
                took[synchronous, updates].append((monotonic_ns() - began) / 1e6)
            await rest()
    figures = {}
    for synchronous, mode in ((False, "asynchronous"), (True, "synchronous")):
        one, more = (median(took[synchronous, updates]) for updates in (1, 1 + _FURTHER))
        figures[f"request, {mode}"] = one
        figures[f"further, {mode}"] = (more - one) / _FURTHER
    return figures
