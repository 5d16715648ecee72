"""The wide groups of a site: which of its processes are in them, what they send, and what reaches them.

Given: the port layer, which delivers every message of every wide group that passes to this cluster. Promised: each
process of a group gets the messages since it joined, and each wide configuration, in the site's order. A message
carries the number of the process that sent it.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from reconvene.core.groups.events import Process
from reconvene.domains.events import Lost, Unreachable, WideChanged, WideDelivered, WideEvent, WideView
from reconvene.domains.port import Site
from reconvene.errors import ReconveneError, Rejected, Unavailable
from reconvene.ids import Service
from reconvene.isis.far_messages import is_far
from reconvene.room import UNBOUNDED, Room
from reconvene.runtime.domain.events import LostSite, WideArrived, WideEnded, WideGroupEvent, WideSender, WideViewed

__all__ = ["WIDE_FIRST", "Receive", "WideGroups"]

WIDE_FIRST = 1 << 48
"""The first membership of a wide group: below are those of the cluster's own groups."""
_NUMBER_BYTES = 8
"""Before each message: the process's number."""

Receive = Callable[[list[WideGroupEvent]], None]
_Batches = dict[Process, tuple[Receive, list[WideGroupEvent]]]


class _Place:
    __slots__ = ("begun", "group", "members", "membership", "process", "receive")

    def __init__(self, membership: int, process: Process, group: str, receive: Receive) -> None:
        self.membership = membership
        self.process = process
        self.group = group
        self.receive = receive
        self.begun = False
        self.members: tuple[WideSender, ...] = ()
        """Of its last view."""


