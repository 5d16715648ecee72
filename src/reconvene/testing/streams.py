"""The connections of a simulated cluster: listeners, and the paths between machines."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from random import Random
from typing import TypeVar

from reconvene.sim.network import Network
from reconvene.testing.errors import NotSimulated
from reconvene.testing.process import current_process
from reconvene.testing.stream import End, Listener, refused

__all__ = ["Streams"]

_LOCAL_NS = 50_000
"""Between two programs of one machine, and between the test and any machine."""
_AGAIN_S = 0.2
"""A connection that can't be made since the machines are apart is tried again so often, until its caller gives up."""
_FIRST_PORT = 40_000
_MOST_ENDS = 256
"""Ends of connections before those that are over are looked for."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Streams:
    """A machine is known by its site's name. It is a Way for all connections."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, names: Sequence[str], network: Network, random: Random
    ) -> None:
        self._loop = loop
        self._names = names
        self._network = network
        self._random = random
        self._listeners: dict[tuple[int, int], Listener] = {}
        self._ends: list[End] = []
        self._made = 0

    # -- the ways

    def delay_ns(self, source: int | None, destination: int | None) -> int:
        if source is None or destination is None or source == destination:
            return _LOCAL_NS
        conditions = self._network.conditions
        return conditions.latency_ns + int(self._random.random() * conditions.jitter_ns)

    def is_open(self, source: int | None, destination: int | None) -> bool:
        """Both ways: what arrives has to be acknowledged."""
        if source is None or destination is None or source == destination:
            return True
        connected = self._network.connected
        return connected(source, destination) and connected(destination, source)

    def rewired(self) -> None:
        """The connectivity between machines has changed."""
        for end in self._ends:
            end.rewired()

    # -- what the loop calls

    async def connect(self, protocol_factory: Callable[[], P], host: str, port: int) -> tuple[asyncio.Transport, P]:
        machine = self._machine(host, port)
        process = current_process()
        here = None if process is None else process.machine
        while not self.is_open(here, machine):
            await asyncio.sleep(_AGAIN_S)
        await asyncio.sleep(2 * self.delay_ns(here, machine) / 1e9)
        listener = self._listeners.get((machine, port))
        if listener is None:
            raise refused()
        self._made += 1
        name = ("test" if here is None else self._names[here], _FIRST_PORT + self._made)
        timeline = self._network.loop
        own = End(self._loop, timeline, self, process, copy_context(), name)
        other = End(self._loop, timeline, self, listener.owner, listener.context, (host, port))
        own.peer, other.peer = other, own
        own.name_peer()
        other.name_peer()
        self._keep(own, other)
        self._loop.call_soon(_accept, listener, other, context=listener.context)
        protocol = protocol_factory()
        own.begin(protocol)
        return own, protocol

    def listen(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> asyncio.AbstractServer:
        process = current_process()
        machine = self._machine(host, port)
        if process is not None and process.machine != machine:
            here = self._names[process.machine]
            raise NotSimulated(f"{host}:{port}: {process.name} runs at {here}; it can listen there only")
        place = (machine, port)
        if place in self._listeners:
            raise OSError(f"{host}:{port}: address already in use")
        context = copy_context()
        listener = Listener(self._loop, protocol_factory, process, context, lambda: self._forget(place))
        self._listeners[place] = listener
        return listener

    def _forget(self, place: tuple[int, int]) -> None:
        del self._listeners[place]

    def _machine(self, host: str, port: int) -> int:
        if host not in self._names:
            raise NotSimulated(
                f"{host}:{port}: there is no such machine in the simulated cluster; expected the name of a site: "
                f"{', '.join(self._names)}"
            )
        return self._names.index(host)

    def _keep(self, *ends: End) -> None:
        if len(self._ends) >= _MOST_ENDS:
            self._ends = [end for end in self._ends if not end.is_over]
        self._ends.extend(ends)


def _accept(listener: Listener, end: End) -> None:
    end.begin(listener.protocol_factory())
