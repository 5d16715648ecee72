"""Sites of a simulation whose list of sites changes: how they are made, and how one that is added learns the list.

As in a real cluster, a site's number follows from the list: sites of the first list are numbered in the order of
their names, and each that is added gets the next. A node's place in the simulation is another number: `Numbering`
knows both. Each site has a process in a group with the filter, so that the trace shows which configurations were
primary.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from reconvene.core.effects import LayerEvent
from reconvene.core.groups.groups import Groups
from reconvene.core.joining import list_with
from reconvene.core.options import Options
from reconvene.core.record import NEW_SITE, boot, stored_list
from reconvene.core.site import Site
from reconvene.corel.messages import FOREIGN
from reconvene.errors import Unavailable
from reconvene.ids import Service
from reconvene.quorum import Spec
from reconvene.sim.core import Datagrams
from reconvene.sim.log_site import LogSite, RealLogCore
from reconvene.site_list import SiteList, first_list
from reconvene.stack.layer import Outlet
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn, Write
from reconvene.storage.tables import Op, Reader

__all__ = ["GROUP", "ChangingCore", "ChangingLogCore", "Numbering"]

GROUP = "sites"
"""The group with the filter that every site is in."""
_PLAIN = bytes((FOREIGN,))


class Numbering:
    """Which sites there are at first, which number each of them has, and what nodes that were added have learned."""

    def __init__(self, names: Sequence[str], first: Sequence[str]) -> None:
        """`names`: of all nodes, by place."""
        self.names = tuple(names)
        self.first = tuple(sorted(first))
        self._places = {name: place for place, name in enumerate(self.names)}
        self._learned: dict[int, SiteList] = {}

    def learns(self, place: int, data: bytes) -> bool:
        known = list_with(self.names[place], data)
        if known is not None:
            self._learned[place] = known
        return known is not None

    def boot(self, stored: bytes | None, place: int, token: int) -> bytes:
        known = stored_list(stored)
        if known is not None:
            return boot(stored, self._number(known, place), token, known)
        if place in self._learned:
            known = self._learned[place]
            return boot(None, self._number(known, place), token, known, NEW_SITE)
        known = first_list(len(self.first), self.first)
        return boot(None, self._number(known, place), token, known)

    def _number(self, known: SiteList, place: int) -> int:
        return known.names.index(self.names[place])

    def site(self, options: Options, place: int, record: bytes, now: int) -> Site:
        known = stored_list(record)
        assert known is not None, "it was booted with a list"
        number = self._number(known, place)
        return Site(replace(options, return_unsent=True), number, len(known.names), record, now)

    def to_places(self, names: Sequence[str], datagrams: Datagrams) -> Datagrams:
        places = self._places
        return [(tuple(places[names[site]] for site in sites), data) for sites, data in datagrams]


def _groups(site: Site, now: int) -> Groups:
    groups = Groups(site, len(site.names))
    groups.record()
    groups.join(groups.open(), GROUP, True, now)
    return groups


class PlainLayer:
    """The application's messages, beside the groups. What a change of configuration returns goes out again."""

    kinds = frozenset((FOREIGN,))
    damage = None
    settled = True

    def __init__(self) -> None:
        self.waiting: deque[tuple[Service, bytes]] = deque()

    def begin(self, outlet: Outlet, time: int) -> None:
        while self.waiting and outlet.submit(*self.waiting[0]):
            self.waiting.popleft()

    def take(self, events: Sequence[LayerEvent]) -> None:
        """Its messages are recorded, and go nowhere else."""

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        self.waiting += unsent

    def speak(self, outlet: Outlet) -> bool:
        return False

    def flush(self, now: int, turn: Turn) -> Write | None:
        return None

    def synced(self, token: int) -> None:
        raise AssertionError("it writes nothing")

    def deadline(self) -> int | None:
        return None

    def invariants(self) -> None:
        """Nothing has to hold."""


class ChangingSite(Stack):
    """The stack `evs` with groups above it: without them there is no primary component."""

    def __init__(self, site: Site, now: int) -> None:
        self._plain = PlainLayer()
        super().__init__(site, _groups(site, now), (self._plain,))

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        if not self.groups.submit_other(service, (_PLAIN + payload,), now):
            raise Unavailable("a configuration is being installed")

    def room(self) -> int:
        return 0 if self._plain.waiting else self.site.room()

    def withdraw(self) -> int:
        count = len(self._plain.waiting)
        self._plain.waiting.clear()
        return count


class ChangingCore(Numbering):
    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> ChangingSite:  # type: ignore[override]
        return ChangingSite(super().site(options, ordinal, record, now), now)


class ChangingLogCore(RealLogCore):
    """Its replicas are the sites of the first list, and those that are added to them through the log."""

    def __init__(self, numbering: Numbering, quorum: Spec) -> None:
        super().__init__(quorum)
        self._numbering = numbering
        self.learns = numbering.learns
        self.to_places = numbering.to_places

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return self.booted(ordinal, self._numbering.boot(stored, ordinal, token), token)

    def first(self, name: str, names: Sequence[str], first: bool, booted: dict[int, int]) -> list[Op]:
        return super().first(name, self._numbering.first, first, booted)

    def site(
        self, options: Options, ordinal: int, names: Sequence[str], record: bytes, tables: Reader, now: int
    ) -> LogSite:
        site = self._numbering.site(options, ordinal, record, now)
        replica = self._replica(names[ordinal], site.names, site.incarnation, tables, self._limits)
        return LogSite(site, _groups(site, now), replica)
