"""What the parts of a site's process see of each other.

The engine has turns; a transport brings it datagrams and carries them away; a store keeps its record; receivers are
the site's processes, in this program or behind a socket. Each part is given these interfaces and no more.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from reconvene.core.effects import Persist
from reconvene.core.groups.events import GroupEvent, Process
from reconvene.ids import Service
from reconvene.runtime.log.interface import LogPort
from reconvene.runtime.site.history import History
from reconvene.site_list import Dispute
from reconvene.storage.tables import Op, Tables

__all__ = ["Access", "Disk", "Engine", "Keeping", "Receiver", "Store", "Transport"]


class Transport(Protocol):
    """Datagrams to and from other sites, by ordinal; sealed, filtered and counted here."""

    frame_bytes: int
    """What a frame's messages may take, from the path or the configuration."""
    buffer_bytes: int
    """What the receive buffer holds, as the kernel counts."""
    disputes: dict[str, Dispute]
    """Sites whose datagrams are dropped because they tell something else of the list of sites; kept up to date."""

    def start(self, receive: Callable[[list[bytes]], None]) -> None:
        """From now on each turn's datagrams are handed over, opened, in the order of their arrival."""

    def send(self, datagrams: Sequence[tuple[tuple[int, ...], bytes]]) -> None:
        """(destinations by ordinal, bytes) … Never blocks: what the kernel does not take is dropped and counted."""

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        """Fault injection: drop what comes from, and what goes to, these sites, until told otherwise."""

    def counters(self) -> dict[str, int]:
        """By name: datagrams and bytes sent and received, and each reason for which one was dropped."""

    def close(self) -> None: ...


class Store(Tables, Protocol):
    """A site's stable storage: its own values under names, the log's under keys that no name begins like."""

    @property
    def used_bytes(self) -> int:
        """What the values take; what was deleted does not count."""

    def get(self, key: bytes | str) -> bytes | None: ...

    def put(self, values: Mapping[str, bytes]) -> None:
        """As `write`, under names."""


class Keeping(Protocol):
    """Writes what turns want kept, beside the loop: see runtime.disk.keeper."""

    trouble: str | None
    """Why the last write failed, until one succeeds."""

    def persist(self, writes: list[Persist]) -> None: ...

    def write(self, token: int, ops: Sequence[Op], writes: Sequence[Persist] = ()) -> None:
        """The log's operations, and with them, in the same transaction, what the site wants persisted."""

    async def close(self) -> None:
        """What was handed over is still written; nothing is called any more."""


class Disk(Protocol):
    """Where a site keeps its store: a real disk, or a simulated one."""

    def open(self, path: Path, max_bytes: int) -> Store:
        """Raises Unavailable where it can't be used, Malformed where it is damaged."""

    def keeper(
        self,
        store: Store,
        synced: Callable[[list[int]], None],
        failed: Callable[[str], None],
        logged: Callable[[list[int]], None],
    ) -> Keeping:
        """Made on the loop, and calls back on it: see runtime.disk.keeper."""


class Receiver(Protocol):
    """One process, as its site sees it."""

    def events(self, batch: list[GroupEvent]) -> None:
        """What a turn brought for this process, in order. Must not block, and must bound what it keeps."""


class Access(Protocol):
    """One process's hold on its site. Closing it leaves all its groups."""

    process: Process

    def join(self, group: str, primary: bool) -> int:
        """Gives the membership's number at once; it begins with its first ViewChanged, or ends with Left.

        Raises Rejected for a bad name or a second membership in a group, Unavailable at a limit."""

    def leave(self, membership: int) -> None: ...

    def send(
        self, membership: int, service: Service, payloads: Sequence[bytes], to: tuple[Process, ...] | None = None
    ) -> int:
        """Takes as many as there is room for, from the first on; gives how many. Never waits.

        Raises Rejected (too large, no such membership), Unavailable (blocked by the filter, stopping)."""

    async def room(self) -> None:
        """Waits until `send` would take something."""

    def close(self) -> None: ...


class Engine(Protocol):
    """The site as its shell's other parts see it."""

    names: tuple[str, ...]
    ordinal: int
    incarnation: int

    @property
    def log(self) -> LogPort | None:
        """None where the site takes no part in the log."""

    @property
    def history(self) -> History:
        """The configurations that it went through."""

    def open(self, receiver: Receiver) -> Access:
        """A new process. Raises Unavailable at the limit, or when the site is stopping."""

    def status(self) -> dict[str, object]:
        """For people and programs, JSON-able: see docs/operations.md."""

    def health(self) -> str:
        """primary | minority | forming"""

    def refused_sites(self) -> dict[str, str]:
        """Sites that tell something else of the list of sites: by name, what differs."""

    def log_note(self) -> str | None:
        """Why the log accepts nothing here, in one line; None: it does, or the disk is why."""

    def storage(self) -> str:
        """ok, or why nothing can be kept"""

    def counters(self) -> dict[str, int]:
        """Everything that only grows, by name: of the core, of groups, of the transport."""

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        """Fault injection. Raises Rejected unless the configuration allows it."""
