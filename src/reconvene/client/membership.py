"""A process's membership in one group, as its link keeps it."""

from typing import TYPE_CHECKING

from reconvene.client.inbox import Inbox
from reconvene.core.groups import events
from reconvene.errors import Unavailable

if TYPE_CHECKING:
    from reconvene.client.link import Link

__all__ = ["Membership"]


class Membership:
    __slots__ = ("begun", "group", "inbox", "leaving", "me", "membership", "primary", "receive", "wide")

    def __init__(self, link: "Link", group: str, primary: bool, receive: bool, wide: bool = False) -> None:
        self.group = group
        self.primary = primary
        self.receive = receive
        self.wide = wide
        """Its messages pass between clusters."""
        self.membership = 0
        """Its number at its site; 0: it has none now. A reconnect gives it a new one."""
        self.me = events.Process(0, 0, 0)
        self.begun = False
        """The membership of that number has had its first view, or was told that it is blocked."""
        self.leaving = False
        self.inbox = Inbox(link.inboxes, group, lambda: link.groups.abandon(self))

    def over(self, reason: str) -> None:
        """The site says that the membership has ended."""
        self.membership = 0
        self.inbox.end(None if self.leaving else Unavailable(f"group {self.group!r}: {reason}"))

    def check(self) -> None:
        """Raises Unavailable where nothing can be sent any more."""
        if self.leaving or self.inbox.ended:
            raise Unavailable(f"group {self.group!r}: this process is not in it any more")
