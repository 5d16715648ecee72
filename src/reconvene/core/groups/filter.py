"""The virtual-synchrony filter: groups whose views follow one another, and which only one component continues.

Section 5 of the extended virtual synchrony paper, for groups. Rule 1 is `begin_transitional`, rule 2 `install`, rules
3 and 4 are `activate`. Which processes go on with the primary component, the paper leaves to another algorithm: those
of the heirs (`lineage`).

Views are made in a primary configuration once it is used. What a transitional configuration brings is held until a
primary configuration is used to which the process goes on; if it does not go on, no process will ever have seen it.

Between two configurations a view changes by a join or a leave. A process that has the new view must have delivered
the same in the old one, even if it fails then; an agreed message may be known to few. So where there were any, the
site shows the new view only when a safe message of its own, a SYNC, came back: then all have what it had delivered
before.
"""

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from reconvene.core.effects import ConfKind
from reconvene.core.groups.events import Arrived, Blocked, Process, ViewChanged, ViewId
from reconvene.core.groups.lineage import Lineage
from reconvene.core.groups.processes import Membership, Processes, Shown
from reconvene.core.groups.table import Group, Member, Table
from reconvene.ids import Service

__all__ = ["Filter"]


class _Held(NamedTuple):
    membership: Membership
    identity: Process
    event: Shown
    noted: bool
    sync: int
    """The SYNC that has to come back first."""


