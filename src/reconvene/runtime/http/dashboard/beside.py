"""Followers and outposts of this cluster's log, as a page shows them.

Given: the HTTP addresses in `dashboard.beside`, and the status that each process reports there. Promised: as for
`Peers`, one that does not answer delays no other, and its last answer is kept, with its time.
"""

import asyncio
from collections.abc import Mapping
from time import time_ns
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.config.settings import Config
from reconvene.runtime.http.dashboard.asking import Asking

__all__ = ["Beside", "BesideOnPage", "LogBeside", "log_beside"]

_EVERY_S = 2.0


class LogBeside(Struct, frozen=True):
    """The log at a follower or at an outpost."""

    kind: str
    """follower | outpost"""
    incarnation: int
    storage: str
    connection: str | None
    """The source that a follower pulls from; the site that an outpost forwards to. None: none now."""
    trouble: list[str]
    """Why it reaches none, and which sources are refused."""
    green: int = 0
    """Of a follower: its green line …"""
    head: int = 0
    """… and the highest one that it has heard of."""
    waiting: int = 0
    """Of an outpost: messages that are not read back green yet …"""
    oldest_s: float = 0.0
    """… and how long ago it accepted the first of them."""


class BesideOnPage(Struct, frozen=True):
    log: LogBeside | None = None
    """Its last answer."""
    heard_at: int | None = None
    """ms since 1970, by this site's clock: when it last answered."""
    why: str = "not asked yet"
    """Why the last request failed; empty: it did not."""


class Beside:
    def __init__(self, config: Config, asking: Asking) -> None:
        self._addresses = config.dashboard.beside
        self._asking = asking
        self._tasks: list[asyncio.Task[None]] = []
        self.known = {name: BesideOnPage() for name in sorted(self._addresses)}

    def start(self) -> None:
        """Asks each of them now and then, until `stop`."""
        self._tasks = [asyncio.create_task(self._follow(name)) for name in self.known]

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, name: str) -> None:
        async with self._asking.session() as session:
            while True:
                try:
                    found = BesideOnPage(await self._ask(session, name), time_ns() // 1_000_000, "")
                except (Rejected, Unavailable) as error:
                    found = msgspec.structs.replace(self.known[name], why=str(error))
                self.known[name] = found
                await asyncio.sleep(_EVERY_S)

    async def _ask(self, session: aiohttp.ClientSession, name: str) -> LogBeside:
        answer = await self._asking.request(session, "GET", self._addresses[name], "/status")
        try:
            found = log_beside(msgspec.json.decode(answer))
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError):
            raise Unavailable("sends no valid answer") from None
        if found is None:
            raise Unavailable("is neither a follower nor an outpost")
        return found


def log_beside(status: Mapping[str, Any]) -> LogBeside | None:
    """From a status document; None where it is that of a site that does not follow."""
    log = status["log"] or {}
    told = (int(status["incarnation"]), str(status["storage"]))
    if log.get("outpost"):
        return LogBeside(
            "outpost", *told, log["site"], [log["trouble"]] if log["trouble"] else [],
            waiting=int(log["waiting"]["messages"]), oldest_s=float(log["oldest_s"]),
        )  # fmt: skip
    if not (follow := log.get("follow")):
        return None
    refused = [f"{source} is refused: {why}" for source, why in follow["refused"].items()]
    unreached = [] if follow["source"] else [str(why) for why in follow["trouble"].values()]
    return LogBeside(
        "follower", *told, follow["source"], [*refused, *unreached],
        green=int(log["green"]), head=int(follow["head"]),
    )  # fmt: skip
