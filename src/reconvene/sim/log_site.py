"""A site that keeps the log, as the simulator runs it: the same stack as in a real process."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from msgspec import msgpack

from reconvene.core.effects import Effects
from reconvene.core.groups.groups import Groups
from reconvene.core.options import Options
from reconvene.core.site import Site, boot
from reconvene.corel.keeping.load import create, exists, start
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import FOREIGN
from reconvene.corel.replica import LogEffects, Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.corel.stack import Stack
from reconvene.errors import Unavailable
from reconvene.ids import Service
from reconvene.quorum import Spec
from reconvene.storage.tables import Op, Reader

__all__ = ["LogSite", "RealLogCore"]

_FOREIGN = bytes((FOREIGN,))
_LIMITS = LogLimits(turn_bytes=64 << 10, turn_messages=24)
"""A simulated replica does a few batches in a turn, so that faults meet long work at every place where it is cut."""
_EPOCH_NS = 1_700_000_000_000_000_000
"""The simulated clocks' midnight, as ns since 1970."""


class LogSite:
    def __init__(self, stack: Stack, names: Sequence[str]) -> None:
        self.stack = stack
        self._names = tuple(names)
        self._log = LogEffects(0, [], [])
        self._site = stack.groups.site
        self._plain: deque[tuple[Service, bytes]] = deque()
        """Messages beside the log that a change of configuration gave back: as many as the site's own queue holds."""

    @property
    def replica(self) -> Replica:
        return self.stack.replica

    @property
    def incarnation(self) -> int:
        return self._site.incarnation

    @property
    def phase(self) -> str:
        return self._site.phase

    @property
    def step(self) -> str:
        """The site's own while it changes its configuration, then the log's."""
        step = self._site.step
        return self.replica.step if step == "operational" else step

    @property
    def configuration(self) -> str:
        return self._site.configuration

    @property
    def members(self) -> tuple[int, ...]:
        return self._site.members

    def receive(self, datagram: bytes, now: int) -> None:
        self.stack.groups.receive(datagram, now)

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        """A plain message beside the log."""
        if not self.stack.groups.submit_other(service, (_FOREIGN + payload,), now):
            raise Unavailable("a configuration is being installed")

    def room(self) -> int:
        return 0 if self._plain else self._site.room()

    def withdraw(self) -> int:
        """Messages beside the log alone: what the log has accepted goes on."""
        count = len(self._plain)
        self._plain.clear()
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

    def synced(self, token: int, now: int) -> None:
        self.stack.groups.synced(token, now)

    def logged(self, token: int, now: int) -> None:
        self.stack.logged(token)

    def tick(self, now: int) -> None:
        self.stack.groups.tick(now)

    def flush(self, now: int) -> Effects:
        groups = self.stack.groups
        while self._plain and groups.submit_other(*self._again(), now):
            self._plain.popleft()
        turn = self.stack.flush(now, _EPOCH_NS + now)
        self._log = turn.log
        self._plain += [(service, payload) for service, payload in turn.site.unsent if payload[:1] == _FOREIGN]
        return turn.site

    def _again(self) -> tuple[Service, tuple[bytes]]:
        service, payload = self._plain[0]
        return service, (payload,)

    def take_log(self) -> LogEffects:
        """What the last flush brought of the log."""
        return self._log

    def author(self, number: int) -> str:
        return self.replica.name_of(number)

    def deadline(self) -> int:
        return self.stack.deadline()

    def invariants(self) -> None:
        self.stack.groups.invariants()
        self.replica.invariants()


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
        record = boot(stored, ordinal, token)
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
        return LogSite(Stack(Groups(site, len(names)), replica), names)
