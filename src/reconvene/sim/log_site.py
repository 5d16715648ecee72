"""How the sites of the stack `corel` are made in the simulator, and their replicas of the log."""

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
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.quorum import Spec
from reconvene.sim.log_stack import LogSite
from reconvene.storage.tables import Op, Reader

__all__ = ["LogSite", "RealLogCore"]

_LIMITS = LogLimits(turn_bytes=64 << 10, turn_messages=24)
"""A simulated replica does a few batches in a turn, so that faults meet long work at every place where it is cut."""


class RealLogCore:
    """Tests put other replicas in their place."""

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
