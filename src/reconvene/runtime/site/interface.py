"""What clients and HTTP see of a running site.

`Engine` is the site itself, `ProcessHandle` is one process's side of it, and a `Receiver` gets what is delivered to
that process. `runtime.site` implements the first two; each client connection, and each process inside an
embedding program, is a `Receiver`.
"""

from collections.abc import Sequence
from typing import Protocol

from reconvene.core.groups.events import GroupEvent, Process
from reconvene.ids import Service
from reconvene.room import Room
from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.runtime.domain.events import WideGroupEvent
from reconvene.runtime.isis.interface import SiteIsis
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.site.history import History

__all__ = ["Engine", "ProcessHandle", "Receiver"]


class Receiver(Protocol):
    """A process of the site, to which events are delivered."""

    def events(self, batch: list[GroupEvent]) -> None:
        """Called with the events of a turn for this process, in order. Must not block, and must bound what it
        keeps."""

    def wide_events(self, batch: list[WideGroupEvent]) -> None:
        """The same for wide groups."""


class ProcessHandle(Protocol):
    """What a process can do at its site. Closing it leaves all its groups."""

    process: Process

    def join(self, group: str, primary: bool, wide: bool = False) -> int:
        """Returns the membership's number at once. The membership begins with its first ViewChanged, or ends with
        Left. `wide`: of a group whose messages pass between clusters; it begins with its first WideViewed.

        Raises Rejected for a bad name or a second membership in a group, Unavailable at a limit."""

    def leave(self, membership: int) -> None: ...

    def send(
        self,
        membership: int,
        service: Service,
        payloads: Sequence[bytes],
        to: tuple[Process, ...] | None = None,
        cluster: bool = False,
    ) -> int:
        """Accepts as many payloads as there is room for, from the first on; returns how many. Never waits. `cluster`:
        of a wide group, they do not leave the cluster.

        Raises Rejected (too large, no such membership), Unavailable (blocked by the filter, stopping)."""

    def room_of(self, membership: int) -> Room:
        """How many messages `send` would accept now, once the membership has begun; of all processes of the site."""

    def close(self) -> None: ...


class Engine(Protocol):
    """A running site."""

    names: tuple[str, ...]
    ordinal: int
    incarnation: int

    @property
    def log(self) -> SiteLog | None:
        """None if the site takes no part in the log."""

    @property
    def isis(self) -> SiteIsis | None:
        """None if the site takes no part in process groups in the manner of ISIS."""

    @property
    def above(self) -> "Engine | None":
        """A gateway's site in the cluster above, of the same process; None at all others."""

    @property
    def history(self) -> History:
        """The last configurations."""

    def open(self, receiver: Receiver) -> ProcessHandle:
        """Makes a new process. Raises Unavailable at the limit, or when the site is stopping."""

    def status(self) -> dict[str, object]:
        """The status as JSON-able values: see docs/operations.md."""

    def health(self) -> str:
        """primary | minority | forming; of an outpost of the log: outpost"""

    def refused_sites(self) -> dict[str, str]:
        """Sites whose list of sites contradicts this site's: by name, what differs."""

    def log_note(self) -> str | None:
        """Why the log accepts no appends here, in one line; None: it does, or the disk is the reason."""

    def storage(self) -> str:
        """`ok`, or why nothing can be stored."""

    def counters(self) -> dict[str, int]:
        """All counters by name: of the core, of groups, of the transport."""

    def histograms(self) -> dict[str, Histogram]:
        """How long things took, by name of the metric."""

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        """Fault injection. Raises Rejected unless the configuration allows it."""
