"""ISIS as a layer of the stack: the only place where it meets its site."""

from collections.abc import Sequence

from reconvene.core.effects import LayerEvent
from reconvene.ids import Service
from reconvene.isis.isis import Isis
from reconvene.isis.messages import KINDS
from reconvene.stack.layer import Outlet
from reconvene.stack.turn import Turn, Write

__all__ = ["IsisLayer"]

_AHEAD = 64
_AHEAD_BYTES = 1 << 20


class IsisLayer:
    kinds = KINDS
    apart = True

    def __init__(self, isis: Isis) -> None:
        self.isis = isis
        """For requests and questions."""
        self.damage: str | None = None
        self._now = 0

    def brings(self) -> bytes:
        return self.isis.brings()

    def begin(self, outlet: Outlet, time: int) -> None:
        self._now = outlet.now
        self.isis.receive(outlet.take_packets(), outlet.now)
        for site in self.isis.stalled(outlet.now):
            outlet.suspect(site)

    def take(self, events: Sequence[LayerEvent]) -> None:
        self.isis.take(events, self._now)

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        self.isis.control.take_back(unsent)

    def speak(self, outlet: Outlet) -> bool:
        self.isis.work()
        spoken = False
        while outlet.has_room(_AHEAD, _AHEAD_BYTES):
            message = self.isis.next_control()
            if message is None or not outlet.submit(*message):
                break
            self.isis.control.sent()
            spoken = True
        return spoken

    def flush(self, now: int, turn: Turn) -> Write | None:
        counters = self.isis.channels.counters
        bare = counters.bare
        turn.isis, packets = self.isis.finish(now)
        turn.acks_only = bool(packets) and not turn.datagrams and counters.bare - bare == len(packets)
        turn.datagrams += packets
        write = self.isis.stored.flush()
        return None if write is None else Write(*write)

    def synced(self, token: int) -> None:
        self.isis.stored.synced(token)

    def deadline(self) -> int | None:
        return self.isis.deadline()

    @property
    def settled(self) -> bool:
        return self.isis.stored.settled

    def invariants(self) -> None:
        self.isis.invariants()
