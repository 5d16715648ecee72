"""How a program reaches its site: in the same process, or over a socket. What is above it can't tell which."""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from reconvene.client.here import Here
from reconvene.client.inbox import Inbox, Inboxes
from reconvene.client.log_link import LogLink
from reconvene.client.roll import Roll
from reconvene.core.groups import events
from reconvene.errors import Unavailable
from reconvene.ids import Service

__all__ = ["Link", "Place"]


class Place:
    """A process's place in one group, as its link keeps it."""

    __slots__ = ("begun", "group", "inbox", "leaving", "me", "membership", "primary", "receive")

    def __init__(self, link: "Link", group: str, primary: bool, receive: bool) -> None:
        self.group = group
        self.primary = primary
        self.receive = receive
        self.membership = 0
        """Its number at its site; 0: it has none now. A reconnect gives it a new one."""
        self.me = events.Process(0, 0, 0)
        self.begun = False
        """The membership of that number has had its first view, or was told that it is blocked."""
        self.leaving = False
        self.inbox = Inbox(link.inboxes, group, lambda: link.abandon(self))

    def over(self, reason: str) -> None:
        """The site says that the membership has ended."""
        self.membership = 0
        self.inbox.end(None if self.leaving else Unavailable(f"group {self.group!r}: {reason}"))

    def check(self) -> None:
        """Raises Unavailable where nothing can be sent any more."""
        if self.leaving or self.inbox.ended:
            raise Unavailable(f"group {self.group!r}: this process is not in it any more")


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

    async def join(self, place: Place) -> None:
        """Gives it a number; its inbox brings the rest. Raises Rejected, Unavailable."""

    async def leave(self, place: Place) -> None: ...

    def abandon(self, place: Place) -> None:
        """Leaves as soon as it can, and says nothing about it."""

    def send(
        self, place: Place, service: Service, payloads: list[bytes], to: tuple[events.Process, ...] | None
    ) -> Awaitable[None] | None:
        """None where the site has taken them; else to be waited for."""

    async def send_slices(
        self,
        place: Place,
        service: Service,
        slices: Iterable[list[bytes]],
        to: tuple[events.Process, ...] | None,
    ) -> int:
        """Waits for room as it goes. Gives how many were taken; an error tells it in `taken`."""

    async def status(self) -> dict[str, object]: ...

    async def health(self) -> str: ...

    async def block(self, incoming: Iterable[str], outgoing: Iterable[str]) -> None: ...

    async def stop(self) -> None: ...
