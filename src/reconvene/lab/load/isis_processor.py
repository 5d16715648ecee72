"""A processor that sleeps: the distributed load of section 5.4 with real sites. See `bench.isis_distributed_load`."""

import asyncio
import random
from collections.abc import Sequence

from reconvene.client.events import Process
from reconvene.client.isis import Isis

__all__ = ["UPDATE", "Costs", "Processor"]

UPDATE = b"upd"
"""The beginning of what a copy tells the others."""
_SIZE = 64


class Costs:
    """In seconds."""

    def __init__(self, serve: float, packet: float, update: float) -> None:
        self.serve = serve
        self.packet = packet
        self.update = update


class Processor:
    """Of one site. It does one thing at a time."""

    def __init__(self, isis: Isis) -> None:
        self._isis = isis
        self._costs = Costs(0.0, 0.0, 0.0)
        self._free_at = 0.0

    def received(self, updates: int) -> None:
        """So many came together."""
        self._spend(self._costs.packet + updates * self._costs.update)

    def _spend(self, cost: float) -> float:
        self._free_at = max(asyncio.get_running_loop().time(), self._free_at) + cost
        return self._free_at

    async def serve(self, costs: Costs, rate: float, count: int, seed: str, others: Sequence[Process]) -> list[float]:
        """So many requests come at random, so many a second. Returns the ms from each to its response."""
        self._costs = costs
        loop, chance = asyncio.get_running_loop(), random.Random(seed)
        at = loop.time()
        serving = []
        for _ in range(count):
            at += chance.expovariate(rate)
            await asyncio.sleep(at - loop.time())
            serving.append(asyncio.create_task(self._one(others)))
        return await asyncio.gather(*serving)

    async def _one(self, others: Sequence[Process]) -> float:
        loop = asyncio.get_running_loop()
        came = loop.time()
        await asyncio.sleep(self._spend(self._costs.serve) - came)
        delay = loop.time() - came
        if others:
            await self._isis.cbcast(UPDATE.ljust(_SIZE, b"."), others)
        return delay * 1e3
