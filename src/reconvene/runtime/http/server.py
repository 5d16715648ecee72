"""Health, metrics and status over HTTP, for operators and their tools, the dashboard, and the API.

It only reads, except for faults that the dashboard may inject if the configuration allows them, and for the API where
`http.api` is set. Given: an engine. Promised: if keys are configured, requests without one are refused. There are at
most `http.connections` connections, each lasts at most `LIFETIME_S` unless it belongs to an open page or to a request
of the API, and requests other than the API's are small. Connections without a request can't block others: if there is
no room, the oldest of them is closed. Open pages and what waits always leave one connection free, so that /health is
always answered.
"""

import asyncio
import base64
import binascii
import errno
import hmac
import logging
import math
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from ipaddress import ip_address

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.access.auth import Role
from reconvene.runtime.access.certificates import ends_of
from reconvene.runtime.access.key_files import ClientKey, load_client_keys
from reconvene.runtime.access.listener import Listener
from reconvene.runtime.access.tls import server_tls
from reconvene.runtime.config.check import is_loopback
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.loop_lag import LoopLag
from reconvene.runtime.diagnostics.structured_logging import INFO, event, logger
from reconvene.runtime.http.answers import Refusal, json_answer, refusal
from reconvene.runtime.http.api.openapi import describe
from reconvene.runtime.http.api.operations import API, BESIDE
from reconvene.runtime.http.api.refusals import REFUSED, UNKNOWN
from reconvene.runtime.http.api.routes import Api
from reconvene.runtime.http.api.streams import EventResponse
from reconvene.runtime.http.dashboard.routes import Dashboard
from reconvene.runtime.http.metrics import RequestCounts, SiteMetrics
from reconvene.runtime.site.interface import Engine
from reconvene.transports import abort
from reconvene.units import show_address

__all__ = ["LIFETIME_S", "HttpServer"]

LIFETIME_S = 10.0
"""Most time of a connection. Each serves one request: a scraper can afford a new one every few seconds. A connection
of the API serves several, and may be idle for so long between them."""
_LINE_BYTES = 4_096
_HEADER_BYTES = 4_096
_LONGEST_TOKEN = 256
_REFUSED = "http_refused_"

_API_PATH = "/v1/"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _Guest:
    """A connection."""

    host: str
    end: float
    """When it will be closed, by the loop's clock."""
    has_asked: bool = False
    """Whether it has a request that is not answered yet."""
    held: bool = False
    """It belongs to an open page, or to a request that may wait."""


