"""What a layer offers that speaks over the site's configurations beside the groups: the log, and any other.

The first byte of a message says whose it is:

     1 … 15   groups (`core.groups.payloads`)
    16 … 33   the log (`corel.messages`), but for 31: plain messages, which only the simulator sends
    34 … 38   ISIS (`isis.messages`)
    40 … 53   domains (`domains.messages`)
    54 …      free

Such a layer is handed its own messages and every change of configuration, in their order. One that follows the line
of used primary configurations (`Bringing`) is handed `Used` too. Nothing else.
"""

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from reconvene.core.effects import LayerEvent
from reconvene.core.groups.groups import Groups
from reconvene.ids import Service
from reconvene.stack.turn import Turn, Write
from reconvene.wire.messages import Packet

__all__ = ["Apart", "Bringing", "Layer", "Outlet"]


class Outlet:
    """How a layer speaks: it submits messages to the site's present configuration, for as long as there is room."""

    __slots__ = ("_groups", "_site", "now")

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._site = groups.site
        self.now = 0
        """The time of the turn."""

    @property
    def pressed(self) -> bool:
        """The site has more to send than one turn takes: nothing is submitted in this turn."""
        return self._site.current.pressed

    def has_room(self, messages: int, size: int) -> bool:
        """Fewer messages and bytes than these wait in the site to be sent."""
        outbox = self._site.outbox
        return len(outbox) < messages and outbox.bytes < size

    @property
    def behind(self) -> str | None:
        """Why the site's storage is older than what others know of the site, if it is."""
        return self._site.behind

    def submit(self, service: Service, payload: bytes) -> bool:
        """Returns whether the site took it: not where there is no room, or a configuration is being installed.

        Raises Rejected where it is too large."""
        return self._groups.submit_other(service, (payload,), self.now) > 0

    def renew(self) -> bool:
        """Asks for a new configuration with the same members. Returns False while one is being formed anyway."""
        return self._site.renew(self.now)

    def take_packets(self) -> list[Packet]:
        """Packets of channels that came since the last call, in order. What no layer takes in its turn is dropped."""
        return self._site.take_packets()

    def is_silent(self, site: int) -> bool:
        """It was not heard for several beacons, which is less than what makes it suspect."""
        return self._site.is_silent(site, self.now)

    def suspect(self, site: int) -> bool:
        """The site counts as unheard from now on, for a second or two: its channel stands still. The next
        configuration is formed without it; if it can be reached, a later one is formed with it again. Returns whether
        it was heard until now: then the layer has said something (`speak`)."""
        return self._site.suspect(site, self.now)


class Layer(Protocol):
    """In a turn: any number of `synced` and of the layer's own requests; then `begin`, `take` and `speak`, the latter
    two again for as long as any layer has something to send; then one `flush`."""

    @property
    def kinds(self) -> Collection[int]:
        """First bytes of its messages. No two layers share one."""

    @property
    def damage(self) -> str | None:
        """Why the layer can't go on, if it can't: then the site sends nothing, and the others go on without it."""

    def begin(self, outlet: Outlet, time: int) -> None:
        """The turn ends: the site composes its frames next. `time`: ns since 1970."""

    def take(self, events: Sequence[LayerEvent]) -> None:
        """What the site has brought for this layer since the last call, in order; also where that is nothing."""

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        """Messages of this layer that the site has not sent, and will not: their configuration is over."""

    def speak(self, outlet: Outlet) -> bool:
        """Submits what it has to send, as far as there is room. Returns whether that was anything."""

    def flush(self, now: int, turn: Turn) -> Write | None:
        """Adds what the turn has brought for this layer to the bundle. Returns what is to be written, if anything;
        its token, which is the layer's own, comes back by `synced`."""

    def synced(self, token: int) -> None:
        """What was written under this token, and all before it, is on stable storage."""

    def deadline(self) -> int | None:
        """When it wants a turn though nothing happens."""

    @property
    def settled(self) -> bool:
        """All that it has decided is on stable storage, and nothing waits to be handled."""

    def invariants(self) -> None: ...


@runtime_checkable
class Bringing(Protocol):
    """A layer that follows the line of used primary configurations: it is handed `Used` among its events. At most one
    of a stack."""

    def brings(self) -> bytes:
        """What the other members have to know of this site in a configuration that has just been installed, where not
        all members come together. All get it with `Used`, if the configuration is used. At most
        `Groups.brought_bytes`; empty: nothing.

        Before, the layer was handed all events up to the `Changed` of that configuration, and what came back unsent.
        """


@runtime_checkable
class Apart(Protocol):
    """A layer whose data path is the channels between sites, and not the configuration's messages. Where nothing has
    come but packets and its own requests, it has a turn without the others: `begin`, `speak` and `flush`."""

    apart: bool
