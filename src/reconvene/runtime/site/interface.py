"""What clients and HTTP see of a running site.

`Engine` is the site itself, `ProcessHandle` is one process's side of it, and a `Receiver` gets what is delivered to
that process. `runtime.site.engine` implements the first two; each client connection, and each process inside an
embedding program, is a `Receiver`.
"""

from collections.abc import Sequence
from typing import Protocol

from reconvene.core.groups.events import GroupEvent, Process
from reconvene.ids import Service
from reconvene.runtime.log.interface import LogPort
from reconvene.runtime.site.history import History

__all__ = ["Engine", "ProcessHandle", "Receiver"]


class Receiver(Protocol):
    """One process, as its site sees it."""

    def events(self, batch: list[GroupEvent]) -> None:
        """What a turn brought for this process, in order. Must not block, and must bound what it keeps."""


class ProcessHandle(Protocol):
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

    def open(self, receiver: Receiver) -> ProcessHandle:
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
