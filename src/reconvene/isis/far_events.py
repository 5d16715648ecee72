"""Processes of other clusters, casts between clusters, and what the layer reports of both (4.6)."""

from typing import NamedTuple

from msgspec import Struct

from reconvene.core.groups.events import Process

__all__ = ["FarEvent", "FarFailed", "FarId", "FarProcess", "FarReceived", "FarSent", "FarUnreachable", "Origin"]


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


class FarId(NamedTuple):
    """Of a cast between clusters. People see it as DOMAIN/SITE:INCARNATION:COUNTER."""

    domain: str
    site: str
    incarnation: int
    counter: int
    """Of what ISIS has sent to other clusters from this incarnation, from 1, without gaps."""

    def __str__(self) -> str:
        return f"{self.domain}/{self.site}:{self.incarnation}:{self.counter}"


class FarSent(Struct, frozen=True):
    """A cast of a process of this site, to processes of any cluster: its id, label and destinations are fixed."""

    process: Process
    kind: str
    """cbcast or abcast."""
    id: FarId
    to: tuple[FarProcess, ...]
    label: str
    """As of a cast in the cluster."""
    group: str | None


class FarReceived(Struct, frozen=True):
    """Such a cast is in the process's delivery queue."""

    process: Process
    kind: str
    sender: FarProcess
    id: FarId
    payload: bytes
    group: str | None
    conf: str
    """The wide configuration."""
    counter: int
    """Of the message that brought it, among those of its site that cross."""


class FarFailed(Struct, frozen=True):
    """`process` watches a process of another cluster, and that cluster's majority says that it is over."""

    process: Process
    failed: FarProcess


class FarUnreachable(Struct, frozen=True):
    """`process` watches a process of this domain, which is out of reach. Nobody there has failed by that."""

    process: Process
    domain: str


FarEvent = FarSent | FarReceived | FarFailed | FarUnreachable
