"""Domains as layers of two stacks: of a site's cluster, and of a gateway's site in the cluster above."""

from collections.abc import Sequence

from reconvene.core.effects import LayerEvent
from reconvene.domains.gateway import RENEW_EVERY_NS, Gateway
from reconvene.domains.messages import KINDS, UPPER_KINDS
from reconvene.domains.port import Site
from reconvene.ids import Service
from reconvene.stack.layer import Outlet
from reconvene.stack.turn import Turn, Write

__all__ = ["DomainLayer", "UpperLayer"]

_AHEAD = 64
_AHEAD_BYTES = 1 << 20


class _Unwritten:
    """A layer that writes nothing."""

    damage: str | None = None
    settled = True

    def synced(self, token: int) -> None:
        raise AssertionError("it writes nothing")

    def deadline(self) -> int | None:
        return None


class DomainLayer(_Unwritten):
    """Every site of the cluster has it."""

    kinds = KINDS

    def __init__(self, site: Site) -> None:
        self.site = site
        """For requests and questions."""

    def begin(self, outlet: Outlet, time: int) -> None:
        self.site.look(outlet.now)

    def take(self, events: Sequence[LayerEvent]) -> None:
        self.site.take(events)

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        """What an author has sent it sends again in each configuration; all else was of the last one."""

    def speak(self, outlet: Outlet) -> bool:
        spoken = False
        while outlet.has_room(_AHEAD, _AHEAD_BYTES):
            message = self.site.next()
            if message is None or not outlet.submit(message.service, message.payload):
                break
            self.site.sent(message)
            spoken = True
        return spoken

    def flush(self, now: int, turn: Turn) -> Write | None:
        turn.wide, self.site.events = self.site.events, []
        return None

    def deadline(self) -> int | None:
        return self.site.deadline()

    def invariants(self) -> None:
        self.site.invariants()


class UpperLayer(_Unwritten):
    """A gateway's site above has it."""

    kinds = UPPER_KINDS

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.changed = False
        """Something has come that its cluster may want to know."""
        self._renewed: int | None = None

    def begin(self, outlet: Outlet, time: int) -> None:
        """Nothing is prepared."""

    def take(self, events: Sequence[LayerEvent]) -> None:
        if events:
            self.gateway.take(events)
            self.changed = True

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        self.gateway.take_back(unsent)

    def speak(self, outlet: Outlet) -> bool:
        gateway = self.gateway
        if gateway.renew and (self._renewed is None or outlet.now - self._renewed >= RENEW_EVERY_NS):
            self._renewed = outlet.now
            gateway.renew = False
            return outlet.renew()
        spoken = False
        for site in gateway.suspects:
            # The others of its cluster may have lost it, and the cluster above may not: then it stays.
            if outlet.is_silent(site) and outlet.suspect(site):
                spoken = True
        gateway.suspects.clear()
        while outlet.has_room(_AHEAD, _AHEAD_BYTES):
            message = gateway.next()
            if message is None or not outlet.submit(*message):
                break
            gateway.sent()
            spoken = True
        return spoken

    def flush(self, now: int, turn: Turn) -> Write | None:
        turn.wide, self.gateway.events = self.gateway.events, []
        return None

    def deadline(self) -> int | None:
        return None if self._renewed is None or not self.gateway.renew else self._renewed + RENEW_EVERY_NS

    def invariants(self) -> None:
        """The gateway's are its site's."""
