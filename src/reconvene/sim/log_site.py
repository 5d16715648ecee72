"""The stack `corel` of the simulator: a site with groups, the log, and plain messages beside it.

It is the same stack as in a real process; its log layer carries the plain messages too.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from msgspec import msgpack

from reconvene.core.groups.groups import Groups
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.corel.keeping.load import create, exists, start
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import FOREIGN
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.errors import Unavailable
from reconvene.ids import Service
from reconvene.quorum import Spec
from reconvene.stack.layer import Outlet
from reconvene.stack.log import LogLayer
from reconvene.stack.stack import Stack
from reconvene.storage.tables import Op, Reader

__all__ = ["LogSite", "RealLogCore"]

_PLAIN = bytes((FOREIGN,))
_LIMITS = LogLimits(turn_bytes=64 << 10, turn_messages=24)
"""A simulated replica does a few batches in a turn, so that faults meet long work at every place where it is cut."""


class LogBesidePlain(LogLayer):
    """The log, and the application's plain messages beside it, which share the replica's turns: the replica is handed
    them, ignores them, and counts them as work, so that a run with many of them meets long work too. What a change of
    configuration returns of them goes out again, before anything that is submitted after it."""

    kinds = LogLayer.kinds | {FOREIGN}

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica)
        self.waiting: deque[tuple[Service, bytes]] = deque()
        """Plain messages that came back: as many as the site's own queue holds."""

    def begin(self, outlet: Outlet, time: int) -> None:
        while self.waiting and outlet.submit(*self.waiting[0]):
            self.waiting.popleft()
        super().begin(outlet, time)

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        self.waiting += [message for message in unsent if message[1][:1] == _PLAIN]


class LogSite(Stack):
    def __init__(self, site: Site, groups: Groups, replica: Replica) -> None:
        self.replica = replica
        self._layer = LogBesidePlain(replica)
        super().__init__(site, groups, (self._layer,))

    @property
    def step(self) -> str:
        """The site's own while it changes its configuration, then the log's."""
        step = self.site.step
        return self.replica.step if step == "operational" else step

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        """A plain message beside the log."""
        if not self.groups.submit_other(service, (_PLAIN + payload,), now):
            raise Unavailable("a configuration is being installed")

    def room(self) -> int:
        return 0 if self._layer.waiting else self.site.room()

    def withdraw(self) -> int:
        """Messages beside the log alone: what the log has accepted goes on."""
        count = len(self._layer.waiting)
        self._layer.waiting.clear()
        return count

    def append(self, messages: Sequence[bytes], now: int) -> tuple[int, int]:
        replica = self.replica
        if not replica.is_replica:
            return 0, 0
        accepting = replica.accepting
        room, free = accepting.room(), replica.limits.red_bytes - accepting.open_bytes
        taken: list[bytes] = []
        for message in messages:
            free -= len(message)
            if len(taken) == room or free < 0:
                break
            taken.append(message)
        return (replica.append(taken), len(taken)) if taken else (0, 0)

    def author(self, number: int) -> str:
        return self.replica.name_of(number)


class RealLogCore:
    """How they are made. Tests put other replicas in their place."""

    def __init__(
        self, quorum: Spec = MAJORITY, limits: LogLimits | None = None, replica: type[Replica] = Replica
    ) -> None:
        self._quorum = quorum
        self._limits = limits or _LIMITS
        self._replica = replica
        self._created: set[int] = set()
        self._booted: dict[int, dict[int, int]] = {}
        """By ordinal: its present incarnation and the token of that start."""

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return self.booted(ordinal, boot(stored, ordinal, token), token)

    def booted(self, ordinal: int, record: bytes, token: int) -> bytes:
        """Takes note of a start, and returns its record."""
        self._booted[ordinal] = {msgpack.decode(record)[0]: token}
        return record

    def create(self, ordinal: int, names: Sequence[str], tables: Reader) -> list[Op]:
        """The log is begun once, at all nodes, whenever each of them starts. One that lost its disk waits."""
        booted = self._booted.get(ordinal, {})
        if exists(tables):
            return [op for incarnation, token in booted.items() for op in start(tables, incarnation, token)]
        first = ordinal not in self._created
        self._created.add(ordinal)
        return self.first(names[ordinal], names, first, booted)

    def first(self, name: str, names: Sequence[str], first: bool, booted: dict[int, int]) -> list[Op]:
        """A replica's first storage, or, where that is lost, another one."""
        made = "" if first else "".join(map(str, booted.values()))
        identity = sha256(f"{name}{made}".encode()).digest()[:8]
        return create(identity, ReplicaSet.first(names, self._quorum), admitted=first, boots=booted)

    def site(
        self, options: Options, ordinal: int, names: Sequence[str], record: bytes, tables: Reader, now: int
    ) -> LogSite:
        site = Site(replace(options, return_unsent=True), ordinal, len(names), record, now)
        replica = self._replica(names[ordinal], names, site.incarnation, tables, self._limits)
        return LogSite(site, Groups(site, len(names)), replica)
