"""What an application sees happen in a group."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from reconvene.core.groups.events import ViewId
from reconvene.errors import InvalidArgument
from reconvene.ids import Service, message_id

__all__ = ["Batch", "Blocked", "Event", "Lost", "Message", "Process", "Rejoined", "View", "ViewId", "WideView"]

_WRITTEN = re.compile(r"(.+):(\d{1,18}):(\d{1,18})", re.ASCII)


class Process(NamedTuple):
    """A client of a site: a member of groups. Written, and accepted wherever one is expected, as "a:1:7"."""

    site: str
    """Its site's name."""
    incarnation: int
    """Its site's: one more after each restart."""
    number: int
    """Among the processes of that incarnation."""

    def __str__(self) -> str:
        return f"{self.site}:{self.incarnation}:{self.number}"

    def __repr__(self) -> str:
        return f"<{self}>"

    @classmethod
    def parse(cls, text: str) -> "Process":
        """Raises InvalidArgument."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise InvalidArgument(f"process {text!r}: SITE:INCARNATION:NUMBER expected, such as a:1:7")
        return cls(found[1], int(found[2]), int(found[3]))


class Message(Struct, frozen=True, gc=False):
    """One message."""

    data: bytes
    sender: Process
    service: Service
    counter: int
    view: ViewId
    """The view that it is delivered in."""

    @property
    def id(self) -> str:
        """SITE:INCARNATION:COUNTER, unique in the cluster; the same in traces."""
        return message_id(self.sender.site, self.sender.incarnation, self.counter)


class Batch(Struct, frozen=True):
    """Messages of one sender in their order, with no object made for each."""

    payloads: list[bytes]
    sender: Process
    service: Service
    first: int
    """The counter of the first one; the others follow without gaps."""
    view: ViewId
    timestamp: tuple[int, ...] | None
    """Of agreed and safe messages: the place in the total order of the frame that brought them …"""
    index: int
    """… and of the first of them in that frame."""

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def first_id(self) -> str:
        return message_id(self.sender.site, self.sender.incarnation, self.first)

    def messages(self) -> Iterator[Message]:
        for counter, data in enumerate(self.payloads, self.first):
            yield Message(data, self.sender, self.service, counter, self.view)


class View(Struct, frozen=True):
    """The members of the group from here on, at the same point of the order at every member."""

    kind: str
    """regular: the group as it is now | transitional: members that go on together from a configuration that ends |
    hidden: one that failed to form here and may have formed elsewhere; `Group.view` stays as it was."""
    id: ViewId
    """The same at every process that has the view, and growing at each."""
    members: tuple[Process, ...]
    primary: bool
    """The sites that are together are a majority of the cluster."""
    joined: tuple[Process, ...]
    left: tuple[Process, ...]
    """Against the view before it, here."""
    conf: str
    """The sites' configuration, as in traces."""


class Lost(Struct, frozen=True):
    """A site that a majority of its cluster goes on without. That is a verdict: the site has failed, or is cut
    off with a minority. A cluster that is out of reach (`WideView.unreachable`) has lost nobody by that."""

    site: str
    """CLUSTER/SITE, as in `Process.site`."""
    processes: tuple[Process, ...]
    """Of the group that were there, as far as the last view with members had them."""
    conf: str
    """The configuration of that majority, in its cluster."""


class WideView(View, frozen=True):
    """In a group joined with `wide=True`: the clusters that are connected from here on, at the same point of the
    order at every site of the cluster, and the processes of the group in them. `conf` is the wide configuration.
    `members` is empty until the clusters have told each other who is in the group: then another view follows. It
    stays empty in a group that does not leave the cluster, and in a cluster without a gateway."""

    domains: tuple[str, ...] = ()
    """The connected clusters, this one included."""
    unreachable: tuple[str, ...] = ()
    """Clusters of the last regular wide view that are not in this one. They need not have failed."""
    lost: tuple[Lost, ...] = ()
    """Sites that were lost since the last view, in this cluster or another one. Each is told once."""


class Blocked(Struct, frozen=True):
    """In a group joined with `primary=True`: this process is outside of the primary component. Nothing is sent or
    delivered until the next view."""


class Rejoined(Struct, frozen=True):
    """The connection to the site was lost, and the group was joined again, here or at another site. What happened
    in between is missing. The next event is a view that has this process as a new member."""

    me: Process
    was: Process
    site: str


Event = Message | View | Blocked | Rejoined
