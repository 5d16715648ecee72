"""The polls: a booth at every site, all opened and closed together, and the one voter whose answer is lost."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from reconvene.client.connecting import connect
from reconvene.lab.demo.lost_answer import LossyLine
from reconvene.lab.demo.result import Lost
from reconvene.lab.demo.voters import Booth, Box, cast
from reconvene.local import LocalCluster

__all__ = ["Polls"]

LEANINGS = {"a": (5, 3, 2), "b": (4, 4, 2), "c": (4, 3, 3), "d": (1, 3, 6), "e": (2, 2, 6)}
"""By site, the weights of Ada, Bo and Cleo there: a minority may want another mayor."""
_CHOICE = "Bo"
"""The choice of the voter whose answer is lost."""
_POLL_S = 0.05


class Polls:
    """`async with Polls(…) as polls:`; connections stay open until the block is left, because receipts need them."""

    def __init__(self, cluster: LocalCluster, gap_s: float, seed: int) -> None:
        self.box = Box()
        self._cluster = cluster
        self._gap_s = gap_s
        self._seed = seed
        self._booths: dict[str, Booth] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self.answer_is_lost = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def add(self, name: str, elsewhere: Sequence[str] = ()) -> None:
        """Adds a booth at the site, in place of an earlier one there. If the site is down, its voters use
        `elsewhere`."""
        addresses = [self._cluster.addresses[site] for site in (name, *elsewhere)]
        site = await self._stack.enter_async_context(connect(addresses))
        if name in self._booths:
            await self._booths[name].hold()
        booth = Booth(name, site, self.box, LEANINGS[name], self._gap_s, self._seed)
        self._booths[name] = booth
        self._tasks.append(asyncio.ensure_future(booth.run()))

    def open(self) -> None:
        for booth in self._booths.values():
            booth.open()

    async def hold(self) -> None:
        """No more voters; returns when every voter has a receipt."""
        await asyncio.gather(*(booth.hold() for booth in self._booths.values()))

    def pace(self, gap_s: float) -> None:
        """Sets the time between two voters of a booth."""
        self._gap_s = gap_s
        for booth in self._booths.values():
            booth.gap_s = gap_s

    async def votes(self, count: int) -> None:
        """Waits for so many more votes at each booth. Raises the exception of a booth that ended."""
        before = self._counts()
        while any(now - before[name] < count for name, now in self._counts().items()):
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(_POLL_S)

    def receipts(self) -> int:
        """How many voters have a receipt."""
        return self._counts().total()

    def _counts(self) -> Counter[str]:
        found = Counter(dict.fromkeys(self._booths, 0))
        found.update(vote.booth for vote in self.box.votes if vote.receipt is not None)
        return found

    async def lose_an_answer(self, at: str, elsewhere: Sequence[str], kill: Callable[[], Awaitable[None]]) -> Lost:
        """A voter votes at the site; `kill` is called after the site has answered and before the voter gets the
        answer."""
        addresses = self._cluster.addresses
        vote = self.box.add(_CHOICE, at)
        async with LossyLine(addresses[at]) as line:
            site = await self._stack.enter_async_context(
                connect([line.path, *(addresses[name] for name in elsewhere)])
            )
            casting = asyncio.ensure_future(cast(vote, site))
            try:
                await line.lost.wait()
                self.answer_is_lost = True
                await kill()
                receipt = await casting
            finally:
                casting.cancel()
        return Lost(vote.voter, at, site.name, receipt.duplicate)
