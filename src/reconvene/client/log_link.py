"""How a program reaches the log of its site: in the same process, or over a socket."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from reconvene.client.flight import Flight
from reconvene.client.here import Here
from reconvene.entries import ColorChange, Entry
from reconvene.wire.client_log import Fetched

__all__ = ["LogLink"]


class LogLink(Protocol):
    here: Here

    @property
    def session(self) -> bytes | None:
        """Of this process; None where nothing is ever tried again."""

    @property
    def name(self) -> str:
        """The site's."""

    def append(self, flight: Flight) -> None:
        """Takes it on its way; `landed` tells. It is tried again, at another site too, until someone answers."""

    def has_room(self) -> bool:
        """Whether a further flight would be on its way at once."""

    async def room(self) -> None:
        """Waits until it would. Raises Unavailable."""

    async def find(self, flight: Flight) -> list[tuple[int, int]]:
        """Where a flight that has landed is, once it is ordered: (position, count) …"""

    async def fetch(self, start: int, messages: int, size: int, wait: bool) -> Fetched:
        """With `wait`: until there is something, however long; a lost connection is waited out."""

    async def collect(self, ranges: Sequence[tuple[int, int]], size: int) -> Fetched:
        """The messages of these ranges, at most MOST_COLLECTED, in their order: of as many, from the first on, as
        about `size` bytes hold, and as can be read. A lost connection is waited out."""

    async def last_commit(self, session: bytes) -> tuple[int, int] | None:
        """(number, position) of a transaction's last commit, as far as the site knows."""

    async def headings(self, start: int, batches: int) -> Fetched:
        """What is green now, without the messages of applications."""

    async def pending(self, messages: int) -> tuple[int, list[Entry]]:
        """The green line, and what is not green, in its present order."""

    def colors(self) -> AsyncIterator[list[ColorChange]]: ...

    async def barrier(self) -> int: ...

    async def status(self) -> dict[str, object]: ...

    async def snapshot(self, name: str) -> tuple[int, int] | None: ...

    async def read_snapshot(self, name: str, patient: bool = False) -> tuple[int, bytes] | None:
        """(position, data). With `patient`, a lost connection is waited out, however long it takes."""

    async def save_snapshot(self, position: int, data: bytes, name: str) -> None: ...

    async def use_snapshot(self, name: str, start: int) -> None: ...

    async def drop_snapshot(self, name: str) -> None: ...

    async def change_replicas(self, add: str | None, remove: str | None, quorum: dict[str, object] | None) -> int: ...

    async def losses(self, lost: Sequence[str]) -> dict[str, object]: ...

    async def init(self, without: Sequence[str]) -> None: ...

    async def force_lost(self, lost: Sequence[str]) -> None: ...
