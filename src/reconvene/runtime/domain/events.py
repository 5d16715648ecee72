"""What happens to the processes of a site in wide groups: groups whose messages pass between clusters."""

from msgspec import Struct

from reconvene.ids import Service

__all__ = ["LostSite", "WideArrived", "WideEnded", "WideGroupEvent", "WideSender", "WideViewed"]

WideSender = tuple[str, str, int, int]
"""Cluster, site, the site's incarnation, and the process's number there."""

LostSite = tuple[str, str, str]
"""Cluster and site, and the local configuration of the majority that goes on without it."""


class WideArrived(Struct, frozen=True):
    """One message, to one local membership."""

    membership: int
    sender: WideSender
    service: Service
    payload: bytes
    conf: str
    """The wide configuration."""
    counter: int
    """The message is CLUSTER/SITE:INCARNATION:COUNTER in traces."""
    place: tuple[int, ...] | None
    """Of agreed and safe messages."""


class WideViewed(Struct, frozen=True):
    """A wide configuration begins, or the membership does, or the group has other members, or a site is lost."""

    membership: int
    regular: bool
    conf: str
    domains: tuple[str, ...]
    unreachable: tuple[str, ...]
    """Of the last regular one, and not in this: they need not have failed."""
    members: tuple[WideSender, ...] = ()
    """Of the group, in all connected clusters, sorted. Empty: not known yet in this configuration."""
    lost: tuple[LostSite, ...] = ()
    """Sites that the majority of their cluster goes on without, of which this is the first that is heard."""


class WideEnded(Struct, frozen=True):
    """The membership is over."""

    membership: int
    reason: str


WideGroupEvent = WideArrived | WideViewed | WideEnded
