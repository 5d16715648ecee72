"""What a process sees happen in process groups in the manner of ISIS."""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from reconvene.client.events import Blocked, Process
from reconvene.ids import message_id
from reconvene.isis.events import ALL

__all__ = [
    "ALL", "UNORDERED", "Action", "Cast", "GroupLeft", "GroupView", "IsisEvent", "Killed", "ProcessFailed",
    "Reachable", "Reply", "Replying", "Unreachable", "WatchRefused",
]  # fmt: skip

UNORDERED: dict[str, int] = {}
"""The label of a cast that is ordered after nothing."""


class Replying(Protocol):
    """The process that received a cast."""

    def reply(self, cast: "Cast", data: bytes | bytearray | memoryview) -> Awaitable[None]: ...


class Cast(Struct, frozen=True, gc=False):
    """A CBCAST or an ABCAST."""

    data: bytes
    sender: Process
    kind: str
    """cbcast | abcast"""
    group: str | None
    """To which it was cast; None: to processes that its sender named."""
    view: int
    """The number of the group's view that it names. Of a cast to several clusters: 0."""
    counter: int
    replies: int
    """How many replies its sender asks for; ALL: one of each destination."""
    _process: Replying
    clock: int = 0
    """Of a cast that asks for replies: Lamport's clock of its sender's site when it was cast. It is above that of all
    casts which that site had then, so it orders requests without another message. Of other casts: 0."""

    @property
    def id(self) -> str:
        """SITE:INCARNATION:COUNTER, unique in the cluster; the same in traces. Of a cast to several clusters:
        CLUSTER/SITE:INCARNATION:COUNTER."""
        return message_id(self.sender.site, self.sender.incarnation, self.counter)

    @property
    def wants_reply(self) -> bool:
        return self.replies != 0

    def reply(self, data: bytes | bytearray | memoryview = b"") -> Awaitable[None]:
        """Answers: `await cast.reply(b"yes")`, or without `await` where the cast comes from `reconvene.blocking`.
        Returns when the site has the answer. Raises Rejected where no reply is asked for, where this
        process has replied before, and where it was killed since."""
        return self._process.reply(self, data)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id} of {self.sender} to {self.group or 'processes'}: {len(self.data)} bytes>"


class Action(Struct, frozen=True, gc=False):
    """A GBCAST: all members receive it at the same place among all other casts and views."""

    data: bytes
    sender: Process
    group: str
    view: int
    counter: int

    @property
    def id(self) -> str:
        return message_id(self.sender.site, self.sender.incarnation, self.counter)


class GroupView(Struct, frozen=True):
    """The members of a group from here on, at the same place of the order at each of them."""

    group: str
    number: int
    """Grows by one with each view of the group."""
    members: tuple[Process, ...]
    """By rank."""
    properties: dict[str, bytes]
    joined: tuple[Process, ...]
    left: tuple[Process, ...]
    """Against the view before it, here; of those …"""
    failed: tuple[Process, ...]
    """… these have failed: nothing of them is received after this."""
    last_to_fail: tuple[str, ...] = ()
    """Of the first view after all members had failed: the sites that failed last, where that is known."""
    primary: int = 0
    """The number of the configuration in which it was agreed. It never goes down, also after all sites have crashed;
    (primary, number) grows with each view of the group, for ever."""

    @property
    def coordinator(self) -> Process:
        """The member of the lowest rank."""
        return self.members[0]


class GroupLeft(Struct, frozen=True):
    """This process is not in the group any more: it left, or the group was deleted."""

    group: str
    deleted: bool


class ProcessFailed(Struct, frozen=True):
    """A process is over. Of a call: it counts as a reply, and comes after all replies of that process. As an event:
    this process watched it, and has received all that it sent."""

    process: Process


class Unreachable(Struct, frozen=True):
    """A process of another cluster, which is out of reach. It has not failed by that. Of a call: it counts as a
    reply; whether the process has received the cast is not known. As an event: this process watches it, and goes on
    to."""

    process: Process


class Reachable(Struct, frozen=True):
    """The cluster of a process that this one watches is back: the watch has gone on, and what became of the process
    meanwhile is told next."""

    process: Process


class WatchRefused(Struct, frozen=True):
    """A process of another cluster, which does not watch it for this one: it has no such site, or no room for more.
    Nothing more is read of that watch."""

    process: Process


class Reply(Struct, frozen=True):
    data: bytes
    sender: Process


class Killed(Struct, frozen=True):
    """This process is over for the others: they went on without its site, or its connection was lost. It goes on as
    another one, without groups."""

    was: Process
    me: Process


IsisEvent = (
    Cast | Action | GroupView | GroupLeft | ProcessFailed | Unreachable | Reachable | WatchRefused | Blocked | Killed
)
