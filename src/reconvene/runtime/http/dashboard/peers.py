"""Requests to the other sites over HTTP, for the dashboard.

Given: their HTTP addresses, and a key if they require one. Promised: a site that does not answer delays no other. Its
last answer is kept, with its time. An invalid answer counts as none.
"""

import asyncio
import base64
from collections.abc import Mapping
from time import time_ns

import aiohttp
import msgspec
from msgspec import Struct

from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.access.key_files import load_peer_key
from reconvene.runtime.access.tls import peer_tls
from reconvene.runtime.config.settings import Config
from reconvene.runtime.http.dashboard.samples import SiteSample
from reconvene.runtime.http.dashboard.timelines import Timelines
from reconvene.units import show_address

__all__ = ["ORDER_HEADER", "Peer", "Peers"]

ORDER_HEADER = "X-Reconvene-Order"
"""Required on every POST: a page of another origin can't send this header without a CORS preflight, which is
refused."""
_PATIENCE_S = 2.0
_MOST_BYTES = 1 << 20
"""Size limit of an answer: the whole history of a cluster of 64 sites fits."""


class Peer(Struct):
    """One site, as it was last seen."""

    sample: SiteSample | None = None
    heard_at: int | None = None
    """ms since 1970, by this site's clock: when it last answered."""
    why: str = "not asked yet"
    """Why the last request failed; empty: it did not."""


class Peers:
    def __init__(self, config: Config, timelines: Timelines) -> None:
        """Raises Rejected or Malformed for a bad key or certificate."""
        self._config = config
        self._addresses = config.dashboard.peers
        self._timelines = timelines
        self._tls = peer_tls(config)
        self._headers = _headers(config)
        self._tasks: list[asyncio.Task[None]] = []
        self.known: dict[str, Peer] = {name: Peer() for name in sorted(self._addresses)}

    def reload_key(self) -> None:
        """Raises Rejected or Malformed; then the old key stays. The new key is used from the next opened page on."""
        self._headers = _headers(self._config)

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
        async with self._session() as session:
            answers = await asyncio.gather(*(self._order(session, name, path) for name, path in paths.items()))
        return {name: why for name, why in zip(paths, answers, strict=True) if why}

    async def _order(self, session: aiohttp.ClientSession, name: str, path: str) -> str:
        try:
            await self._request(session, "POST", name, path)
        except (Rejected, Unavailable) as error:
            return str(error)
        return ""

    async def _follow(self, name: str, every_s: float) -> None:
        peer = self.known[name]
        async with self._session() as session:
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
            sample = msgspec.json.decode(await self._request(session, "GET", name, path), type=SiteSample)
        except msgspec.MsgspecError:
            raise Unavailable("sends no valid answer") from None
        if (sample.cluster, sample.name) != (self._config.cluster, name):
            raise Unavailable(f"is {sample.name} of cluster {sample.cluster}")
        return sample

    async def _request(self, session: aiohttp.ClientSession, method: str, name: str, path: str) -> bytes:
        scheme = "http" if self._tls is None else "https"
        body = b""
        try:
            async with session.request(
                method,
                f"{scheme}://{show_address(self._addresses[name])}{path}",
                ssl=True if self._tls is None else self._tls,
                allow_redirects=False,
            ) as answer:
                async for chunk in answer.content.iter_chunked(1 << 16):
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        raise Unavailable("sends too long an answer")
        except TimeoutError:
            raise Unavailable(f"does not answer within {_PATIENCE_S:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unavailable(f"does not answer: {reason}") from None
        if answer.status != 200:
            raise Rejected(_refusal(answer.status, body))
        return body

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=_PATIENCE_S),
            connector=aiohttp.TCPConnector(force_close=True),  # a site answers one request on a connection
            cookie_jar=aiohttp.DummyCookieJar(),
        )


def _refusal(status: int, body: bytes) -> str:
    """The reason that the site gave, if it gave one."""
    try:
        document = msgspec.json.decode(body, type=dict[str, object])
    except msgspec.MsgspecError:
        document = {}
    return f"refuses: {document.get('error') or status}"


def _headers(config: Config) -> dict[str, str]:
    headers = {ORDER_HEADER: "1"}
    if config.dashboard.key is not None:
        key = load_peer_key(config.dashboard.key)
        headers["Authorization"] = f"Bearer {base64.b64encode(key.key).decode()}"
    return headers
