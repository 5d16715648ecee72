"""The processes of one site, their memberships and identities, and the events for each of them.

Promised: within the limits; numbers are used once in an incarnation; each process gets its events in order.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reconvene.core.groups.events import Arrived, Blocked, GroupEvent, Left, Process, ViewChanged, ViewId
from reconvene.core.groups.notes import Cast, Note
from reconvene.core.groups.payloads import DATA, MOST_MEMBERSHIPS, heading
from reconvene.errors import Rejected, Unavailable

__all__ = ["GroupLimits", "Membership", "Owner", "Processes", "weight"]

Shown = ViewChanged | Arrived | Blocked | Left

_ENTRY_BYTES = 48
"""What an entry of a table takes beside the group's name, at most."""


@dataclass(frozen=True)
class GroupLimits:
    """Beyond each of them the request is refused: the first two Unavailable, the third Rejected."""

    processes: int = 10_000
    """At one site."""
    groups_per_process: int = 10_000
    group_name_bytes: int = 255


def weight(group: str) -> int:
    """What a membership takes in its site's table, at most: a site's table has to fit one message."""
    return len(group.encode()) + _ENTRY_BYTES


class Owner:
    """A process of this site."""

    __slots__ = ("closed", "events", "memberships", "process", "spent")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.memberships: dict[str, Membership] = {}
        """By group; none that it is leaving."""
        self.events: list[GroupEvent] = []
        """Of this turn."""
        self.closed = False
        self.spent = False
        """Its own number was used in a group with the filter, and is over there."""


class Membership:
    """One local process's place in one group, from `join` until it has left."""

    __slots__ = (
        "blocked", "fresh", "group", "heading", "identity", "joined", "leaving", "number", "owner", "primary",
        "shown", "view",
    )  # fmt: skip

    def __init__(self, number: int, owner: Owner, group: str, primary: bool, identity: Process) -> None:
        self.number = number
        self.owner = owner
        self.group = group
        self.primary = primary
        self.identity = identity
        """As the group knows its process."""
        self.heading = heading(DATA, number)
        self.joined = False
        """Its join was delivered."""
        self.leaving = False
        self.blocked = False
        """The process knows that it is outside of the primary component."""
        self.shown: Process | None = None
        """With the filter: the identity under which the process has a view, as far as it knows."""
        self.view = ViewId(0, 0)
        """The last one that it has seen."""
        self.fresh = 0
        """With the filter: the number that is kept for its next identity."""


