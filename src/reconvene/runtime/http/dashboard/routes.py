"""The dashboard's HTTP paths: the page, its event stream, requests of other sites' dashboards, and fault injection.

Given: requests that `HttpServer` has authorized. Promised: faults are injected only if the configuration allows them,
only for an admin, and never for a page of another origin.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

from aiohttp import web

from reconvene.errors import Rejected
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.loop_lag import LoopLag
from reconvene.runtime.diagnostics.structured_logging import audit
from reconvene.runtime.http.answers import Refusal, json_answer
from reconvene.runtime.http.dashboard.asking import ORDER_HEADER
from reconvene.runtime.http.dashboard.sampler import Sampler
from reconvene.runtime.http.dashboard.watchers import Watchers
from reconvene.runtime.net.partition import Partition, check_components
from reconvene.runtime.site.interface import Engine

__all__ = ["Dashboard"]

_ASSETS = Path(__file__).parent / "assets"
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class HttpConnections(Protocol):
    """The HTTP server, as far as the dashboard needs it."""

    def is_admin(self, request: web.Request) -> bool:
        """Whether the requester may inject faults, where they are allowed."""

    def who(self, request: web.Request) -> str:
        """The requester: the name of its key, if it has one, and its address."""

    def hold(self, request: web.Request) -> Callable[[], None]:
        """Exempts the request's connection from the time limit; returns a function that closes it at once."""


class Dashboard:
    def __init__(
        self, config: Config, engine: Engine, lag: LoopLag | None, log: logging.Logger, connections: HttpConnections
    ) -> None:
        """Raises Rejected or Malformed for a key or a certificate that can't be used."""
        self._config = config
        self._engine = engine
        self._sampler = Sampler(config, engine, lag)
        self._watchers = Watchers(config, self._sampler, log)
        self._connections = connections

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/", _serve(_ASSETS / "index.html"))
        for asset in sorted(_ASSETS.iterdir()):
            router.add_get(f"/dashboard/{asset.name}", _serve(asset))
        router.add_get("/dashboard/events", self._events, allow_head=False)
        router.add_get("/dashboard/site", self._site)
        router.add_post("/dashboard/partition", self._partition)
        router.add_post("/dashboard/heal", self._heal)
        router.add_post("/dashboard/block", self._block)

    def reload_key(self) -> None:
        """Raises as `Asking.reload_key` does."""
        self._watchers.asking.reload_key()

    def reload_tls(self) -> None:
        """Raises as `Asking.reload_tls` does."""
        self._watchers.asking.reload_tls()

    async def close(self) -> None:
        await self._watchers.close()
        self._sampler.close()

    # -- looking

    async def _events(self, request: web.Request) -> web.StreamResponse:
        watcher = self._watchers.join(
            self._connections.hold(request), self._connections.is_admin(request) and self._config.faults.allowed
        )
        if watcher is None:
            raise Refusal(503, f"{self._config.dashboard.watchers} pages are open, the limit")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        response.force_close()
        try:
            await response.prepare(request)
            while (told := await watcher.unread.get()) is not None:
                await response.write(told)
        except ConnectionError:
            pass  # the page was closed, or dropped
        finally:
            self._watchers.leave(watcher)
        return response

    async def _site(self, request: web.Request) -> web.Response:
        """For other sites' dashboards: the state of this site, with the configurations that they lack."""
        known = _number(request, "incarnation") == self._engine.incarnation
        return json_answer(self._sampler.sample(_number(request, "since") if known else 0))

    # -- fault injection

    async def _partition(self, request: web.Request) -> web.Response:
        """`components=a,b;c,d`: only sites in the same list are connected; a site in no list is alone."""
        self._expect_order(request)
        lists = [part.split(",") for part in request.query.get("components", "").split(";") if part]
        try:
            components = check_components(lists, self._config.names)
        except Rejected as error:
            raise Refusal(400, str(error)) from None
        if not lists or len(components) < 2:
            raise Refusal(400, "components: expected at least two lists of sites")
        return await self._connect(Partition(components=components), self._connections.who(request))

    async def _heal(self, request: web.Request) -> web.Response:
        self._expect_order(request)
        return await self._connect(Partition(), self._connections.who(request))

    async def _connect(self, faults: Partition, by: str) -> web.Response:
        """Sends every site the list of sites to block."""
        config = self._config
        if config.faults.record is not None:
            try:
                faults.save(config.faults.record)  # saved first, so that a site that starts meanwhile follows it
            except OSError as error:
                raise Refusal(503, f"{config.faults.record}: can't be written: {error.strerror}") from None
        shown = " | ".join(",".join(part) for part in faults.components) or "all connected"
        audit("partition set from the dashboard", by, sites=shown)
        blocked = {name: faults.blocked(name, config.names) for name in config.names if name != config.name}
        failed = await self._watchers.peers.order(
            {
                name: f"/dashboard/block?sites={quote(','.join(others))}"
                for name, others in blocked.items()
                if name in config.dashboard.peers
            }
        )
        for name in blocked.keys() - config.dashboard.peers.keys():
            failed[name] = "can't be reached: it is not in dashboard.peers"
        self._drop(faults.blocked(config.name, config.names))
        return json_answer({"components": faults.components, "failed": failed})

    async def _block(self, request: web.Request) -> web.Response:
        """`sites=a,b`: from now on this site is disconnected from these, and connected to all others."""
        self._expect_order(request)
        sites = [name for name in request.query.get("sites", "").split(",") if name]
        for name in sites:
            if name not in self._config.sites or name == self._config.name:
                raise Refusal(400, "sites: expected other sites of this cluster")
        self._drop(sites)
        audit("faults injected", self._connections.who(request), incoming=sites, outgoing=sites)
        return json_answer({"blocked": sites})

    def _drop(self, names: Sequence[str]) -> None:
        ordinals = frozenset(self._engine.names.index(name) for name in names)
        self._engine.block(ordinals, ordinals)

    def _expect_order(self, request: web.Request) -> None:
        if not self._config.faults.allowed:
            raise Refusal(403, f"site {self._config.name} does not allow faults: see [faults] allowed")
        if not self._connections.is_admin(request):
            raise Refusal(403, "the role admin is needed to inject faults")
        origin = request.headers.get("Origin")
        if ORDER_HEADER not in request.headers or (origin is not None and urlsplit(origin).netloc != request.host):
            raise Refusal(403, "expected a request from the dashboard's own page")


def _serve(path: Path) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = path.read_bytes()
    headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=_TYPES[path.suffix], charset="utf-8", headers=headers)

    return answer


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Refusal(400, f"{name}: expected a number")
    return int(text)
