"""Datagrams between the sites of a simulated cluster: a runtime.outside.Transport over the simulator's network."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context

from reconvene.runtime.config.settings import Config
from reconvene.sim.network import Network
from reconvene.site_list import Dispute

__all__ = ["Postbox", "SimTransport"]

_FRAME_BYTES = 1_400
"""What fits a packet of most networks."""


class Postbox:
    """Where a machine's datagrams arrive, whether or not there is a site to take them."""

    def __init__(self) -> None:
        self.site: SimTransport | None = None

    def receive(self, data: bytes) -> None:
        if self.site is not None:
            self.site.arrive(data)


class SimTransport:
    """Of one life of a site. Nothing is sealed: no stranger is on this network."""

    def __init__(self, config: Config, network: Network, postbox: Postbox, deaf_to: list[frozenset[int]]) -> None:
        """`deaf_to`: by site, those whose datagrams it drops; shared by all."""
        self.frame_bytes = config.transport.frame_bytes or _FRAME_BYTES
        self.packet_bytes = self.frame_bytes
        self.buffer_bytes = config.transport.receive_buffer_bytes
        self.disputes: dict[str, Dispute] = {}
        self._ordinal = config.ordinal
        self._most = config.transport.turn_datagrams
        self._network = network
        self._postbox = postbox
        self._deaf_to = deaf_to
        self._silent_to: frozenset[int] = frozenset()
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._receive: Callable[[list[bytes]], None] | None = None
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._due = False
        self._counts = dict.fromkeys(
            ("datagrams_sent", "datagrams_received", "bytes_sent", "bytes_received", "datagrams_overflowed"), 0
        )

    def start(self, receive: Callable[[list[bytes]], None]) -> None:
        self._receive = receive
        self._deaf_to[self._ordinal] = frozenset()
        self._postbox.site = self

    def send(self, datagrams: Sequence[tuple[tuple[int, ...], bytes]]) -> None:
        hindered = self._silent_to or any(self._ordinal in deaf for deaf in self._deaf_to)
        sent = [(self._heard_by(destinations), data) for destinations, data in datagrams] if hindered else datagrams
        for destinations, data in sent:
            self._counts["datagrams_sent"] += len(destinations)
            self._counts["bytes_sent"] += len(data) * len(destinations)
        self._network.transmit(self._ordinal, sent)

    def _heard_by(self, destinations: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            other
            for other in destinations
            if other not in self._silent_to and self._ordinal not in self._deaf_to[other]
        )

    def adapt(self, members: Sequence[int], resent: int) -> int:
        return self.frame_bytes

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        self._deaf_to[self._ordinal] = incoming
        self._silent_to = outgoing

    def counters(self) -> dict[str, int]:
        return dict(self._counts)

    def close(self) -> None:
        self._receive = None
        self._deaf_to[self._ordinal] = frozenset()
        if self._postbox.site is self:
            self._postbox.site = None

    # -- what arrives

    def arrive(self, data: bytes) -> None:
        """While the site is paused, as much as the buffer holds waits for it."""
        if self._waiting_bytes + len(data) > self.buffer_bytes:
            self._counts["datagrams_overflowed"] += 1
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._due = False
        if self._receive is None:
            return
        taken = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        size = sum(map(len, taken))
        self._waiting_bytes -= size
        self._counts["datagrams_received"] += len(taken)
        self._counts["bytes_received"] += size
        if self._waiting:
            self._due = True
            self._loop.call_soon(self._read, context=self._context)
        self._receive(taken)
