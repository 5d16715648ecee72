"""What a turn has brought so far, until it is flushed."""

from reconvene.core.effects import Effects, Event, Persist
from reconvene.ids import Service
from reconvene.wire.codec import encode
from reconvene.wire.messages import Datagram

__all__ = ["Outgoing"]


class Outgoing:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.unsent: list[tuple[Service, bytes]] = []
        self._persist: list[Persist] = []
        self._datagrams: list[tuple[tuple[int, ...], bytes]] = []
        self._token = 0

    def send(self, to: tuple[int, ...], datagram: Datagram) -> None:
        if to:
            self._datagrams.append((to, encode(datagram)))

    def persist(self, key: str, value: bytes) -> int:
        """The token that comes back once it is synced."""
        self._token += 1
        self._persist.append(Persist(self._token, key, value))
        return self._token

    def move_to(self, effects: Effects) -> None:
        """Adds everything so far to the turn's effects, and forgets it. `events` stays the same list, since layers
        append to it."""
        if self.events:
            effects.events += self.events
            self.events.clear()
        if self._datagrams:
            effects.datagrams += self._datagrams
            self._datagrams.clear()
        if self._persist:
            effects.persist += self._persist
            self._persist.clear()
        if self.unsent:
            effects.unsent += self.unsent
            self.unsent.clear()