class HttpServer:
    """Call `start`, then `stop`. Does nothing if no address is configured."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        log: logging.Logger,
        lag: LoopLag | None = None,
        more: Callable[[], Mapping[str, int]] = dict,
        ends: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """`more`: counters of other parts. `ends`: when certificates end that other parts use."""
        self._config = config
        self._engine = engine
        self._log = log
        self._lag = lag
        self._counts = dict.fromkeys((f"{_REFUSED}{why}" for why in ("limit", "tls", "400", "401", "403", "404")), 0)
        self._ends: dict[str, float] = {}
        self._requests = RequestCounts()
        self._metrics = SiteMetrics(
            engine, lag, lambda: {**more(), **self._counts}, lambda: {**ends(), **self._ends}, self._requests
        )
        self._keys: tuple[ClientKey, ...] | None = None
        self._tls: ssl.SSLContext | None = None
        self._listener: Listener | None = None
        self._runner: web.AppRunner | None = None
        self._dashboard: Dashboard | None = None
        self._api: Api | None = None
        self._open: dict[asyncio.Transport, _Guest] = {}
        """In the order of their arrival."""
        self._sweeper: asyncio.TimerHandle | None = None
        self.address: tuple[str, int] | None = None
        """The address; if port 0 is configured, with the port that the system chose."""

    async def start(self) -> None:
        """Raises Rejected or Malformed for a bad configuration, Unavailable for an address that can't be used."""
        http = self._config.http
        if http.address is None:
            return
        guarded = http.keys is not None or (http.tls is not None and http.tls.client_ca is not None)
        if not guarded and not is_loopback(http.address):
            raise Rejected(f"http.address: {show_address(http.address)} is not loopback; expected http.keys with it")
        self.reload_keys()
        self.reload_tls()
        app = web.Application(middlewares=[self._guard], client_max_size=1)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/status", self._status)
        app.router.add_get("/openapi.json", self._openapi)
        if http.api:
            self._api = Api(self._config, self._engine, self._log, self)
            self._api.add_to(app.router)
        if self._config.dashboard.enabled and not self._config.log.outpost:
            self._dashboard = Dashboard(self._config, self._engine, self._lag, self._log, self)
            self._dashboard.add_to(app.router)
        quiet = logger("http.requests")
        quiet.setLevel(logging.CRITICAL)  # bad requests are not logged; internal errors are, in _guard
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=quiet,
            max_line_size=_LINE_BYTES,
            max_field_size=_HEADER_BYTES,
            lingering_time=0,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        assert self._runner.server is not None
        self._listener = Listener(
            self._runner.server, self._tls, LIFETIME_S / 2, self._why_not, self._welcomed, self._turned_away
        )
        try:
            self.address = self._listener.start(http.address)
        except OSError as error:
            await self.stop()
            why = "in use by another process" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            raise Unavailable(f"http.address: {show_address(http.address)}: {why}") from None
        event(
            self._log, INFO, "http listens", address=show_address(self.address),
            keys=self._keys is not None, tls=self._tls is not None,
        )  # fmt: skip

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        if self._api is not None:
            self._api.close()
        if self._dashboard is not None:
            await self._dashboard.close()
            self._dashboard = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        for transport in self._open:
            abort(transport)
        self._open.clear()

    def reload_keys(self) -> bool:
        """Reads the key files again; returns whether there are any. Raises Rejected or Malformed; then the old keys
        stay."""
        path = self._config.http.keys
        if path is not None:
            self._keys = tuple(load_client_keys(path, self._log).values())
        if self._dashboard is not None:
            self._dashboard.reload_key()
        return path is not None or self._config.dashboard.key is not None

    def reload_tls(self) -> bool:
        """Reads the certificates again, for connections from now on; returns whether there are any. Raises Rejected;
        then the old ones stay."""
        tls, ca = self._config.http.tls, self._config.dashboard.ca
        if tls is not None:
            self._tls = server_tls(tls)
            self._ends = ends_of("http.tls", tls)
        if self._listener is not None:
            self._listener.tls = self._tls
        if self._dashboard is not None:
            self._dashboard.reload_tls()
        return tls is not None or ca is not None

    # -- connections

    def _why_not(self, host: str) -> str | None:
        """Why a connection from this host can't be accepted. Closes one without a request if that makes room."""
        assert self._listener is not None
        http = self._config.http
        self._open = {other: guest for other, guest in self._open.items() if not other.is_closing()}
        arriving = self._listener.arriving
        by_host = Counter([guest.host for guest in self._open.values()] + arriving)
        if by_host[host] >= http.connections_by_host:
            return None if self._displace(host) else "this host has reached its limit"
        if by_host.total() < http.connections:
            return None
        waiting = Counter([guest.host for guest in self._open.values() if not guest.has_asked] + arriving)
        return (
            None
            if any(self._displace(most) for most, _ in waiting.most_common())
            else "the limit of connections is reached"
        )

    def _displace(self, host: str) -> bool:
        """Closes the oldest connection of this host without a request; returns whether there was one."""
        assert self._listener is not None
        for transport, guest in self._open.items():
            if guest.host == host and not guest.has_asked:
                abort(transport)
                del self._open[transport]
                return True
        return self._listener.displace(host)

    def _welcomed(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        self._open[transport] = _Guest(peer[0] if peer else "", loop.time() + LIFETIME_S)
        if self._sweeper is None:
            self._sweeper = loop.call_later(LIFETIME_S / 2, self._sweep, loop)

    def _guest(self, request: web.Request) -> "tuple[asyncio.Transport, _Guest] | None":
        """None: it is closing."""
        return next(((open_, guest) for open_, guest in self._open.items() if open_ is request.transport), None)

    def hold(self, request: web.Request, seconds: float = math.inf) -> Callable[[], None]:
        """Allows this connection so much time; returns a function that closes it. Raises Refusal if no connection
        would be left for other requests."""
        found = self._guest(request)
        if found is None:
            return lambda: None
        held = sum(guest.held for guest in self._open.values())
        if held >= max(self._config.http.connections - 1, 1):
            raise Refusal(503, f"{held} pages are open: one of http.connections is reserved for other requests")
        transport, guest = found
        guest.held = True
        guest.end = asyncio.get_running_loop().time() + seconds
        return partial(abort, transport)

    def release(self, request: web.Request) -> None:
        """Its connection is as any other again."""
        found = self._guest(request)
        if found is not None:
            found[1].held = False
            found[1].end = asyncio.get_running_loop().time() + LIFETIME_S

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all connections: each is closed at most half its lifetime late."""
        for transport, guest in list(self._open.items()):
            if guest.end <= loop.time():
                abort(transport)
                del self._open[transport]
        self._sweeper = loop.call_later(LIFETIME_S / 2, self._sweep, loop) if self._open else None

    # -- requests

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        found = self._guest(request)
        if found is not None:
            found[1].has_asked = True
        is_api = self._api is not None and request.path.startswith(_API_PATH)
        response: web.StreamResponse
        try:
            response = self._refusal(request, is_api) or await handler(request)
        except Refusal as refused:
            outcome = refused.outcome or (REFUSED if is_api else None)
            response = refusal(refused.status, refused.why, outcome, refused.retry_s)
        except web.HTTPException as refused:
            response = refusal(refused.status, str(refused.reason).lower(), REFUSED if is_api else None)
            if "Allow" in refused.headers:
                response.headers["Allow"] = refused.headers["Allow"]
        except Exception:
            self._log.exception("fault in a request")
            response = refusal(500, "internal error of the site; see its log", UNKNOWN if is_api else None)
        cut_off = isinstance(response, EventResponse) and response.cut_off
        self._requests.count(_route(request), response.status, cut_off)
        self._count_refusal(response.status)
        if response.prepared:
            return response  # a stream, which has ended
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        if is_api and response.status < 300:
            await self._answer_and_keep(request, response)
        else:
            response.force_close()
        return response

    def _turned_away(self, reason: str, who: str, why: str) -> None:
        self._counts[f"{_REFUSED}{reason}"] += 1

    def _count_refusal(self, status: int) -> None:
        if 400 <= status < 500:
            name = f"{_REFUSED}{status}"
            self._counts[name] = self._counts.get(name, 0) + 1

    async def _answer_and_keep(self, request: web.Request, response: web.StreamResponse) -> None:
        """The connection may bring another request. Until then it counts as one without a request."""
        with suppress(ConnectionError):  # the client is gone
            await response.prepare(request)
            await response.write_eof()
        found = self._guest(request)
        if found is not None:
            found[1].has_asked = False
            found[1].end = asyncio.get_running_loop().time() + LIFETIME_S

    def _refusal(self, request: web.Request, is_api: bool) -> web.Response | None:
        outcome = REFUSED if is_api else None
        if self._keys is not None:
            if self._key_of(request) is None:
                response = refusal(401, "expected a client key: Authorization: Bearer KEY", outcome)
                # A browser then asks its user for name and password, which are those of the key.
                is_page = self._dashboard is not None and _is_page(request.path)
                response.headers["WWW-Authenticate"] = 'Basic realm="reconvene"' if is_page else "Bearer"
                return response
        elif not self._is_meant(request.host):
            # DNS rebinding: a stranger's host name that resolves to loopback leads a browser here.
            return refusal(403, "expected this site's own address in the Host header", outcome)
        if request.body_exists and not is_api:
            return refusal(413, "expected no body")
        return None

    def is_admin(self, request: web.Request) -> bool:
        """Whether the request has an admin's key. Without keys and client certificates, anyone on this machine
        counts."""
        tls = self._config.http.tls
        if self._keys is None:
            return tls is None or tls.client_ca is None
        key = self._key_of(request)
        return key is not None and key.role == "admin"

    def who(self, request: web.Request) -> str:
        """The requester: the name of its key, if it has one, and its address."""
        key = None if self._keys is None else self._key_of(request)
        host = request.remote or "unknown"
        return host if key is None else f"{key.name}@{host}"

    def role_of(self, request: web.Request) -> Role | None:
        """As clients over TCP have it: that of the key, or append where there are no keys (`access.auth`)."""
        if self._keys is None:
            return Role.APPEND
        key = self._key_of(request)
        return None if key is None else Role[key.role.upper()]

    def _key_of(self, request: web.Request) -> ClientKey | None:
        """The key of the request, from a token or a password. It is compared with all keys, each in constant time."""
        assert self._keys is not None
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if len(token) > _LONGEST_TOKEN:
            return None
        shown = _decode(token.strip())
        if scheme.lower() == "basic":
            shown = _decode(shown.partition(b":")[2].decode("ascii", errors="replace"))
        elif scheme.lower() != "bearer":
            return None
        found = None
        for key in self._keys:
            if hmac.compare_digest(shown, key.key):
                found = key
        return found

    def _is_meant(self, host: str) -> bool:
        name = host.rpartition("]")[0].lstrip("[") or host.partition(":")[0]
        address = self._config.http.address
        if name == "localhost" or (address is not None and name == address[0]):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True

    async def _health(self, request: web.Request) -> web.Response:
        require = request.query.get("require", "")
        if require not in ("", "primary"):
            return refusal(400, "require: expected primary")
        health = self._engine.health()
        storage = self._engine.storage()
        ready = storage == "ok" and (health == "primary" or (health in ("minority", "outpost") and not require))
        answer: dict[str, object] = {"health": health}
        if storage != "ok":
            answer["storage"] = storage
        log = self._engine.log_note()
        if log is not None:
            answer["log"] = log
        refused = self._engine.refused_sites()
        if refused:
            answer["refused"] = refused
        return json_answer(answer, 200 if ready else 503)

    async def _get_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _status(self, request: web.Request) -> web.Response:
        return json_answer(self._engine.status())

    async def _openapi(self, request: web.Request) -> web.Response:
        operations = BESIDE if self._api is None else (*BESIDE, *API)
        return json_answer(describe(operations, version("reconvene"), self._keys is not None))


def _route(request: web.Request) -> str:
    """The path's pattern; of a path that does not exist, `other`."""
    resource = request.match_info.route.resource
    return "other" if resource is None else resource.canonical


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/dashboard/")


def _decode(token: str) -> bytes:
    """Empty, which is never a key, if it is not base64."""
    try:
        return base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError):
        return b""
