"""Connections between programs of a simulated cluster, as TCP has them.

Given: machines and which of them can talk. Promised: bytes arrive in order and whole, after the way takes its time;
what is under way while the machines are apart waits, and goes on when they can talk again; a process that dies resets
its connections; one that is paused takes nothing, and loses nothing. How much may be under way is bounded by those
that write: `get_write_buffer_size` tells them, and `pause_writing` is called.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from errno import ECONNREFUSED, ECONNRESET
from os import strerror
from typing import Any, Protocol

from reconvene.sim.loop import Loop
from reconvene.testing.process import Process

__all__ = ["End", "Listener", "Way", "refused"]

_HIGH_BYTES = 256 << 10
_LOW_BYTES = 64 << 10


class Way(Protocol):
    """How bytes get from one machine to another; None stands for the test, which reaches every machine."""

    def delay_ns(self, source: int | None, destination: int | None) -> int: ...
    def is_open(self, source: int | None, destination: int | None) -> bool: ...


class _Lost(Exception):
    """The other side's process has died, or has dropped the connection."""


class End(asyncio.Transport):
    """One side of a connection. Its protocol is called in the context of its process."""

    peer: "End"

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeline: Loop,
        way: Way,
        owner: Process | None,
        context: Context,
        name: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": name})
        self._loop = loop
        self._timeline = timeline
        self._way = way
        self._owner = owner
        self._context = context
        self._protocol: Any = None
        self._inbox: deque[bytes | _Lost | None] = deque()
        """What has arrived and was not taken; None: the other side has closed."""
        self._stalled: deque[bytes | _Lost | None] = deque()
        """What has not arrived, since the machines are apart."""
        self._arrives_at = 0
        self._unread = 0
        """Bytes that this side has written and the other has not taken."""
        self._writing_paused = False
        self._reading_paused = False
        self._will_read = False
        self._closing = False
        self._gone = False
        if owner is not None:
            owner.on_death[self._die] = None

    def name_peer(self) -> None:
        self._extra["peername"] = self.peer.get_extra_info("sockname")  # type: ignore[attr-defined]

    @property
    def machine(self) -> int | None:
        return None if self._owner is None else self._owner.machine

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Called in the context of its process, before anything is read."""
        self._protocol = protocol
        protocol.connection_made(self)

    # -- what protocols call

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._gone or not data:
            return
        piece = bytes(data)
        self._unread += len(piece)
        self._send(piece)
        if self._unread > _HIGH_BYTES and not self._writing_paused:
            self._writing_paused = True
            self._soon(self._protocol.pause_writing)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._unread

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return _LOW_BYTES, _HIGH_BYTES

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """They are the same for all."""

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._read_soon()

    def is_reading(self) -> bool:
        return not self._reading_paused

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._send(None)
            self._soon(self._over, None)

    def abort(self) -> None:
        if not self._gone:
            self._closing = True
            self._send(_Lost())
            self._soon(self._over, None)

    def get_protocol(self) -> asyncio.BaseProtocol:
        found: asyncio.BaseProtocol = self._protocol
        return found

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    # -- the way

    def _send(self, piece: "bytes | _Lost | None") -> None:
        peer = self.peer
        delay_ns = self._way.delay_ns(self.machine, peer.machine)
        peer._arrives_at = max(self._timeline.now + delay_ns, peer._arrives_at)
        self._timeline.at(peer._arrives_at, peer._arrive, piece)

    def _arrive(self, piece: "bytes | _Lost | None") -> None:
        if self._stalled or not self._way.is_open(self.peer.machine, self.machine):
            self._stalled.append(piece)
            return
        self._inbox.append(piece)
        self._read_soon()

    def rewired(self) -> None:
        """The connectivity between machines has changed."""
        if self._stalled and self._way.is_open(self.peer.machine, self.machine):
            # What is under way meanwhile lines up behind it.
            again_at = self._timeline.now + self._way.delay_ns(self.peer.machine, self.machine)
            self._timeline.at(again_at, self._send_again)

    def _send_again(self, _: object) -> None:
        if self._way.is_open(self.peer.machine, self.machine):
            self._inbox.extend(self._stalled)
            self._stalled.clear()
            self._read_soon()

    @property
    def is_over(self) -> bool:
        """Nothing will arrive here any more."""
        return self._gone

    # -- in the process

    def _soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon(callback, *arguments, context=self._context)

    def _read_soon(self) -> None:
        if self._inbox and not self._will_read and not self._reading_paused and not self._gone:
            self._will_read = True
            self._soon(self._read)

    def _read(self) -> None:
        self._will_read = False
        while self._inbox and not self._reading_paused and not self._gone:
            pieces: list[bytes] = []
            while self._inbox and isinstance(self._inbox[0], bytes):
                pieces.append(self._inbox.popleft())  # type: ignore[arg-type]
            if pieces:
                data = b"".join(pieces)
                self.peer._taken(len(data))
                if not self._closing:
                    self._protocol.data_received(data)
                continue
            end = self._inbox.popleft()
            if isinstance(end, _Lost):
                self._closing = True
                self._over(ConnectionResetError(ECONNRESET, strerror(ECONNRESET)))
            elif not self._closing and not self._protocol.eof_received():
                self.close()

    def _taken(self, size: int) -> None:
        self._unread -= size
        if self._writing_paused and self._unread <= _LOW_BYTES:
            self._writing_paused = False
            self._soon(self._protocol.resume_writing)

    def _over(self, error: Exception | None) -> None:
        if not self._gone:
            self._gone = True
            self._inbox.clear()
            if self._owner is not None:
                self._owner.on_death.pop(self._die, None)
            self._protocol.connection_lost(error)

    def _die(self) -> None:
        """The operating system tells the other side."""
        self._closing = self._gone = True
        self._send(_Lost())


class Listener(asyncio.AbstractServer):
    """Takes connections at one address of one machine, until it is closed or its process dies."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        owner: Process | None,
        context: Context,
        closed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self.protocol_factory = protocol_factory
        self.owner = owner
        self.context = context
        self._closed = closed
        self._serving = True
        if owner is not None:
            owner.on_death[self.close] = None

    def close(self) -> None:
        if self._serving:
            self._serving = False
            if self.owner is not None:
                self.owner.on_death.pop(self.close, None)
            self._closed()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._serving

    async def start_serving(self) -> None:
        """It does from the start."""

    async def serve_forever(self) -> None:
        await self._loop.create_future()

    async def wait_closed(self) -> None:
        """It is closed at once."""


def refused() -> ConnectionRefusedError:
    return ConnectionRefusedError(ECONNREFUSED, strerror(ECONNREFUSED))
