"""What a turn of a site brings, and the events in it.

The layers of a site add to one `Effects` until the turn ends. `stack.turn.Turn` is what a shell is handed, and says
in which order it is performed. Nothing in it depends on the sync of a `Persist` of the same turn.
"""

from enum import Enum

from msgspec import Struct, field

from reconvene.ids import Service
from reconvene.site_list import SiteList

__all__ = ["Changed", "ConfKind", "Delivered", "Effects", "Event", "LayerEvent", "Persist", "Sent", "Used"]


class ConfKind(Enum):
    REGULAR = "regular"
    TRANSITIONAL = "transitional"
    HIDDEN = "hidden"


class Changed(Struct, frozen=True):
    """deliver_conf: a configuration begins (or, hidden, failed to form here and may have formed elsewhere)."""

    kind: ConfKind
    conf: str
    members: tuple[int, ...]
    reg: str | None = None
    """Of a transitional configuration: the regular one that it follows."""
    sites: SiteList | None = None
    """Of a regular configuration: what its members together know of the cluster's list."""


class Sent(Struct, frozen=True):
    """A frame of this site's own messages was numbered: they are originated in `conf`."""

    conf: str
    service: Service
    first: int
    """Counter of the first message; the others follow without gaps."""
    count: int


class Delivered(Struct, frozen=True):
    """A frame's messages, in order. Message i is `first + i` of its sender's incarnation."""

    conf: str
    sender: int
    incarnation: int
    service: Service
    first: int
    payloads: list[bytes]
    timestamp: tuple[int, ...] | None
    """Of agreed and safe messages, without the index in the frame, which completes it."""
    indices: tuple[int, ...] | None = None
    """Of a part of a frame, as a layer is handed its own messages: where each of them is in the frame. Message i is
    `first + indices[i]` then. None: this is the whole frame."""


class Used(Struct, frozen=True):
    """A primary configuration is used from here on: every member knows that, or will know it before it installs the
    next. Between `Changed` of a transitional configuration and that of the next regular one, it is the configuration
    that ends that is used."""

    number: int
    conf: str
    """The regular configuration's."""
    members: tuple[int, ...]
    heirs: tuple[int, ...]
    """The members that were in the last used configuration and left it together; sorted. The others come from
    outside of the primary component, and have nothing that counts. Empty: it begins anew."""
    brought: dict[int, bytes] | None
    """By member, what its layer brought into the configuration; empty bytes: nothing. None: all members came together
    from one configuration, so nobody was asked."""


Event = Changed | Sent | Delivered
LayerEvent = Changed | Delivered | Used
"""What a layer above the groups is handed; `Used` only if it brings something along (`stack.layer.Bringing`)."""


class Persist(Struct, frozen=True):
    """Write `value` under `key`, sync, then call `Site.synced(token)`."""

    token: int
    key: str
    value: bytes


class Effects(Struct):
    persist: list[Persist] = field(default_factory=list)
    """Written and synced together; then each token is reported back. Nothing else in the bundle waits for that."""
    events: list[Event] = field(default_factory=list)
    """Recorded, in this order, before `datagrams` are sent."""
    datagrams: list[tuple[tuple[int, ...], bytes]] = field(default_factory=list)
    """(destinations by ordinal, bytes); never to the site itself. Sent after `events` are recorded."""
    unsent: list[tuple[Service, bytes]] = field(default_factory=list)
    """Submitted before a configuration that this turn installed, and sent in none (`Options.return_unsent`): for the
    layer that submitted it."""