class Filter:
    def __init__(self, site: int, processes: Processes, lineage: Lineage) -> None:
        self._site = site
        self._processes = processes
        self._lineage = lineage
        self._conf = ""
        self._changes = 0
        """Of all groups with the filter, in this configuration: a group that begins anew has new views."""
        self._holding = False
        self._held: deque[_Held] = deque()
        """What is not shown yet, in order: it waits for a SYNC, or, once the configuration ends, for the next that is
        used."""
        self._syncs_asked = 0
        self._syncs_heard = 0
        self._barrier = 0
        """The SYNC that the last view needs."""

    # -- configurations

    def begin_transitional(self) -> None:
        """Rule 1: no process sees it, and its messages count as the regular configuration's."""
        self._holding = True

    def install(self, conf: str, table: Table) -> None:
        """A regular configuration, of which the lineage knows. Rule 2: outside of the primary component everything
        stops."""
        self._holding = False
        self._syncs_asked = self._syncs_heard = self._barrier = 0
        self._conf = conf
        if not self._lineage.primary:
            self._block(table)

    def disown(self, table: Table) -> None:
        """This site does not know that the primary configuration that ended was used, but others may: what it offered
        there as new identities may be taken."""
        for member in table.entries(self._site):
            if member.group.primary:
                membership = self._processes.memberships[member.number]
                if member.live:
                    membership.fresh = 0
                else:
                    member.identity = self._processes.renew(membership)

    def _block(self, table: Table) -> None:
        self._held.clear()
        for group in table.groups.values():
            if group.primary:
                group.local.clear()
                for member in group.members:
                    if member.live and member.site == self._site:
                        member.identity = self._processes.renew(self._processes.memberships[member.number])
                    member.live = False
        for membership in self._processes.each(_has_filter):
            self._tell_blocked(membership)

    def _tell_blocked(self, membership: Membership) -> None:
        self._processes.show(membership, membership.identity, Blocked(membership.number))

    def decide(self, heirs: Collection[int], table: Table) -> None:
        """All sites know what each of them has: the processes of the heirs go on under their identities."""
        if self._site not in heirs:
            self._held.clear()
        for group in table.groups.values():
            if not group.primary:
                continue
            for member in group.members:
                if member.live and member.site not in heirs:
                    self._end(member)

    def _end(self, member: Member) -> None:
        """Its identity is over; it waits to be merged under the next."""
        member.live = False
        member.identity = Process(member.site, member.identity.incarnation, member.fresh)
        if member.site != self._site:
            return
        membership = self._processes.memberships[member.number]
        self._give(membership, Blocked(membership.number))
        self._processes.renew(membership)

    def activate(self, table: Table) -> None:
        """The configuration is used: the processes that go on get a view without the others, which are then merged
        one at a time (rules 3 and 4)."""
        self._changes = 0
        groups = [table.groups[name] for name in sorted(table.groups) if table.groups[name].primary]
        if not self._holding:
            self._release()
        for group in groups:
            self._merge(group)

    def _merge(self, group: Group) -> None:
        going_on = [member for member in group.members if member.live]
        merged = sorted((member for member in group.members if not member.live), key=_by_identity)
        group.members = going_on
        group.local = [self._processes.memberships[m.number] for m in going_on if m.site == self._site]
        group.view = ViewId(self._lineage.number, 0)
        group.agreed = False
        if going_on:
            self._show_view(group)
        for member in merged:
            group.members.append(member)
            self._add(member)

    # -- stability

    @property
    def wants_sync(self) -> bool:
        """A SYNC has to be sent; one is under way at a time."""
        return self._barrier > self._syncs_asked == self._syncs_heard and not self._holding

    def sync_sent(self) -> None:
        self._syncs_asked += 1

    def synced(self) -> None:
        """This site's own SYNC was delivered: what it had delivered when it sent it, all members have."""
        if self._holding:
            return
        self._syncs_heard += 1
        while self._held and self._held[0].sync <= self._syncs_heard:
            self._show(self._held.popleft())

    def _release(self) -> None:
        held, self._held = self._held, deque()
        for one in held:
            self._show(one)

    def _show(self, held: _Held) -> None:
        if held.membership.number in self._processes.memberships:
            self._processes.show(held.membership, held.identity, held.event, held.noted)

    # -- what happens in one that is used

    def joined(self, member: Member) -> None:
        """It is in the table already."""
        if self._lineage.active:
            self._add(member)
        elif member.site == self._site and not self._lineage.primary and not self._holding:
            self._tell_blocked(self._processes.memberships[member.number])

    def _add(self, member: Member) -> None:
        group = member.group
        member.live = True
        if member.site == self._site:
            group.local.append(self._processes.memberships[member.number])
        self._change(group)

    def left(self, member: Member) -> None:
        """It is out of the table already."""
        group = member.group
        if member.site == self._site:
            group.local = [membership for membership in group.local if membership.number != member.number]
        if member.live:
            self._change(group)

    def _change(self, group: Group) -> None:
        self._changes += 1
        group.view = ViewId(self._lineage.number, self._changes)
        if group.agreed and group.local:
            self._barrier = self._syncs_asked + 1
        group.agreed = False
        self._show_view(group)

    def _show_view(self, group: Group) -> None:
        members = group.processes()
        for membership in group.local:
            view = ViewChanged(
                membership.number, ConfKind.REGULAR, group.view, self._conf, members, True, membership.identity
            )
            self._give(membership, view)

    def arrived(self, member: Member, arrived: Arrived, to: Collection[Process] | None) -> bool:
        """Returns False where no correct member sends it: the sender has no view. `arrived` is completed for each
        process that gets it."""
        if not member.live or not self._lineage.active:
            return False
        group = member.group
        if arrived.service is not Service.SAFE:
            group.agreed = True
        for membership in group.local:
            if to is None or membership.identity in to:
                event = Arrived(
                    membership.number, member.identity, arrived.service, arrived.payloads, group.view, self._conf,
                    arrived.first, arrived.timestamp, arrived.index,
                )  # fmt: skip
                self._give(membership, event, to is None)
        return True

    def _give(self, membership: Membership, event: Shown, noted: bool = True) -> None:
        if self._holding or self._held or self._barrier > self._syncs_heard:
            self._held.append(_Held(membership, membership.identity, event, noted, self._barrier))
        else:
            self._processes.show(membership, membership.identity, event, noted)

    def invariants(self, table: Table) -> None:
        for group in table.groups.values():
            live = [member.number for member in group.members if member.site == self._site and member.live]
            if group.primary and self._lineage.active:
                assert sorted(membership.number for membership in group.local) == sorted(live)


def _has_filter(membership: Membership) -> bool:
    return membership.primary and membership.joined


def _by_identity(member: Member) -> Process:
    return member.identity
