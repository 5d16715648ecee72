"""How many requests may wait at once, how many streams may be open, and how much of bodies may be held.

Promised: beyond a limit a request is refused at once (429), nothing queues for a place. One of `http.connections`
stays free for /health.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from aiohttp import web

from reconvene.runtime.access.auth import Role
from reconvene.runtime.config.settings import Config
from reconvene.runtime.http.answers import Refusal

__all__ = ["Connections", "Places"]

BODIES_BYTES = 64 << 20
"""Most bytes of bodies that are held for requests that are not answered yet, or one message if that is longer."""
WAIT_RETRY_S = 1
STREAM_RETRY_S = 5


class Connections(Protocol):
    """The HTTP server, as far as the API needs it."""

    def role_of(self, request: web.Request) -> Role | None:
        """Of the request's key, or of everyone where there are no keys."""

    def hold(self, request: web.Request, seconds: float = math.inf) -> Callable[[], None]:
        """Allows the request's connection so much time; returns a function that closes it at once. Raises Refusal if
        no connection would be left for other requests."""

    def release(self, request: web.Request) -> None:
        """The connection is as any other again."""


class Places:
    def __init__(self, config: Config, connections: Connections) -> None:
        self._config = config
        self._connections = connections
        self._most_bytes = max(BODIES_BYTES, config.limits.message_bytes)
        self.waiting = 0
        self.streams = 0
        self.bytes = 0

    @contextmanager
    def wait(self, request: web.Request, seconds: float) -> Iterator[None]:
        """A request that may wait for so long. Raises Refusal."""
        most = self._config.http.waiting
        if self.waiting >= most:
            raise Refusal(429, f"{most} requests wait already, the limit (http.waiting)", retry_s=WAIT_RETRY_S)
        self._hold(request, seconds, WAIT_RETRY_S)
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self._connections.release(request)

    @contextmanager
    def stream(self, request: web.Request) -> Iterator[Callable[[], None]]:
        """A stream of events; what comes closes its connection at once. Raises Refusal."""
        most = self._config.http.followers
        if self.streams >= most:
            raise Refusal(429, f"{most} streams are open already, the limit (http.followers)", retry_s=STREAM_RETRY_S)
        cut = self._hold(request, math.inf, STREAM_RETRY_S)
        self.streams += 1
        try:
            yield cut
        finally:
            self.streams -= 1

    def _hold(self, request: web.Request, seconds: float, retry_s: int) -> Callable[[], None]:
        try:
            return self._connections.hold(request, seconds)
        except Refusal:
            why = "all connections but one are in use, and that one is for /health (http.connections)"
            raise Refusal(429, why, retry_s=retry_s) from None

    def take(self, size: int) -> None:
        """Raises Refusal if so many further bytes can't be held."""
        if self.bytes and self.bytes + size > self._most_bytes:
            why = f"bodies of {self.bytes} bytes are being handled: at most {self._most_bytes} may be"
            raise Refusal(429, why, retry_s=WAIT_RETRY_S)
        self.bytes += size

    def give_back(self, size: int) -> None:
        self.bytes -= size
