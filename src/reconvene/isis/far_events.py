"""Processes of other clusters, casts between clusters, and what the layer reports of both (4.6)."""

from typing import NamedTuple

from msgspec import Struct

from reconvene.core.groups.events import Process
from reconvene.ids import MessageId

__all__ = [
    "FarCallOver",
    "FarEvent",
    "FarFailed",
    "FarProcess",
    "FarReachable",
    "FarReceived",
    "FarSent",
    "FarUnreachable",
    "FarUnwatched",
    "Origin",
]


class Origin(NamedTuple):
    """One incarnation of a site in the tree of clusters."""

    domain: str
    site: str
    incarnation: int


class FarProcess(NamedTuple):
    """A process as other clusters know it. People see it as DOMAIN/SITE:INCARNATION:NUMBER."""

    domain: str
    site: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.domain}/{self.local}"

    @property
    def local(self) -> str:
        """As its own cluster writes it."""
        return f"{self.site}:{self.incarnation}:{self.number}"

    @property
    def origin(self) -> Origin:
        return Origin(self.domain, self.site, self.incarnation)


class FarSent(Struct, frozen=True):
    """A cast of a process of this site, to processes of any cluster: its id, label and destinations are fixed."""

    process: Process
    kind: str
    """cbcast or abcast."""
    id: MessageId
    """Its counter: of what ISIS has sent to other clusters from this incarnation, from 1, without gaps."""
    to: tuple[FarProcess, ...]
    label: str
    """As of a cast in the cluster."""
    group: str | None


class FarReceived(Struct, frozen=True):
    """Such a cast is in the process's delivery queue."""

    process: Process
    kind: str
    sender: FarProcess
    id: MessageId
    payload: bytes
    group: str | None
    conf: str
    """The wide configuration."""
    counter: int
    """Of the message that brought it, among those of its site that cross."""
    replies: int = 0
    """What its sender asks for."""
    answers: int = 0
    """It is a reply to the process's own cast with this counter; 0: it is none."""
    clock: int = 0
    """Lamport's, of the sender's site when it was cast."""


class FarFailed(Struct, frozen=True):
    """`process` watches a process, or waits for its reply to the cast `id`; and the majority of that one's cluster
    says that it is over."""

    process: Process
    failed: FarProcess
    id: MessageId | None = None


class FarUnreachable(Struct, frozen=True):
    """`process` watches a process, or waits for its reply to the cast `id`; and that process's cluster is out of
    reach. Nobody there has failed by that."""

    process: Process
    other: FarProcess
    id: MessageId | None = None


class FarReachable(Struct, frozen=True):
    """The cluster of a process that `process` watches is back: the watch goes on."""

    process: Process
    other: FarProcess


class FarUnwatched(Struct, frozen=True):
    """The cluster of a process that `process` watches refuses that: it has no such site, or no room for more."""

    process: Process
    other: FarProcess


class FarCallOver(Struct, frozen=True):
    """No more replies to this cast will be reported, nor failures."""

    process: Process
    id: MessageId


FarEvent = FarSent | FarReceived | FarFailed | FarUnreachable | FarReachable | FarUnwatched | FarCallOver
