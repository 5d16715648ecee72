"""A stand-in for the core, so that the simulator can be tested by itself."""

import pytest

from reconvene.core.effects import Changed, ConfKind, Delivered, Event, Sent
from reconvene.core.options import Options
from reconvene.ids import Service
from reconvene.sim.core import Core
from reconvene.stack.turn import Turn, Write
from reconvene.storage.tables import Put

MS = 1_000_000


class FakeSite:
    """Stays alone, sends its messages to all others, delivers its own, and beacons. It promises nothing."""

    def __init__(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> None:
        self.incarnation = int(record)
        self.ordinal = ordinal
        self.others = tuple(other for other in range(sites) if other != ordinal)
        self.phase = self.step = "operational"
        self.configuration = str((self.incarnation << 16) | ordinal)
        self.members = (ordinal,)
        self.capacity = options.limits.queue_messages
        self.heard: list[tuple[int, bytes]] = []
        self.ticks: list[int] = []
        self.tokens: list[int] = []
        self.checked = 0
        self._queued = 0
        self._counter = 0
        self._now = now
        self._turn = Turn(events=[Changed(ConfKind.REGULAR, self.configuration, self.members)])
        self._beacon_at = now + 100 * MS

    def _at(self, now: int) -> None:
        assert now >= self._now, "time goes on"
        self._now = now

    def receive(self, datagram: bytes, now: int) -> None:
        self._at(now)
        self.heard.append((now, datagram))

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        self._at(now)
        assert self._queued < self.capacity
        self._queued += 1
        self._counter += 1
        events: list[Event] = [
            Sent(self.configuration, service, self._counter, 1),
            Delivered(self.configuration, self.ordinal, self.incarnation, service, self._counter, [payload], None),
        ]
        self._turn.events += events
        self._turn.datagrams.append((self.others, payload))
        self._turn.writes.append(Write(self._counter, [Put(b"last", payload)]))

    def room(self) -> int:
        return self.capacity - self._queued

    def synced(self, token: int, now: int) -> None:
        self._at(now)
        self.tokens.append(token)

    def tick(self, now: int) -> None:
        self._at(now)
        self.ticks.append(now)
        self._turn.datagrams.append((self.others, b"beacon %d" % self.ordinal))
        self._beacon_at = now + 100 * MS

    def flush(self, now: int, time: int) -> Turn:
        self._at(now)
        self._queued = 0
        turn, self._turn = self._turn, Turn()
        return turn

    def deadline(self) -> int:
        return self._beacon_at

    def withdraw(self) -> int:
        return 0

    def invariants(self) -> None:
        self.checked += 1


class FakeCore:
    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return b"%d" % (int(stored or b"0") + 1)

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> FakeSite:
        return FakeSite(options, ordinal, sites, record, now)


@pytest.fixture
def fake_core() -> Core:
    return FakeCore()
