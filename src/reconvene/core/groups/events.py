"""What happens to the processes of one site, as the groups layer reports it.

A *membership* is one process's place in one group. Its site assigns it a number, unique in the site's incarnation;
messages carry that number, so that group and sending process cost five bytes each, whatever their names.
"""

from typing import NamedTuple

from msgspec import Struct

from reconvene.core.effects import ConfKind
from reconvene.ids import Service

__all__ = ["Arrived", "Blocked", "GroupEvent", "Left", "Process", "ViewChanged", "ViewId"]


class Process(NamedTuple):
    """A client of a site. People see it as SITE:INCARNATION:NUMBER, with the site's name."""

    site: int
    """Ordinal."""
    incarnation: int
    """The site's."""
    number: int
    """Among the processes of that incarnation, from 1. In a group with the filter a process that comes back into
    the primary component has a new one."""


class ViewId(NamedTuple):
    """The same at every process that has the view; grows at each of them."""

    configuration: int
    """The number of the regular configuration that the view lies in."""
    change: int
    """0: the configuration's own view; then it grows with every join and leave that is delivered in it."""


class ViewChanged(Struct, frozen=True):
    """A group's view, at one local membership."""

    membership: int
    kind: ConfKind
    """A transitional view holds the processes that go on together; a hidden one failed to form here and may have
    formed elsewhere. Neither has a number of its own: `view` is that of the regular one before it."""
    view: ViewId
    conf: str
    """The site's configuration, as in traces."""
    members: tuple[Process, ...]
    """In the order of joining as far as that is common knowledge, else sorted; the same everywhere."""
    primary: bool
    """The site's configuration holds a majority of the cluster's sites."""
    process: Process | None = None
    """The membership's own process, as it is among `members`; with the filter that can change."""


class Arrived(Struct, frozen=True):
    """Messages of one sender to one local membership, in order: a whole frame of them where it can be."""

    membership: int
    sender: Process
    service: Service
    payloads: list[bytes]
    view: ViewId
    conf: str
    first: int
    """Message i is SITE:INCARNATION:(first + i), of the sender's site, in traces."""
    timestamp: tuple[int, ...] | None
    """Of agreed and safe messages, without the index in the frame …"""
    index: int
    """… which is this for the first of them."""


class Blocked(Struct, frozen=True):
    """With the filter: the process is not in the primary component. Nothing is sent or delivered until it is."""

    membership: int


class Left(Struct, frozen=True):
    """The membership is over: its process asked for it, died, or was refused."""

    membership: int
    reason: str


GroupEvent = ViewChanged | Arrived | Blocked | Left
