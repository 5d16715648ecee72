"""What the simulator needs of a site's core, and how the cores of a cluster are made.

Tests of the simulator itself, and of single layers, put others in their place.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.corel.replica import Replica
from reconvene.ids import Service
from reconvene.sim.evs_site import EvsSite
from reconvene.stack.turn import Turn
from reconvene.storage.tables import Op, Reader

__all__ = ["Core", "Datagrams", "EvsSite", "Joining", "LogCore", "LogLike", "SiteLike", "StoringCore", "real_core"]

Datagrams = list[tuple[tuple[int, ...], bytes]]
"""Destinations, and bytes."""


class SiteLike(Protocol):
    """A stack (reconvene.stack.stack.Stack), and its application's messages."""

    @property
    def incarnation(self) -> int: ...
    @property
    def phase(self) -> str: ...
    @property
    def step(self) -> str: ...
    @property
    def configuration(self) -> str: ...
    @property
    def members(self) -> tuple[int, ...]: ...
    def receive(self, datagram: bytes, now: int) -> None: ...
    def synced(self, token: int, now: int) -> None: ...
    def tick(self, now: int) -> None: ...
    def flush(self, now: int, time: int) -> Turn: ...
    def deadline(self) -> int: ...
    def invariants(self) -> None: ...

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        """Takes a message of the application. Raises Unavailable where there is no room for it."""

    def room(self) -> int:
        """How many messages `submit` would take now."""

    def withdraw(self) -> int:
        """Takes back messages that were submitted and are not sent; returns how many."""


class LogLike(SiteLike, Protocol):
    """A site that keeps the log (sim.log_site.LogSite)."""

    @property
    def replica(self) -> Replica: ...
    def append(self, messages: Sequence[bytes], now: int) -> tuple[int, int]:
        """Takes as many as there is room for, from the first on; returns its counter, and how many."""

    def author(self, number: int) -> str: ...


class Core(Protocol):
    """How sites are made."""

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        """`token`: another one for each start."""

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> SiteLike: ...


@runtime_checkable
class StoringCore(Protocol):
    """One whose sites write to storage more than their record."""

    def keep(self, ordinal: int, tables: Reader) -> None:
        """What this site has on stable storage, before each of its starts."""


@runtime_checkable
class LogCore(Protocol):
    """How sites that keep the log are made."""

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        """`token`: another one for each start."""

    def create(self, ordinal: int, names: Sequence[str], tables: Reader) -> list[Op]:
        """What is to be synced before the log's first start at a node; nothing at a later one."""

    def site(
        self, options: Options, ordinal: int, names: Sequence[str], record: bytes, tables: Reader, now: int
    ) -> LogLike: ...


@runtime_checkable
class Joining(Protocol):
    """A core whose nodes learn the list of sites before they start."""

    def learns(self, place: int, data: bytes) -> bool:
        """A datagram came to a node that waits for the list. Returns whether it can start now."""

    def to_places(self, names: Sequence[str], datagrams: Datagrams) -> Datagrams:
        """From numbers of sites to places of nodes."""


class _RealCore:
    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return boot(stored, ordinal, token)

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> EvsSite:
        return EvsSite(Site(options, ordinal, sites, record, now))


real_core: Core = _RealCore()
