"""The sockets at which programs connect to a site: a Unix socket, and TCP if it is configured.

Given: an engine. Promised: only authorized clients are accepted (`runtime.access.auth`), at most
`clients.connections` over each of both, over TCP at most `clients.connections_by_host` from one host, and none of
them can hold up the site (`runtime.clients.connection`).
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from reconvene.errors import Unavailable
from reconvene.runtime.access.auth import Endpoint, tcp_endpoint, unix_endpoint
from reconvene.runtime.access.certificates import ends_of
from reconvene.runtime.access.key_files import load_client_keys
from reconvene.runtime.access.listener import Listener
from reconvene.runtime.access.tls import server_tls
from reconvene.runtime.clients.connection import SILENCE_S, Connection
from reconvene.runtime.clients.server_state import ServerState
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import event, logger
from reconvene.runtime.site.interface import Engine

__all__ = ["ClientServer", "socket_path"]

_FAREWELL_S = 1.0
"""How long clients may take to read pending data when the site stops."""
_UNIX_PATH_BYTES = 107


def socket_path(config: Config) -> Path:
    """The path of the Unix socket."""
    return config.dir / "site.sock" if config.clients.unix is None else config.clients.unix


class ClientServer:
    """Call `start`, and `close` before the engine stops."""

    def __init__(
        self, engine: Engine, config: Config, stop: Callable[[], None], log: logging.Logger | None = None
    ) -> None:
        self._config = config
        self._state = ServerState(engine, config, logger("clients") if log is None else log, stop)
        self._servers: list[asyncio.Server] = []
        self._tls: Listener | None = None
        self._unix: tuple[Path, int] | None = None
        """The socket's path and inode. A file that replaced it since is not removed."""
        self._tcp_endpoint: Endpoint | None = None
        self.ends: dict[str, float] = {}
        """When the certificates that are in use end, by key of the site's file."""
        self.tcp: tuple[str, int] | None = None
        """The TCP address; if port 0 is configured, with the port that the system chose."""

    async def start(self) -> None:
        """Raises Rejected for an endpoint that would be open to strangers, Unavailable for an address that can't be
        used."""
        endpoint = None if self._config.clients.tcp is None else tcp_endpoint(self._config.clients)
        try:
            await self._open_unix()
            if endpoint is not None:
                await self._open_tcp(endpoint)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Notifies every client, and gives it a moment to read that."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._tls is not None:
            await self._tls.close()
        leaving = list(self._state.connections)
        for connection in leaving:
            connection.goodbye(f"site {self._config.name} is stopping")
        if leaving:
            give_up_at = asyncio.get_running_loop().time() + _FAREWELL_S
            while not all(connection.gone for connection in leaving):
                if asyncio.get_running_loop().time() > give_up_at:
                    break
                await asyncio.sleep(0.01)
            for connection in leaving:
                connection.abort()
        if self._unix is not None:
            path, inode = self._unix
            self._unix = None
            with contextlib.suppress(OSError):
                if path.stat().st_ino == inode:
                    path.unlink()

    def reload_keys(self) -> bool:
        """Reads the key file again, for clients that connect from now on; returns whether there is one. Raises
        Rejected or Malformed; then the old keys stay."""
        if self._tcp_endpoint is None or self._config.clients.keys is None:
            return False
        self._tcp_endpoint.keys = load_client_keys(self._config.clients.keys, self._state.log)
        return True

    def reload_tls(self) -> bool:
        """Reads the certificates again, for clients that connect from now on; returns whether there are any. Raises
        Rejected; then the old ones stay."""
        endpoint, tls = self._tcp_endpoint, self._config.clients.tls
        if endpoint is None or tls is None:
            return False
        endpoint.tls = server_tls(tls)
        self.ends = ends_of("clients.tls", tls)
        if self._tls is not None:
            self._tls.tls = endpoint.tls
        return True

    def counters(self) -> dict[str, int]:
        """Counters: clients accepted, refused, cut off."""
        return dict(self._state.counts)

    @property
    def connections(self) -> int:
        """The current number, handshakes included."""
        return len(self._state.connections)

    # -- endpoints

    async def _open_unix(self) -> None:
        path = socket_path(self._config)
        if len(os.fsencode(path)) > _UNIX_PATH_BYTES:
            raise Unavailable(f"{path}: a socket's path has at most {_UNIX_PATH_BYTES} bytes: set clients.unix")
        listener = _bind_unix(path, self._config.clients.unix_mode)
        self._unix = (path, path.stat().st_ino)
        connect = partial(Connection, self._state, unix_endpoint(), None)
        self._servers.append(await asyncio.get_running_loop().create_unix_server(connect, sock=listener))

    async def _open_tcp(self, endpoint: Endpoint) -> None:
        assert self._config.clients.tcp is not None, "the endpoint is for TCP"
        self._tcp_endpoint = endpoint
        self.ends = ends_of("clients.tls", self._config.clients.tls)
        host, port = self._config.clients.tcp
        connect = partial(Connection, self._state, endpoint, SILENCE_S)
        loop = asyncio.get_running_loop()
        try:
            if endpoint.tls is None:
                server = await loop.create_server(connect, host, port)
                self._servers.append(server)
                bound = server.sockets[0].getsockname()
            else:
                # The event loop's own server does not report failed handshakes.
                handshake_s = self._config.clients.handshake_ns / 1e9
                self._tls = Listener(connect, endpoint.tls, handshake_s, self._why_not, refused=self._state.refused)
                bound = self._tls.start((host, port))
        except OSError as error:
            why = "in use" if error.errno == 98 else error.strerror or str(error)
            raise Unavailable(f"clients.tcp: {host}:{port}: {why}") from None
        self.tcp = (bound[0], bound[1])
        event(
            self._state.log, logging.INFO, "clients may connect", tcp=f"{bound[0]}:{bound[1]}",
            keys=endpoint.keys is not None, tls=endpoint.tls is not None,
        )  # fmt: skip

    def _why_not(self, host: str) -> str | None:
        assert self._tcp_endpoint is not None, "its listener calls"
        assert self._tls is not None
        return self._state.why_not(self._tcp_endpoint, host, self._tls.arriving)


def _bind_unix(path: Path, mode: int) -> socket.socket:
    """A listening socket at `path` that never, not even for a moment, allows more than `mode`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        _remove_stale(path)
        listener.bind(os.fspath(path))
        path.chmod(mode)
    except OSError as error:
        listener.close()
        raise Unavailable(f"{path}: can't make the clients' socket: {error.strerror or error}") from None
    except Unavailable:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _remove_stale(path: Path) -> None:
    """A killed site leaves its socket behind, which is removed. A socket that answers belongs to a running site."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink()
        else:
            raise Unavailable(f"{path}: another site answers there: each site needs a directory of its own")
