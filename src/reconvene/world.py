"""The time and randomness that a program uses, as its event loop provides them.

An ordinary event loop provides nothing: then both come from the operating system. The event loop of
`reconvene.testing` has a `world` of its own, in virtual time and drawn from a seed. Whatever influences what a site
or a client does takes the time and random bytes from here, so that the same code runs in both.
"""

import asyncio
import os
import random
import time
from typing import Protocol

__all__ = ["REAL", "World", "world"]


class World(Protocol):
    def monotonic_ns(self) -> int:
        """The clock that timers go by."""

    def time_ns(self) -> int:
        """Since 1970."""

    def random_bytes(self, size: int) -> bytes:
        """In the real world, fit for secrets."""

    def uniform(self, low: float, high: float) -> float:
        """A number between the two, for pauses that should differ between programs."""


class _Real:
    # uvloop caches its own clock for each round of the loop; these read the system's clock each time.
    monotonic_ns = staticmethod(time.monotonic_ns)
    time_ns = staticmethod(time.time_ns)
    random_bytes = staticmethod(os.urandom)
    uniform = staticmethod(random.uniform)


REAL: World = _Real()


def world() -> World:
    """That of the running event loop; without one, the real world."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return REAL
    found: World = getattr(loop, "world", REAL)
    return found
