"""Connections between processes of the simulated network: requests one way, answers the other, as over TCP.

Given: the network's links, with their delays, losses, partitions and cuts. Promised: what is sent over a connection
arrives once and in its order, however much is lost on the way, or the connection breaks: when a process crashes, or
when something could not be delivered for a while. Then each end is told, if it is still there, not necessarily at the
same time. What was under way may or may not have arrived. A paused process is told when it goes on.
"""

from collections import deque
from random import Random
from typing import Protocol

from reconvene.sim.loop import Loop
from reconvene.sim.network import Network

__all__ = ["Calls", "Connection", "End"]

MS = 1_000_000
_AGAIN_NS = 100 * MS
"""What is lost is sent again after this, then twice this, and so on …"""
_MOST_TRIES = 5
"""… so many times: then the connection is broken."""
_SILENT_NS = 1_500 * MS
"""An end that can't be reached learns after so long that the other has given the connection up."""


class End(Protocol):
    """A process at one end of connections. While it is paused it is told nothing; what there is waits."""

    ordinal: int
    paused: bool

    @property
    def up(self) -> bool: ...

    def heard(self, connection: "Connection", message: object) -> None:
        """What the other end sent."""

    def lost(self, connection: "Connection") -> None:
        """The connection is broken, or the other end has closed it."""


class _Way:
    """One direction of a connection."""

    __slots__ = ("queue", "tries")

    def __init__(self) -> None:
        self.queue: deque[tuple[int, object]] = deque()
        """(not before, message), in order; the first is on its way."""
        self.tries = 0


class Connection:
    """From `client`, who opened it, to `server`."""

    def __init__(self, calls: "Calls", client: End, server: End) -> None:
        self.client = client
        self.server = server
        self._calls = calls
        self._ways = {client.ordinal: _Way(), server.ordinal: _Way()}
        self._open = {client.ordinal, server.ordinal}
        """Ends that think that it is open."""
        self._waiting: dict[int, list[object]] = {}
        """By end: what has come while it was paused."""

    def send(self, sender: End, message: object) -> None:
        """Nothing, where the sender knows that it is broken."""
        if sender.ordinal not in self._open:
            return
        way = self._ways[sender.ordinal]
        way.queue.append((self._calls.arrival(sender, self.other(sender)), message))
        if len(way.queue) == 1:
            self._schedule(sender)

    def close(self, closer: End) -> None:
        """The other end is told."""
        if closer.ordinal in self._open:
            self._open.discard(closer.ordinal)
            self._tell_later(closer, self.other(closer))

    def other(self, end: End) -> End:
        return self.server if end.ordinal == self.client.ordinal else self.client

    # -- on the way

    def _schedule(self, sender: End) -> None:
        loop = self._calls.loop
        at, _ = self._ways[sender.ordinal].queue[0]
        loop.at(max(at, loop.now), self._arrive, sender)

    def _arrive(self, sender: End) -> None:
        way, receiver = self._ways[sender.ordinal], self.other(sender)
        if sender.ordinal not in self._open or receiver.ordinal not in self._open or not way.queue:
            return
        if not self._calls.passes(sender, receiver):
            way.tries += 1
            if way.tries > _MOST_TRIES:
                self._break(sender)
            else:
                loop = self._calls.loop
                loop.at(loop.now + (_AGAIN_NS << (way.tries - 1)), self._arrive, sender)
            return
        way.tries = 0
        _, message = way.queue.popleft()
        if way.queue:
            self._schedule(sender)
        self._hand_over(receiver, message)

    def _hand_over(self, end: End, message: object) -> None:
        if end.paused:
            self._waiting.setdefault(end.ordinal, []).append(message)
        else:
            end.heard(self, message)

    def resume(self, end: End) -> None:
        """The end goes on: it is told what has come meanwhile."""
        for message in self._waiting.pop(end.ordinal, []):
            if message is _LOST:
                self._calls.forget(self)
                end.lost(self)
            elif end.ordinal in self._open:
                end.heard(self, message)

    @property
    def is_over(self) -> bool:
        return not self._open

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    # -- its end

    def _break(self, noticed: End) -> None:
        self._open.discard(noticed.ordinal)
        self._tell_later(noticed, self.other(noticed))
        self._tell(noticed)

    def crash(self, end: End) -> None:
        """This end's process is gone: it is told nothing, and the other end once it is known there."""
        self._waiting.pop(end.ordinal, None)
        self.close(end)

    def _tell_later(self, by: End, end: End) -> None:
        calls = self._calls
        reached = calls.connected(by, end)
        after = calls.arrival(by, end) if reached else calls.loop.now + _SILENT_NS
        calls.loop.at(after, self._told, end)

    def _told(self, end: End) -> None:
        if end.ordinal in self._open:
            self._open.discard(end.ordinal)
            self._tell(end)

    def _tell(self, end: End) -> None:
        if end.paused:
            self._waiting.setdefault(end.ordinal, []).append(_LOST)
        else:
            self._calls.forget(self)
            end.lost(self)


_LOST = object()


class Calls:
    def __init__(self, loop: Loop, network: Network, random: Random) -> None:
        self.loop = loop
        self._network = network
        self._random = random
        self._connections: dict[Connection, None] = {}

    def open(self, client: End, server: End) -> Connection | None:
        """None: it can't be reached now, or its process is not there: the client may try again later."""
        if not server.up or not self.connected(client, server):
            return None
        connection = Connection(self, client, server)
        self._connections[connection] = None
        return connection

    def crashed(self, end: End) -> None:
        for connection in self._of(end):
            connection.crash(end)
            if connection.is_over:
                self.forget(connection)

    def resumed(self, end: End) -> None:
        for connection in self._of(end):
            connection.resume(end)

    def forget(self, connection: Connection) -> None:
        # It is kept while an end that is paused has still to be told.
        if not connection.has_waiting:
            self._connections.pop(connection, None)

    def _of(self, end: End) -> list[Connection]:
        return [each for each in self._connections if end in (each.client, each.server)]

    # -- the network below

    def connected(self, one: End, other: End) -> bool:
        """Both ways: what is sent has to be acknowledged."""
        network = self._network
        return network.connected(one.ordinal, other.ordinal) and network.connected(other.ordinal, one.ordinal)

    def passes(self, sender: End, receiver: End) -> bool:
        conditions = self._network.conditions_of(sender.ordinal, receiver.ordinal)
        lost = conditions.loss and self._random.random() < conditions.loss
        return receiver.up and self.connected(sender, receiver) and not lost

    def arrival(self, sender: End, receiver: End) -> int:
        conditions = self._network.conditions_of(sender.ordinal, receiver.ordinal)
        return self.loop.now + conditions.latency_ns + int(self._random.random() * conditions.jitter_ns)
