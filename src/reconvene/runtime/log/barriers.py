"""Clients that wait for a barrier. All clients that ask in the same turn share one barrier."""

import asyncio

from reconvene.corel.replica import Replica
from reconvene.errors import ReconveneError, Unavailable

__all__ = ["BarrierWaiters"]

_MOST = 100_000
"""The most clients that may wait at once."""
_LOOK_AT = 1_024


class BarrierWaiters:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._asking: list[asyncio.Future[None]] = []
        """The next turn asks for one barrier for all of these."""
        self._asked: dict[int, list[asyncio.Future[None]]] = {}
        self.waiting = 0
        """How many futures `_asking` and `_asked` hold together."""
        self._look_at = _LOOK_AT
        """When this many wait, `wait` first removes the futures that were cancelled."""

    def wait(self) -> "asyncio.Future[None]":
        """Raises Unavailable if too many clients wait."""
        if self.waiting >= self._look_at:
            self._forget_done()
        if self.waiting >= _MOST:
            raise Unavailable(f"{_MOST} clients wait for a barrier already")
        self.waiting += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking.append(future)
        return future

    def before_turn(self) -> None:
        if self._asking:
            number = self._replica.barriers.ask()
            self._asked[number], self._asking = self._asking, []

    def passed(self, number: int) -> None:
        passed = self._asked.pop(number, [])
        self.waiting -= len(passed)
        for future in passed:
            if not future.done():
                future.set_result(None)

    def fail(self, error: ReconveneError) -> None:
        for future in [*self._asking, *(future for asked in self._asked.values() for future in asked)]:
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as retrieved: the client may have given up
        self._asking.clear()
        self._asked.clear()
        self.waiting = 0

    def _forget_done(self) -> None:
        """Removes cancelled futures. In a minority no barrier passes, so clients give up and ask again."""
        self._asking = [future for future in self._asking if not future.done()]
        for number, futures in list(self._asked.items()):
            waiting = self._asked[number] = [future for future in futures if not future.done()]
            if not waiting:
                del self._asked[number]
                self._replica.barriers.forget(number)
        self.waiting = len(self._asking) + sum(map(len, self._asked.values()))
        self._look_at = min(_MOST, max(_LOOK_AT, 2 * self.waiting))
