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
        effects.persist += self._persist
        effects.events += self.events
        effects.datagrams += self._datagrams
        effects.unsent += self.unsent
        self.events.clear()
        self.unsent.clear()
        self._persist.clear()
        self._datagrams.clear()
