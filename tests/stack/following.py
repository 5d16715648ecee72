"""A layer that follows the line of used primary configurations, for tests."""

from collections.abc import Sequence

from reconvene.core.effects import Changed, Delivered, LayerEvent, Used
from reconvene.ids import Service
from reconvene.stack.layer import Outlet
from reconvene.stack.turn import Turn, Write
from reconvene.wire.messages import Packet

__all__ = ["KIND", "Following"]

KIND = 40


class Following:
    """It keeps what it is handed, and sends what a test gives it."""

    kinds = (KIND,)
    damage: str | None = None
    settled = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[LayerEvent] = []
        self.came_back: list[bytes] = []
        self.packets: list[Packet] = []
        self.to_send: list[tuple[Service, bytes]] = []
        self.to_suspect: list[int] = []
        self.asked: list[tuple[int, int, bytes]] = []
        """Of each call of `brings`: how many events and unsent messages it had been handed before, and the answer."""

    def brings(self) -> bytes:
        answer = f"{self.name}{len(self.asked)}".encode()
        self.asked.append((len(self.events), len(self.came_back), answer))
        return answer

    def begin(self, outlet: Outlet, time: int) -> None:
        self.packets += outlet.take_packets()

    def take(self, events: Sequence[LayerEvent]) -> None:
        self.events += events

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        self.came_back += [payload for _, payload in unsent]

    def speak(self, outlet: Outlet) -> bool:
        spoken = False
        while self.to_suspect:
            spoken = outlet.suspect(self.to_suspect.pop()) or spoken
        while self.to_send and outlet.submit(*self.to_send[0]):
            self.to_send.pop(0)
            spoken = True
        return spoken

    def flush(self, now: int, turn: Turn) -> Write | None:
        return None

    def synced(self, token: int) -> None:
        raise AssertionError("it writes nothing")

    def deadline(self) -> int | None:
        return None

    def invariants(self) -> None:
        pass

    # -- what it was handed

    @property
    def used(self) -> list[Used]:
        return [event for event in self.events if isinstance(event, Used)]

    @property
    def story(self) -> list[str]:
        """Kinds of changes, numbers of members that are used, and payloads, in order."""
        return [_told(event) for event in self.events]


def _told(event: LayerEvent) -> str:
    match event:
        case Changed(kind=kind, members=members):
            return f"{kind.value} {_letters(members)}"
        case Used(members=members, heirs=heirs):
            return f"used {_letters(members)} by {_letters(heirs) or 'none'}"
        case Delivered(payloads=payloads):
            return " ".join(payload[1:].decode() for payload in payloads)


def _letters(sites: Sequence[int]) -> str:
    return "".join(chr(ord("a") + site) for site in sites)