class WideGroups:
    def __init__(
        self,
        name: str,
        site: Site,
        wake: Callable[[], None],
        *,
        message_bytes: int,
        name_bytes: int,
        memberships: int,
    ) -> None:
        """`memberships`: the most of a process."""
        self._name = name
        self._site = site
        self._wake = wake
        self._message_bytes = message_bytes
        self._name_bytes = name_bytes
        self._most = memberships
        self._numbers = count(WIDE_FIRST)
        self._places: dict[int, _Place] = {}
        self._groups: dict[str, dict[int, _Place]] = {}
        self._processes: dict[Process, dict[str, _Place]] = {}
        self._now = WideChanged("", True, (), ())
        """The wide configuration that was last handed out."""
        self.stopping = False
        self.room = Room(self._free)

    def __len__(self) -> int:
        """Groups with a process of this site."""
        return len(self._groups)

    # -- requests

    def join(self, process: Process, group: str, receive: Receive) -> int:
        size = len(group.encode())
        if not group or size > self._name_bytes:
            raise Rejected(f"a group's name of {size} bytes: expected 1 to {self._name_bytes}")
        if is_far(group):
            raise Rejected(f"group {group!r}: such names are those of casts between clusters")
        own = self._processes.setdefault(process, {})
        if group in own:
            raise Rejected(f"this process is in group {group!r} already")
        if len(own) >= self._most:
            raise Unavailable(f"this process is in {len(own)} groups: limits.groups_per_process")
        place = _Place(next(self._numbers), process, group, receive)
        own[group] = self._places[place.membership] = place
        self._groups.setdefault(group, {})[place.membership] = place
        if self._site.domain.passes_out(group):
            try:
                self._site.join(group, self._named(process))
            except ReconveneError:
                self._remove(place)
                raise
            self._wake()
        asyncio.get_running_loop().call_soon(self._begin, place)  # not before the membership's number is known
        return place.membership

    def leave(self, membership: int) -> None:
        place = self._remove(self._place(membership))
        place.receive([WideEnded(membership, "it was left")])

    def close(self, process: Process) -> None:
        for place in list(self._processes.get(process, {}).values()):
            self._remove(place)

    def send(self, membership: int, service: Service, payloads: Sequence[bytes], cluster: bool) -> int:
        """As many as there is room for; returns how many. `cluster`: they do not leave it."""
        place = self._place(membership)
        longest = max(map(len, payloads), default=0)
        if longest > self._message_bytes:
            raise Rejected(f"message of {longest} bytes: at most {self._message_bytes} pass in a wide group")
        if not place.begun:
            return 0
        number = place.process.number.to_bytes(_NUMBER_BYTES, "big")
        taken = 0
        for payload in payloads[: max(0, self._site.room())]:
            if taken and self._site.room() <= 0:
                break
            self._site.send(service, place.group, not cluster, number + payload)
            taken += 1
        if taken:
            self._wake()
        return taken

    # -- what the site's turn brought

    def deliver(self, events: Sequence[WideEvent]) -> None:
        if events:
            self._hand_out(events)
        if self.room.waiting:
            asyncio.get_running_loop().call_soon(self.room.wake)  # not amid the turn

    def _hand_out(self, events: Sequence[WideEvent]) -> None:
        batches: _Batches = {}
        lost: list[LostSite] = []
        """That not all views tell of yet: those that come next, at the same place, do."""
        told: set[str] = set()
        for at, event in enumerate(events):
            if lost and not isinstance(event, Lost | WideView):
                self._tell_lost(batches, lost, told)
            if isinstance(event, WideDelivered):
                for place in self._groups.get(event.group, {}).values():
                    if place.begun and (arrived := _arrived(place.membership, event)) is not None:
                        _add(batches, place, arrived)
            elif isinstance(event, WideView):
                members = tuple(map(_member, event.members))
                for place in self._groups.get(event.group, {}).values():
                    if place.begun:
                        place.members = members
                        viewed = WideViewed(
                            place.membership, True, event.conf, self._now.domains, (), members,
                            () if event.group in told else tuple(lost),
                        )  # fmt: skip
                        _add(batches, place, viewed)
                told.add(event.group)
            elif isinstance(event, Lost):
                if told:
                    self._tell_lost(batches, lost, told)
                lost.append((event.domain, event.site, event.reg))
            elif isinstance(event, WideChanged):
                self._now = event
                gone = tuple(
                    later.domain
                    for later in events[at + 1 :]
                    if isinstance(later, Unreachable) and later.conf == event.conf
                )
                for place in self._places.values():
                    place.begun = True
                    place.members = ()
                    _add(
                        batches,
                        place,
                        WideViewed(place.membership, event.regular, event.conf, event.domains, gone),
                    )
        self._tell_lost(batches, lost, told)
        for receive, batch in batches.values():
            receive(batch)

    def _tell_lost(self, batches: _Batches, lost: list[LostSite], told: set[str]) -> None:
        """To those groups whose members have not changed with it."""
        now = self._now
        for place in self._places.values():
            if lost and place.begun and place.group not in told:
                viewed = WideViewed(
                    place.membership, now.regular, now.conf, now.domains, (), place.members, tuple(lost)
                )
                _add(batches, place, viewed)
        lost.clear()
        told.clear()

    def _begin(self, place: _Place) -> None:
        wide = self._site.wide
        if place.membership in self._places and not place.begun and wide.conf:
            place.begun = True
            place.receive([WideViewed(place.membership, wide.regular, wide.conf, wide.domains, ())])

    def stop(self) -> None:
        self.stopping = True
        self.room.wake()

    # -- inside

    def _place(self, membership: int) -> _Place:
        place = self._places.get(membership)
        if place is None:
            raise Rejected(f"there is no membership {membership}")
        return place

    def _remove(self, place: _Place) -> _Place:
        del self._places[place.membership]
        members = self._groups[place.group]
        del members[place.membership]
        if not members:
            del self._groups[place.group]
        if self._site.domain.passes_out(place.group):
            self._site.leave(place.group, self._named(place.process))
            self._wake()
        own = self._processes[place.process]
        del own[place.group]
        if not own:
            del self._processes[place.process]
        return place

    def _named(self, process: Process) -> str:
        """As it is written in wide views."""
        return f"{self._site.name}:{process.incarnation}:{process.number}"

    def _free(self) -> int:
        return UNBOUNDED if self.stopping else self._site.room()


def _arrived(membership: int, event: WideDelivered) -> WideArrived | None:
    """None for a message that no site of this program sends."""
    data = event.data
    if len(data) < _NUMBER_BYTES:
        return None
    name = event.id
    sender = (name.domain, name.site, name.incarnation, int.from_bytes(data[:_NUMBER_BYTES], "big"))
    return WideArrived(
        membership, sender, event.service, data[_NUMBER_BYTES:], event.conf, name.counter, event.place
    )  # fmt: skip


def _member(written: str) -> WideSender:
    """From CLUSTER/LOCAL-CONFIGURATION/SITE:INCARNATION:NUMBER."""
    cluster, _, process = written.split("/", 2)
    site, incarnation, number = process.rsplit(":", 2)
    return cluster, site, int(incarnation), int(number)


def _add(batches: _Batches, place: _Place, event: WideGroupEvent) -> None:
    batches.setdefault(place.process, (place.receive, []))[1].append(event)
