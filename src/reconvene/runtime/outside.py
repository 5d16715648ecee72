"""What a site needs from outside: datagrams and stable storage.

`reconvene node` uses UDP (`runtime.net.udp`) and LMDB (`runtime.disk.lmdb_disk`). `reconvene.testing` replaces both
with simulated ones.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from reconvene.corel.following.messages import Answer, Ask
from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.site_list import Dispute
from reconvene.stack.turn import Write
from reconvene.storage.tables import Tables

__all__ = ["Dial", "Disk", "Keeping", "SourceLink", "Store", "Transport"]


class Transport(Protocol):
    """Sends datagrams to other sites and receives theirs. Seals, filters and counts them. Sites are known by
    ordinal."""

    frame_bytes: int
    """Most bytes of a frame's messages, from the path or the configuration."""
    packet_bytes: int
    """The same of a frame that fits one packet. A larger one takes several, and each of them room in the receive
    buffer."""
    buffer_bytes: int
    """Size of the receive buffer, as the kernel counts it."""
    disputes: dict[str, Dispute]
    """Sites whose datagrams are dropped because their list of sites differs; kept up to date."""

    def start(self, receive: Callable[[list[bytes]], None]) -> None:
        """From now on `receive` is called with the datagrams of each turn, opened, in the order of their arrival."""

    def send(self, datagrams: Sequence[tuple[tuple[int, ...], bytes]]) -> None:
        """Sends pairs of (destinations by ordinal, bytes). Never blocks: what the kernel does not take is dropped and
        counted."""

    def adapt(self, members: Sequence[int], resent: int) -> int:
        """Bytes of a frame's messages from now on, at most `frame_bytes`: what these other sites can join, and what
        the loss allows. `resent`: frames that were sent again since the site started."""

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        """Fault injection: from now on drops datagrams from, and to, these sites. Replaces an earlier call."""

    def counters(self) -> dict[str, int]:
        """By name: datagrams and bytes sent and received, and datagrams dropped by reason."""

    def close(self) -> None: ...


class SourceLink(Protocol):
    """A connection of a follower to one of its sources."""

    def ask(self, ask: Ask) -> None: ...

    def close(self) -> None:
        """Nothing is reported of it any more."""


Dial = Callable[[str, Callable[[Answer], None], Callable[[str], None]], Awaitable[SourceLink]]
"""Connects to a source by its address; then the first function is called with each answer, and the second once, with
the reason, when the connection is over. Raises Rejected, Unavailable."""


class Store(Tables, Protocol):
    """A site's stable storage. The site's own values are under names, the log's under keys that no name begins
    with."""

    @property
    def used_bytes(self) -> int:
        """Bytes of the values that are stored, without deleted ones."""

    def room(self) -> tuple[int, int] | None:
        """Bytes that its disk has free, and in all; None: not known."""

    def get(self, key: bytes | str) -> bytes | None: ...

    def put(self, values: Mapping[str, bytes]) -> None:
        """As `write`, with names as keys."""


class Keeping(Protocol):
    """Writes what turns want kept, outside the event loop: see runtime.disk.keeper."""

    trouble: str | None
    """Why the last write failed, until one succeeds."""
    commits: Histogram
    """How long each write took that succeeded, sync included."""

    def writing_s(self) -> float:
        """For how long the write has been tried that is under way; 0: there is none."""

    def write(self, writes: Sequence[Write]) -> None:
        """A turn's, in one transaction. Their tokens come back once it is synced."""

    async def close(self) -> None:
        """Pending writes are still done. No callback is called any more."""


class Disk(Protocol):
    """Where a site keeps its store: a real disk, or a simulated one."""

    def open(self, path: Path, max_bytes: int) -> Store:
        """Raises Unavailable if the store can't be used, Malformed if it is damaged."""

    def keeper(self, store: Store, synced: Callable[[list[int]], None], failed: Callable[[str], None]) -> Keeping:
        """Made on the loop, and calls back on it: see runtime.disk.keeper."""
