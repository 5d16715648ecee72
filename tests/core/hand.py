"""Sites on a network that a test controls packet by packet. Time is virtual, one hop takes 1 ms."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from reconvene.core.effects import Changed, ConfKind, Delivered, Event, Persist, Sent
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.ids import Service, counter_of
from reconvene.wire.codec import decode
from reconvene.wire.messages import Datagram

__all__ = ["MS", "Hand", "Packet", "Rule", "show_conf", "show_number"]

MS = 1_000_000


def show_number(number: int) -> str:
    """A configuration's number as its counter and its proposer's letter: 3a."""
    return f"{counter_of(number)}{chr(ord('a') + (number & 0xFFFF))}"


def show_conf(conf: str) -> str:
    return "+".join(show_number(int(number)) for number in conf.split("+"))


@dataclass(frozen=True, order=True)
class Packet:
    at: int
    order: int
    source: str
    to: str
    data: bytes = field(compare=False)

    @property
    def datagram(self) -> Datagram:
        return decode(self.data)

    @property
    def kind(self) -> str:
        return type(self.datagram).__name__.lower()


Rule = Callable[[Packet], bool]


class Hand:
    """`lose` and `hold` are asked about each packet when it is sent; `events` has the events of each site."""

    def __init__(self, names: str, options: Options | None = None, start: str | None = None) -> None:
        self.names = names
        self.options = options or Options()
        self.now = 0
        self.sites: dict[str, Site] = {}
        self.events: dict[str, list[Event]] = {name: [] for name in names}
        self.disk: dict[str, bytes] = {}
        self.lose: list[Rule] = []
        self.hold: list[Rule] = []
        self.held: list[Packet] = []
        self.slow_disks: set[str] = set()
        self.unsynced: list[tuple[str, Persist]] = []
        self.on_event: Callable[[str, Event], None] = lambda name, event: None
        self.on_send: Callable[[Packet], None] = lambda packet: None
        self._order = count()
        self._wire: list[Packet] = []
        self._components: list[set[str]] = [set(names)]
        for name in names if start is None else start:
            self.start(name)

    # -- processes

    def ordinal(self, name: str) -> int:
        return self.names.index(name)

    def start(self, name: str) -> None:
        """The first start or a restart: a new incarnation under the same name."""
        self.disk[name] = boot(self.disk.get(name), self.ordinal(name))
        self.sites[name] = Site(self.options, self.ordinal(name), len(self.names), self.disk[name], self.now)
        self.flush(name)

    def crash(self, name: str) -> None:
        del self.sites[name]
        self.unsynced = [entry for entry in self.unsynced if entry[0] != name]

    def submit(self, name: str, service: Service, payload: bytes) -> None:
        self.sites[name].submit(service, payload, self.now)
        self.flush(name)

    def sync(self, name: str) -> None:
        done = [persist for site, persist in self.unsynced if site == name]
        self.unsynced = [entry for entry in self.unsynced if entry[0] != name]
        for persist in done:
            self.disk[name] = persist.value
            self.sites[name].synced(persist.token, self.now)
            self.flush(name)

    # -- the network

    def partition(self, *components: str) -> None:
        """What is under way between components is lost too."""
        self._components = [set(component) for component in components]
        self._wire = sorted(packet for packet in self._wire if self._connected(packet))

    def heal(self) -> None:
        self._components = [set(self.names)]

    def _connected(self, packet: Packet) -> bool:
        return any({packet.source, packet.to} <= component for component in self._components)

    def release(self) -> None:
        """What was held arrives now."""
        held, self.held = self.held, []
        self.hold.clear()
        for packet in held:
            self.receive(packet.to, packet.data)

    def receive(self, name: str, data: bytes) -> None:
        if name in self.sites:
            self.sites[name].receive(data, self.now)
            self.flush(name)

    def flush(self, name: str) -> None:
        """Ends a turn and performs its effects."""
        site = self.sites[name]
        effects = site.flush(self.now)
        site.invariants()
        for event in effects.events:
            self.events[name].append(event)
            self.on_event(name, event)
        for destinations, data in effects.datagrams:
            for ordinal in destinations:
                assert ordinal != site.ordinal, "never to the site itself"
                self._send(Packet(self.now + MS, next(self._order), name, self.names[ordinal], data))
        self.unsynced += [(name, persist) for persist in effects.persist]
        if effects.persist and name not in self.slow_disks:
            self.sync(name)

    def _send(self, packet: Packet) -> None:
        self.on_send(packet)
        if any(rule(packet) for rule in self.lose) or not self._connected(packet):
            return
        if any(rule(packet) for rule in self.hold):
            self.held.append(packet)
        else:
            heappush(self._wire, packet)

    # -- time

    def step(self, until: int) -> bool:
        """The next thing that happens, if it happens by then."""
        deadline, name = min((max(site.deadline(), self.now), name) for name, site in self.sites.items())
        at = min(deadline, self._wire[0].at if self._wire else deadline)
        if at > until:
            self.now = until
            return False
        self.now = at
        if self._wire and self._wire[0].at <= at:
            packet = heappop(self._wire)
            self.receive(packet.to, packet.data)
        else:
            self.sites[name].tick(at)
            self.flush(name)
        return True

    def run(self, ms: int) -> None:
        until = self.now + ms * MS
        while self.step(until):
            pass

    def until(self, condition: Callable[[], bool], ms: int = 20_000) -> None:
        until = self.now + ms * MS
        while not condition():
            assert self.step(until), f"not within {ms} ms: {self.places()}"

    def places(self) -> dict[str, tuple[str, str]]:
        return {name: (self.members(name), site.step) for name, site in self.sites.items()}

    # -- what was seen

    def members(self, name: str) -> str:
        return "".join(self.names[ordinal] for ordinal in self.sites[name].members)

    def together(self, names: str) -> bool:
        return all(self.members(name) == names and self.sites[name].phase == "operational" for name in names) and (
            len({self.sites[name].configuration for name in names}) == 1
        )

    def wait_together(self, names: str | None = None, ms: int = 20_000) -> None:
        self.until(lambda: self.together(names or self.names), ms)

    def deliveries(self, name: str) -> list[Delivered]:
        return [event for event in self.events[name] if isinstance(event, Delivered)]

    def delivered(self, name: str) -> list[bytes]:
        return [payload for event in self.deliveries(name) for payload in event.payloads]

    def changes(self, name: str, kind: ConfKind | None = None) -> list[Changed]:
        found = [event for event in self.events[name] if isinstance(event, Changed)]
        return found if kind is None else [event for event in found if event.kind is kind]

    def sent(self, name: str) -> list[Sent]:
        return [event for event in self.events[name] if isinstance(event, Sent)]
