"""A site without a network: groups of its own processes, with as much room as a test gives it."""

import asyncio
from collections import deque
from collections.abc import Sequence

from reconvene.core.effects import ConfKind
from reconvene.core.groups.events import Arrived, GroupEvent, Left, Process, ViewChanged, ViewId
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service
from reconvene.room import UNBOUNDED, Room
from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.runtime.isis.interface import SiteIsis
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.site.history import History
from reconvene.runtime.site.interface import Engine, Receiver

__all__ = ["FakeAccess", "FakeEngine"]


class FakeEngine:
    names: tuple[str, ...] = ("a", "b")
    ordinal = 0
    incarnation = 1
    log: SiteLog | None = None
    isis: SiteIsis | None = None
    above: Engine | None = None
    history = History(names)

    def __init__(self, room: int = 1_000_000_000) -> None:
        self.room = room
        """Messages that are taken before senders wait."""
        self.waiting = Room(lambda: UNBOUNDED if self.room < 0 else self.room)
        self.accesses: list[FakeAccess] = []
        self.members: dict[str, list[tuple[int, FakeAccess]]] = {}
        self.blocked: tuple[frozenset[int], frozenset[int]] | None = None
        self.sent: deque[tuple[str, Service, bytes, tuple[Process, ...] | None]] = deque(maxlen=10_000)
        self.last_membership = 0
        self.counter = 0
        self.changes = 0

    def open(self, receiver: Receiver) -> "FakeAccess":
        access = FakeAccess(self, receiver, Process(0, 1, len(self.accesses) + 1))
        self.accesses.append(access)
        return access

    def status(self) -> dict[str, object]:
        nothing = {"messages": 0, "bytes": 0}
        known = {"version": 1, "sites": ["a"], "file_version": 1, "finished": True, "waits_for": None, "refused": {}}
        return {
            **{"cluster": "test", "name": "a", "incarnation": 1, "pid": 1, "health": "primary"},
            **{"phase": "operational", "configuration": "1", "members": ["a"], "sites": ["a"], "list": known},
            **{"uptime_s": 0.0, "processes": 1, "groups": [], "group_count": 0, "waiting": nothing},
            **{"round_trips_us": {}, "blocked": {"incoming": [], "outgoing": []}, "trace": None, "storage": "ok"},
            **{"log": None, "seal": "insecure", "configurations": 1, "longest_turn_ms": 0.0, "counters": {}},
        }

    def health(self) -> str:
        return "primary"

    def refused_sites(self) -> dict[str, str]:
        return {}

    def log_note(self) -> str | None:
        return None

    def storage(self) -> str:
        return "ok"

    def counters(self) -> dict[str, int]:
        return {}

    def histograms(self) -> dict[str, Histogram]:
        return {}

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        self.blocked = (incoming, outgoing)

    def make_room(self, room: int) -> None:
        self.room = room
        self.waiting.wake()

    def view(self, group: str) -> None:
        self.changes += 1
        members = tuple(access.process for _, access in self.members[group])
        for membership, access in self.members[group]:
            access.tell(
                ViewChanged(membership, ConfKind.REGULAR, ViewId(1, self.changes), "1", members, True, access.process)
            )

    def deliver(self, group: str, sender: Process, service: Service, payloads: list[bytes]) -> None:
        first = self.counter
        self.counter += len(payloads)
        for membership, access in self.members[group]:
            access.tell(Arrived(membership, sender, service, payloads, ViewId(1, 1), "1", first, (1, first), 0))


class FakeAccess:
    def __init__(self, engine: FakeEngine, receiver: Receiver, process: Process) -> None:
        self.engine = engine
        self.receiver = receiver
        self.process = process
        self.groups: dict[int, str] = {}
        self.told: list[GroupEvent] = []
        self.closed = False

    def tell(self, event: GroupEvent) -> None:
        if not self.told:
            asyncio.get_running_loop().call_soon(self._turn)
        self.told.append(event)

    def _turn(self) -> None:
        told, self.told = self.told, []
        if not self.closed:
            self.receiver.events(told)

    def join(self, group: str, primary: bool, wide: bool = False) -> int:
        if not group:
            raise Rejected("a group has a name")
        self.engine.last_membership += 1
        membership = self.engine.last_membership
        self.groups[membership] = group
        self.engine.members.setdefault(group, []).append((membership, self))
        self.engine.view(group)
        return membership

    def leave(self, membership: int) -> None:
        group = self.groups.pop(membership, None)
        if group is None:
            raise Rejected(f"no membership {membership}")
        self.engine.members[group].remove((membership, self))
        self.tell(Left(membership, "left"))
        self.engine.view(group)

    def send(
        self,
        membership: int,
        service: Service,
        payloads: Sequence[bytes],
        to: tuple[Process, ...] | None = None,
        cluster: bool = False,
    ) -> int:
        if membership not in self.groups:
            raise Rejected(f"no membership {membership}")
        if self.engine.room < 0:
            raise Unavailable("site a is stopping")
        taken = list(payloads[: self.engine.room])
        self.engine.room -= len(taken)
        group = self.groups[membership]
        self.engine.sent += [(group, service, payload, to) for payload in taken]
        if taken:
            self.engine.deliver(group, self.process, service, taken)
        return len(taken)

    def room_of(self, membership: int) -> Room:
        return self.engine.waiting

    def close(self) -> None:
        for membership in list(self.groups):
            self.leave(membership)
        self.closed = True