class Processes:
    def __init__(self, site: int, incarnation: int, limits: GroupLimits, table_bytes: int) -> None:
        self.memberships: dict[int, Membership] = {}
        self.ended: set[int] = set()
        """Memberships whose identity ended in this turn: what they have not sent yet is void."""
        self.notes: list[Note] | None = None
        """Of this turn, where someone records them."""
        self.position = 0
        """How many of the site's events of this turn were handled."""
        self.table_bytes = table_bytes
        """What the site's memberships may weigh together, so that its table fits one message."""
        self._site = site
        self._incarnation = incarnation
        self._limits = limits
        self._owners: dict[Process, Owner] = {}
        self._touched: list[Owner] = []
        self._last_process = 0
        self._last_membership = 0
        self._weight = 0

    # -- processes

    def open(self) -> Process:
        if len(self._owners) >= self._limits.processes:
            raise Unavailable(f"{len(self._owners)} processes are open already: no more are taken")
        process = self._next_process()
        self._owners[process] = Owner(process)
        return process

    def close(self, process: Process) -> list[Membership]:
        """Returns the memberships that have to be left."""
        owner = self._owners.pop(process, None)
        if owner is None:
            return []
        owner.closed = True
        left = list(owner.memberships.values())
        for membership in left:
            self.begin_leaving(membership)
        return left

    def _next_process(self) -> Process:
        self._last_process += 1
        return Process(self._site, self._incarnation, self._last_process)

    # -- memberships

    def join(self, process: Process, group: str, primary: bool) -> Membership:
        owner = self._owners.get(process)
        if owner is None:
            raise Rejected(f"process {process.number} is not open")
        size = _name_bytes(group)
        most = self._limits.group_name_bytes
        if not 1 <= size <= most:
            raise Rejected(f"a group's name of {size} bytes: expected 1 to {most}, as UTF-8")
        if group in owner.memberships:
            raise Rejected(f"process {process.number} is in group {group!r} already")
        if len(owner.memberships) >= self._limits.groups_per_process:
            raise Unavailable(f"process {process.number} is in {len(owner.memberships)} groups: no more are taken")
        if self._weight + weight(group) > self.table_bytes or self._last_membership == MOST_MEMBERSHIPS:
            raise Unavailable(f"the site's {len(self.memberships)} memberships fill its table: no more are taken")
        self._last_membership += 1
        identity = self._next_process() if primary and owner.spent else process
        membership = Membership(self._last_membership, owner, group, primary, identity)
        owner.memberships[group] = membership
        self.memberships[membership.number] = membership
        self._weight += weight(group)
        return membership

    def find(self, number: int) -> Membership | None:
        """None: it is over. Raises Rejected where there never was one."""
        membership = self.memberships.get(number)
        if membership is None and not 0 < number <= self._last_membership:
            raise Rejected(f"membership {number}: there is none of this number")
        return membership

    def begin_leaving(self, membership: Membership) -> None:
        membership.leaving = True
        if membership.primary:
            self._spend(membership)
        if membership.owner.memberships.get(membership.group) is membership:
            del membership.owner.memberships[membership.group]

    def remove(self, membership: Membership, reason: str) -> None:
        """It is over."""
        self.begin_leaving(membership)
        del self.memberships[membership.number]
        self._weight -= weight(membership.group)
        self.ended.add(membership.number)
        self.show(membership, membership.identity, Left(membership.number, reason))

    # -- identities, with the filter

    def reserve(self, membership: Membership) -> int:
        """The number for its next identity, the same until it is used."""
        if not membership.fresh:
            membership.fresh = self._next_process().number
        return membership.fresh

    def renew(self, membership: Membership) -> Process:
        """Its identity is over; returns the next one."""
        self._spend(membership)
        membership.identity = Process(self._site, self._incarnation, self.reserve(membership))
        membership.fresh = 0
        self.ended.add(membership.number)
        return membership.identity

    def _spend(self, membership: Membership) -> None:
        if membership.identity == membership.owner.process:
            membership.owner.spent = True

    # -- what they see

    def add(self, membership: Membership, event: GroupEvent) -> None:
        owner = membership.owner
        if owner.closed:
            return
        if not owner.events:
            self._touched.append(owner)
        owner.events.append(event)

    def show(self, membership: Membership, identity: Process, event: Shown, noted: bool = True) -> None:
        """Adds the event, keeps track of what the process knows of itself, and notes it where it has the filter."""
        if isinstance(event, Blocked):
            if membership.blocked:
                return
            membership.blocked = True
        elif isinstance(event, ViewChanged):
            membership.blocked = False
            membership.view = event.view
            membership.shown = identity
        if membership.primary and membership.shown is not None:
            # A closed process is a member until its leave is delivered: its site acts for it until then.
            if noted:
                self.note(membership, membership.shown, event)
            if isinstance(event, Blocked | Left):
                membership.shown = None
        self.add(membership, event)

    def note(self, membership: Membership, process: Process, event: Shown | Cast) -> None:
        if self.notes is not None:
            self.notes.append(Note(self.position, membership.group, process, membership.view, event))

    def take(self) -> list[tuple[Process, list[GroupEvent]]]:
        """Returns what this turn brought for each process."""
        events = []
        for owner in self._touched:
            events.append((owner.process, owner.events))
            owner.events = []
        self._touched.clear()
        return events

    def each(self, wanted: Callable[[Membership], bool]) -> list[Membership]:
        return [membership for membership in self.memberships.values() if wanted(membership)]

    def invariants(self) -> None:
        assert self._weight == sum(weight(membership.group) for membership in self.memberships.values())
        for owner in self._owners.values():
            for membership in owner.memberships.values():
                assert not membership.leaving
                assert self.memberships[membership.number] is membership


def _name_bytes(group: str) -> int:
    try:
        return len(group.encode())
    except UnicodeEncodeError:
        raise Rejected("a group's name expected to be text: it has a lone surrogate") from None
