"""Requests to the other sites over HTTP, for the dashboard.

Given: their HTTP addresses, and a key if they require one. Promised: a site that does not answer delays no other. Its
last answer is kept, with its time. An invalid answer counts as none.
"""

import asyncio
from collections.abc import Mapping
from time import time_ns

import aiohttp
import msgspec
from msgspec import Struct

from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.config.settings import Config
from reconvene.runtime.http.dashboard.asking import Asking
from reconvene.runtime.http.dashboard.samples import SiteSample
from reconvene.runtime.http.dashboard.timelines import Timelines

__all__ = ["Peer", "Peers"]


class Peer(Struct):
    """One site, as it was last seen."""

    sample: SiteSample | None = None
    heard_at: int | None = None
    """ms since 1970, by this site's clock: when it last answered."""
    why: str = "not asked yet"
    """Why the last request failed; empty: it did not."""


class Peers:
    def __init__(self, config: Config, asking: Asking, timelines: Timelines) -> None:
        self._config = config
        self._asking = asking
        self._addresses = config.dashboard.peers
        self._timelines = timelines
        self._tasks: list[asyncio.Task[None]] = []
        self.known: dict[str, Peer] = {name: Peer() for name in sorted(self._addresses)}

    def start(self, every_s: float) -> None:
        """Requests the state of each site at this interval, until `stop`."""
        self._tasks = [asyncio.create_task(self._follow(name, every_s)) for name in self.known]

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def order(self, paths: Mapping[str, str]) -> dict[str, str]:
        """POSTs to each of these sites at the same time. Returns the failures: by name, why."""
        async with self._asking.session() as session:
            answers = await asyncio.gather(*(self._order(session, name, path) for name, path in paths.items()))
        return {name: why for name, why in zip(paths, answers, strict=True) if why}

    async def _order(self, session: aiohttp.ClientSession, name: str, path: str) -> str:
        try:
            await self._asking.request(session, "POST", self._addresses[name], path)
        except (Rejected, Unavailable) as error:
            return str(error)
        return ""

    async def _follow(self, name: str, every_s: float) -> None:
        peer = self.known[name]
        async with self._asking.session() as session:
            while True:
                try:
                    peer.sample = await self._ask(session, name)
                except (Rejected, Unavailable) as error:
                    peer.why = str(error)
                    if peer.heard_at is not None:
                        self._timelines.gone(name, peer.heard_at)
                else:
                    peer.heard_at, peer.why = time_ns() // 1_000_000, ""
                    self._timelines.take(peer.sample)
                await asyncio.sleep(every_s)

    async def _ask(self, session: aiohttp.ClientSession, name: str) -> SiteSample:
        incarnation, since = self._timelines.cursor(name)
        path = f"/dashboard/site?incarnation={incarnation}&since={since}"
        try:
            answer = await self._asking.request(session, "GET", self._addresses[name], path)
            sample = msgspec.json.decode(answer, type=SiteSample)
        except msgspec.MsgspecError:
            raise Unavailable("sends no valid answer") from None
        if (sample.cluster, sample.name) != (self._config.cluster, name):
            raise Unavailable(f"is {sample.name} of cluster {sample.cluster}")
        return sample
