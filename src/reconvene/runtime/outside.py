"""What a site needs from outside: datagrams and stable storage.

`reconvene node` uses UDP (`runtime.net.udp`) and LMDB (`runtime.disk.lmdb_disk`). `reconvene.testing` replaces both
with simulated ones.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from reconvene.site_list import Dispute
from reconvene.stack.turn import Write
from reconvene.storage.tables import Tables

__all__ = ["Disk", "Keeping", "Store", "Transport"]


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

    def write(self, writes: Sequence[Write]) -> None:
        """A turn's, in one transaction. Their tokens come back once it is synced."""

    async def close(self) -> None:
        """What was handed over is still written; nothing is called any more."""


class Disk(Protocol):
    """Where a site keeps its store: a real disk, or a simulated one."""

    def open(self, path: Path, max_bytes: int) -> Store:
        """Raises Unavailable where it can't be used, Malformed where it is damaged."""

    def keeper(self, store: Store, synced: Callable[[list[int]], None], failed: Callable[[str], None]) -> Keeping:
        """Made on the loop, and calls back on it: see runtime.disk.keeper."""
