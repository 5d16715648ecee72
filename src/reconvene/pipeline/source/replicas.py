"""The replicas as the driver sees them: who answers, and what each has of the log."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from reconvene.client.connecting import connect
from reconvene.client.loop_thread import LoopThread
from reconvene.client.site import Site
from reconvene.entries import Entry
from reconvene.errors import InvalidArgument, ReconveneError, Rejected, Unavailable
from reconvene.pipeline.source.options import Access

__all__ = ["ReplicaLink", "Replicas", "Standing", "Survey", "open_site"]

_GRACE_S = 0.5
"""For the others, once one has answered: a stream need not wait at every trigger for one that is dead."""
_SETTLE_S = 3.0
"""For a component that orders to form: it takes a fraction of a second, on machines that are not too busy."""
_SETTLE_POLL_S = 0.05


class Standing(Struct, frozen=True):
    """What a replica has of the log: positions from `base` on and below `green`."""

    site: str
    cluster: str
    base: int
    green: int
    pending: int
    """How many messages it has that are not ordered."""
    primary: bool = True
    """Whether it is in a component that orders: else others may have more of the log."""


class Survey(Struct, frozen=True):
    """Those that answered, of whom there is at least one."""

    standings: tuple[Standing, ...]

    @property
    def base(self) -> int:
        return min(standing.base for standing in self.standings)

    @property
    def green(self) -> int:
        """The end of the log, as far as anyone here knows."""
        return max(standing.green for standing in self.standings)

    @property
    def cluster(self) -> str:
        return self.standings[0].cluster


async def open_site(
    stack: AsyncExitStack, access: Access, address: str | Sequence[str], *, follower: bool = True
) -> Site:
    """At that address, or the first of several that answers. Raises Rejected, also where the site neither keeps a
    replica nor follows the log: what it has may be old, or was given up. `follower`: one will do."""
    site = await stack.enter_async_context(
        connect(address, key=_key_file(access), key_name=access.key_name, tls=access.tls, timeout=access.timeout_s)
    )
    log = await site.log.status()
    if not log.replica and not (follower and log.follow is not None):
        where = address if isinstance(address, str) else address[0]
        raise Rejected(f"{where}: site {site.name} keeps no replica of the log")
    return site


def _key_file(access: Access) -> Path | None:
    """On an executor a file may be where Spark has put what was distributed with the job."""
    if access.key_file is None or Path(access.key_file).exists():
        return None if access.key_file is None else Path(access.key_file)
    from pyspark import SparkFiles

    try:
        distributed = Path(SparkFiles.get(access.key_file))
    except (AssertionError, AttributeError, TypeError):  # there is no such place in this process
        distributed = Path(access.key_file)
    return distributed if distributed.exists() else Path(access.key_file)


class ReplicaLink:
    """One address: connected to when it is asked, and again after it failed."""

    def __init__(self, access: Access, address: str) -> None:
        self._access = access
        self.address = address
        self._stack = AsyncExitStack()
        self._site: Site | None = None

    async def site(self) -> Site:
        if self._site is not None and not self._site.connected:
            await self.close()
        if self._site is None:
            try:
                self._site = await open_site(self._stack, self._access, self.address)
            except BaseException:
                await self.close()
                raise
        return self._site

    async def standing(self) -> Standing:
        site = await self.site()
        log = await site.log.status()
        pending = log.yellow + log.red + log.unlogged
        if (follow := log.follow) is None:
            return Standing(site.name, site.cluster, log.base, log.green, pending, bool(log.primary))
        if not follow.of:
            raise Unavailable(f"{self.address}: site {site.name} has not reached the log that it follows yet")
        up_to_date = follow.source is not None and not follow.behind
        return Standing(site.name, follow.of, log.base, log.green, pending, up_to_date)

    async def close(self) -> None:
        stack, self._stack, self._site = self._stack, AsyncExitStack(), None
        await stack.aclose()


class Replicas:
    """All addresses, from code without asyncio. Made in the process that uses it; `close` ends its thread."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.thread = LoopThread()
        self._replicas = [ReplicaLink(access, address) for address in access.addresses]

    def __enter__(self) -> "Replicas":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self.thread.over:
            self.thread.run(self._close())
            self.thread.close()

    async def _close(self) -> None:
        for replica in self._replicas:
            await replica.close()

    def survey(self, *, settled: bool = False) -> Survey:
        """Raises Unavailable where no replica answers in time, Rejected where all that answer refuse.

        settled: sites that have just started, or part or meet, have a moment to find out how far the log goes.
        """
        end = time.monotonic() + min(_SETTLE_S, self.access.timeout_s)
        while True:
            survey = self.thread.run(self._survey())
            if not settled or any(one.primary for one in survey.standings) or time.monotonic() > end:
                return survey
            time.sleep(_SETTLE_POLL_S)

    async def _survey(self) -> Survey:
        tasks = [asyncio.ensure_future(replica.standing()) for replica in self._replicas]
        try:
            await _first_and_soon(tasks, self.access.timeout_s)
            standings, errors = _outcomes(tasks, self._replicas, self.access.timeout_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not standings:
            if all(isinstance(error, Rejected | InvalidArgument) for error in errors):
                raise Rejected(f"no replica lets this reader in: {'; '.join(map(str, errors))}")
            raise Unavailable(
                f"no replica of the log answers: {'; '.join(map(str, errors))}; start one, or correct `addresses`"
            )
        return Survey(tuple(standings))

    def pending(self) -> dict[str, list[Entry]]:
        """By site: what those that answer have that is not ordered, as far as one answer goes."""
        return self.thread.run(self._pending())

    async def _pending(self) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for replica in self._replicas:
            try:
                async with asyncio.timeout(self.access.timeout_s):
                    site = await replica.site()
                    found[site.name] = await site.log.pending()
            except (ReconveneError, TimeoutError):
                continue  # whether anyone answers at all, the survey tells
        return found


async def _first_and_soon(tasks: "Sequence[asyncio.Future[Standing]]", timeout_s: float) -> None:
    """Until all are done, or one has answered and the others had a moment."""
    end = asyncio.get_running_loop().time() + timeout_s
    waiting = set(tasks)
    while waiting:
        left = end - asyncio.get_running_loop().time()
        if left <= 0:
            return
        done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if any(task.exception() is None for task in done):
            end = min(end, asyncio.get_running_loop().time() + _GRACE_S)


def _outcomes(
    tasks: "Sequence[asyncio.Future[Standing]]", replicas: Sequence[ReplicaLink], timeout_s: float
) -> tuple[list[Standing], list[ReconveneError]]:
    standings: list[Standing] = []
    errors: list[ReconveneError] = []
    for task, replica in zip(tasks, replicas, strict=True):
        if not task.done():
            errors.append(Unavailable(f"{replica.address}: no answer in {timeout_s:g} s"))
            continue
        error = task.exception()
        if error is None:
            standings.append(task.result())
        elif isinstance(error, ReconveneError):
            errors.append(error)
        else:
            raise error
    clusters = sorted({standing.cluster for standing in standings})
    if len(clusters) > 1:
        raise Rejected(f"addresses: expected replicas of one log, not of the clusters {' and '.join(clusters)}")
    return standings, errors
