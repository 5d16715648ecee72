"""Calls on a replicated map, many at once and through every site, each recorded with begin, end and result.

All changes and reads are ordered, so the calls of each key must be linearizable (see `ledger.linearizable`). A key is
used for one second, so that no key has more calls than can be checked.
"""

import asyncio
import random
import time
from collections.abc import Callable

from reconvene.errors import ReconveneError, Rejected
from reconvene.lab.ledger.linearizable import Call
from reconvene.objects import ReplicatedMap

__all__ = ["MAP", "Caller"]

MAP = "soak"
_KEYS = 6
_KEY_S = 1.0
_GAP_S = (0.01, 0.06)
_PATIENCE_S = 4.0
"""In a minority a call waits until the network heals; the caller gives up after this."""
_KINDS = {"get": 5, "set": 3, "add": 3, "remove": 2}
"""Kinds of calls, with their weights."""


class Caller:
    """Calls one after the other, until `quiet`."""

    def __init__(self, number: int, seed: int, record: Callable[[Call], None]) -> None:
        self._number = number
        self._record = record
        self._random = random.Random(f"map/{seed}/{number}")
        self._seed = seed
        self._made = 0
        self._calling = True
        self.idle = False

    def quiet(self) -> None:
        self._calling = False

    async def run(self, kept: ReplicatedMap) -> None:
        kinds, weights = list(_KINDS), list(_KINDS.values())
        while self._calling:
            await asyncio.sleep(self._random.uniform(*_GAP_S))
            (what,) = self._random.choices(kinds, weights)
            second = int(time.monotonic() / _KEY_S)  # all processes share this clock
            await self._call(kept, what, f"{self._seed}/{second}/{self._random.randrange(_KEYS)}")
        self.idle = True

    async def _call(self, kept: ReplicatedMap, what: str, key: str) -> None:
        self._made += 1
        value = self._number << 32 | self._made
        found: int | bool | None = None
        began = time.monotonic_ns()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                match what:
                    case "set":
                        await kept.set(key, value, ordered=True)
                    case "remove":
                        await kept.remove(key, ordered=True)
                    case "add":
                        found = await kept.add(key, value)
                    case _:
                        found = await kept.get(key, ordered=True)
        except Rejected:
            return  # nothing happened
        except (ReconveneError, TimeoutError):
            if what != "get":
                self._record(Call(key, what, value, None, began))
        else:
            self._record(Call(key, what, value, found, began, time.monotonic_ns()))
