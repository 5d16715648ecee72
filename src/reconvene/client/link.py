"""How a program reaches its site: in the same process, or over a socket. The layers above do not depend on which."""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Protocol

from reconvene.client.here import Here
from reconvene.client.inbox import Inboxes
from reconvene.client.log_link import LogLink
from reconvene.client.membership import Membership
from reconvene.client.roll import Roll
from reconvene.core.groups import events
from reconvene.ids import Service

if TYPE_CHECKING:
    from reconvene.client.isis_link import IsisLink

__all__ = ["GroupLink", "Link"]


class GroupLink(Protocol):
    """How a program reaches the groups of its site."""

    async def join(self, member: Membership) -> None:
        """Sets its number; the rest comes to its inbox. Raises Rejected, Unavailable."""

    async def leave(self, member: Membership) -> None: ...

    def abandon(self, member: Membership) -> None:
        """Leaves as soon as possible, and raises nothing."""

    def send(
        self,
        member: Membership,
        service: Service,
        payloads: list[bytes],
        to: tuple[events.Process, ...] | None,
        cluster: bool = False,
    ) -> Awaitable[None] | None:
        """None if the site has taken them; otherwise to be awaited. `cluster`: they do not leave the cluster."""

    async def send_slices(
        self,
        member: Membership,
        service: Service,
        slices: Iterable[list[bytes]],
        to: tuple[events.Process, ...] | None,
        cluster: bool = False,
    ) -> int:
        """Waits for room as it goes. Returns how many were taken; an error has it in `taken`."""


class Link(Protocol):
    inboxes: Inboxes
    here: Here

    @property
    def groups(self) -> GroupLink: ...

    @property
    def log(self) -> LogLink | None:
        """None where the site takes no part in the log."""

    @property
    def isis(self) -> "IsisLink | None":
        """None where the site is known to take no part in ISIS."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def roll(self) -> Roll: ...

    @property
    def cluster(self) -> str: ...

    @property
    def name(self) -> str:
        """The site's."""

    async def status(self) -> object: ...

    async def health(self) -> object: ...

    async def block(self, incoming: Iterable[str], outgoing: Iterable[str]) -> None: ...

    async def stop(self) -> None: ...
