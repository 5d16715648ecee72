"""What happens at a site that is part of a tree of clusters, for its trace and its applications."""

from msgspec import Struct

from reconvene.ids import MessageId, Service

__all__ = [
    "BroughtIn",
    "Crossed",
    "Lost",
    "MessageId",
    "Represents",
    "Unreachable",
    "WideChanged",
    "WideDelivered",
    "WideEvent",
    "WideSent",
    "WideView",
]


class WideChanged(Struct, frozen=True):
    """A wide configuration begins."""

    conf: str
    regular: bool
    domains: tuple[str, ...]
    place: tuple[int, ...]
    reg: str | None = None
    """Of a transitional one: the regular one that it follows."""


class WideSent(Struct, frozen=True):
    conf: str
    id: MessageId
    service: Service
    group: str
    wide: bool
    """Its scope: wide, or its own cluster."""


class WideDelivered(Struct, frozen=True):
    conf: str
    id: MessageId
    service: Service
    group: str
    place: tuple[int, ...] | None
    """Of an agreed or safe message."""
    data: bytes


class Represents(Struct, frozen=True):
    """Who represents the cluster from here on."""

    conf: str
    """The local configuration."""
    term: int
    site: str


class Crossed(Struct, frozen=True):
    """The representative has sent a crossing to the cluster above."""

    conf: str
    term: int
    cross: tuple[str, int, int]
    """The CROSS's id in the cluster: site, incarnation, counter."""
    pos: int
    ids: tuple[MessageId, ...]


class BroughtIn(Struct, frozen=True):
    """The representative has brought a crossing into its cluster."""

    conf: str
    term: int
    crossing: tuple[str, int, int]
    """The CROSSING's id in the cluster above."""
    place: tuple[int, ...]
    domain: str
    name: tuple[str, int]
    """The crossing's: its local configuration, and which one it was there."""
    ids: tuple[MessageId, ...]


class Unreachable(Struct, frozen=True):
    """A domain was in the last regular wide configuration, and is not in this one. It need not have failed."""

    conf: str
    domain: str


class WideView(Struct, frozen=True):
    """Who is in a wide group, as far as the connected clusters have told."""

    conf: str
    group: str
    place: tuple[int, ...]
    members: tuple[str, ...]
    """DOMAIN/LOCAL-CONFIGURATION/PROCESS, sorted."""


class Lost(Struct, frozen=True):
    """A majority of the domain has gone on without this site. That is a verdict; `Unreachable` is none."""

    conf: str
    domain: str
    site: str
    reg: str
    """The local configuration of that majority."""


WideEvent = WideChanged | WideSent | WideDelivered | Represents | Crossed | BroughtIn | Unreachable | WideView | Lost
