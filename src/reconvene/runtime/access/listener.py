"""Accepts TCP connections one by one, so that TLS handshakes in progress are counted and failed ones are reported.

The event loops' own servers report a connection only after its handshake, and do not report failed handshakes at all.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine

from reconvene.runtime.config.settings import Address
from reconvene.units import show_address

__all__ = ["Listener", "listen_at"]

_BACKLOG = 128
_BREATH_S = 0.1
"""Pause after a connection could not be accepted."""


class Listener:
    """`start`, then `close`. `connect` makes the protocol of a connection. `why_not` returns why one more connection
    from a host can't be accepted, besides the `arriving` ones. `refused` is called with the reason in one
    word, `limit` or `tls`, the peer and an explanation if a connection is refused."""

    def __init__(
        self,
        connect: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
        handshake_s: float,
        why_not: Callable[[str], str | None],
        welcomed: Callable[[asyncio.Transport], None] | None = None,
        refused: Callable[[str, str, str], None] | None = None,
    ) -> None:
        self._connect = connect
        self.tls = tls
        """May be replaced, for connections from then on."""
        self._handshake_s = handshake_s
        self._why_not = why_not
        self._welcomed = welcomed
        self._refused = refused
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshakes: dict[asyncio.Task[None], str] = {}
        """Connections in their handshake, with the host of each, in the order of arrival."""

    @property
    def arriving(self) -> list[str]:
        """The host of each connection that is in its handshake."""
        return list(self._handshakes.values())

    def displace(self, host: str) -> bool:
        """Ends the oldest TLS handshake of this host; returns whether there was one."""
        if self.tls is not None:
            for task, other in self._handshakes.items():
                if other == host:
                    del self._handshakes[task]
                    task.cancel()
                    return True
        return False

    def start(self, address: Address) -> Address:
        """Returns the address, with port 0 the one that the system chose. Raises OSError."""
        self._sockets = listen_at(address)
        for listener in self._sockets:
            self._begin(self._accept(listener))
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Accepts no more connections, and ends handshakes in progress."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._sockets:
            listener.close()
        self._sockets.clear()

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                arrived, peer = await loop.sock_accept(listener)
            except OSError:  # the peer was gone again, or this process has no file descriptor left
                await asyncio.sleep(_BREATH_S)
                continue
            who = show_address(peer)
            why = self._why_not(peer[0])
            if why is not None:
                arrived.close()
                self._refuse("limit", who, why)
                continue
            task = self._begin(self._welcome(arrived, who))
            self._handshakes[task] = peer[0]
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _welcome(self, arrived: socket.socket, who: str) -> None:
        tls = self.tls
        patience = None if tls is None else self._handshake_s
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._connect, arrived, ssl=tls, ssl_handshake_timeout=patience
            )
        except OSError as error:
            arrived.close()
            why = error.reason if isinstance(error, ssl.SSLError) else str(error)
            self._refuse("tls", who, f"tls: {why or type(error).__name__}")
            return
        except asyncio.CancelledError:
            arrived.close()
            raise
        task = asyncio.current_task()
        assert task is not None, "a TLS connection has a socket"
        self._handshakes.pop(task, None)
        if self._welcomed is not None:
            self._welcomed(transport)

    def _refuse(self, reason: str, who: str, why: str) -> None:
        if self._refused is not None:
            self._refused(reason, who, why)


def listen_at(address: Address) -> list[socket.socket]:
    """A listening socket for each address of the name; with port 0, only for the first one. Raises OSError."""
    host, port = address
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    places = sorted({(family, place) for family, _, _, _, place in found}, key=str)
    sockets: list[socket.socket] = []
    try:
        for family, place in places if port else places[:1]:
            sockets.append(socket.create_server(place[:2], family=family, backlog=_BACKLOG))
            sockets[-1].setblocking(False)
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets
