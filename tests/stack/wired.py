"""Whole stacks wired in memory: every datagram arrives, every write is synced, and nothing else is between them."""

from collections.abc import Sequence

from reconvene.core.groups.events import Arrived, GroupEvent
from reconvene.core.groups.groups import Groups
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.corel.keeping.load import create
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.ids import Service
from reconvene.stack.layer import Layer
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn
from reconvene.storage.memory import MemoryTables

__all__ = ["MS", "Wired", "alone", "first_replicas", "replica"]

MS = 1_000_000


def stack(ordinal: int, sites: int, layers: Sequence[Layer]) -> Stack:
    site = Site(Options(return_unsent=True), ordinal, sites, boot(None, ordinal), 0)
    return Stack(site, Groups(site, sites), layers)


def alone(*layers: Layer) -> Stack:
    """One site, which is its own cluster. Its first turn is over."""
    made = stack(0, 1, layers)
    made.flush(0, 0)
    return made


def first_replicas(names: str) -> ReplicaSet:
    return ReplicaSet.first(names, MAJORITY)


def replica(name: str, sites: str, replicas: str) -> tuple[Replica, MemoryTables]:
    tables = MemoryTables()
    tables.write(create(name.encode() * 8, first_replicas(replicas), admitted=True, boots={1: 1}))
    return Replica(name, sites, 1, tables), tables


class Wired:
    def __init__(self, layers: Sequence[Sequence[Layer]], tables: Sequence[MemoryTables]) -> None:
        """By ordinal: the layers of each site's stack, and what its log is kept in."""
        self.now = 0
        self.stacks = [stack(ordinal, len(layers), own) for ordinal, own in enumerate(layers)]
        self.turns: list[list[Turn]] = [[] for _ in layers]
        self._tables = tables
        self._inboxes: list[list[bytes]] = [[] for _ in layers]

    def run(self, ms: int) -> None:
        for _ in range(ms):
            self.now += MS
            for ordinal in range(len(self.stacks)):
                self._turn(ordinal)

    def _turn(self, ordinal: int) -> None:
        core = self.stacks[ordinal]
        inbox, self._inboxes[ordinal] = self._inboxes[ordinal], []
        for data in inbox:
            core.receive(data, self.now)
        if core.deadline() <= self.now:
            core.tick(self.now)
        turn = core.flush(self.now, self.now)
        self.turns[ordinal].append(turn)
        for write in turn.writes:
            self._tables[ordinal].write(write.ops)
            core.synced(write.token, self.now)
        for destinations, data in turn.datagrams:
            for destination in destinations:
                self._inboxes[destination].append(data)
        core.invariants()

    def join(self, ordinal: int, group: str) -> int:
        groups = self.stacks[ordinal].groups
        return groups.join(groups.open(), group, False, self.now)

    def send(self, ordinal: int, membership: int, *payloads: bytes) -> None:
        taken = self.stacks[ordinal].groups.send(membership, Service.AGREED, payloads, None, self.now)
        assert taken == len(payloads)

    def seen(self, ordinal: int) -> list[GroupEvent]:
        return [event for turn in self.turns[ordinal] for _, events in turn.processes for event in events]

    def arrived(self, ordinal: int) -> list[bytes]:
        return [data for event in self.seen(ordinal) if isinstance(event, Arrived) for data in event.payloads]
