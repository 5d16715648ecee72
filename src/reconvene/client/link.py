"""How a program reaches its site: in the same process, or over a socket. What is above it can't tell which."""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from reconvene.client.here import Here
from reconvene.client.inbox import Inboxes
from reconvene.client.log_link import LogLink
from reconvene.client.membership import Membership
from reconvene.client.roll import Roll
from reconvene.core.groups import events
from reconvene.ids import Service

__all__ = ["Link"]


class Link(Protocol):
    inboxes: Inboxes
    here: Here

    @property
    def log(self) -> LogLink | None:
        """None where the site takes no part in the log."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def roll(self) -> Roll: ...

    @property
    def cluster(self) -> str: ...

    @property
    def name(self) -> str:
        """The site's."""

    async def join(self, place: Membership) -> None:
        """Gives it a number; its inbox brings the rest. Raises Rejected, Unavailable."""

    async def leave(self, place: Membership) -> None: ...

    def abandon(self, place: Membership) -> None:
        """Leaves as soon as it can, and says nothing about it."""

    def send(
        self, place: Membership, service: Service, payloads: list[bytes], to: tuple[events.Process, ...] | None
    ) -> Awaitable[None] | None:
        """None where the site has taken them; else to be waited for."""

    async def send_slices(
        self,
        place: Membership,
        service: Service,
        slices: Iterable[list[bytes]],
        to: tuple[events.Process, ...] | None,
    ) -> int:
        """Waits for room as it goes. Gives how many were taken; an error tells it in `taken`."""

    async def status(self) -> object: ...

    async def health(self) -> object: ...

    async def block(self, incoming: Iterable[str], outgoing: Iterable[str]) -> None: ...

    async def stop(self) -> None: ...
