"""Process groups over a site's configurations: named groups, views, the four services, messages to some members.

Given by the site: extended virtual synchrony among sites. Promised: every member of a group that goes on with the
others sees the same views and, between two of them, the same messages; docs/groups.md says what else, and how.

A turn is any number of requests and inputs, then one `flush`, as with the site itself. The site is made with
`Options(return_unsent=True)`, and is driven through this class alone.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from reconvene.core.effects import Changed, ConfKind, Delivered, Effects, Event, LayerEvent, Sent
from reconvene.core.groups.events import GroupEvent, Process
from reconvene.core.groups.filter import Filter
from reconvene.core.groups.lineage import Lineage
from reconvene.core.groups.notes import Cast, Note
from reconvene.core.groups.payloads import FIRST_OTHER, JOIN, LEAVE, LIST, SYNC, Join, Leave, encode, subset_heading
from reconvene.core.groups.processes import GroupLimits, Membership, Processes
from reconvene.core.groups.roster import GroupCounters, Roster
from reconvene.core.groups.waiting import Waiting
from reconvene.core.site import Site
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service
from reconvene.site_list import NextList

__all__ = ["GroupCounters", "GroupLimits", "GroupStatus", "Groups"]

_TABLE_OVERHEAD = 1_024
_BROUGHT = 16
"""Of a message with a site's table, this part is for what another layer brings, if one does."""


class GroupStatus(Struct, frozen=True):
    name: str
    members: int
    primary: bool
    """With the virtual-synchrony filter."""


class Groups:
    def __init__(self, site: Site, sites: int, limits: GroupLimits | None = None) -> None:
        """`sites`: how many numbers there are, as for the site."""
        assert site.options.return_unsent, "what is not sent has to come back"
        self.site = site
        table_bytes = site.options.limits.message_bytes - _TABLE_OVERHEAD
        self._processes = Processes(site.ordinal, site.incarnation, limits or GroupLimits(), table_bytes)
        self._lineage = Lineage(site.forgotten)
        self._filter = Filter(site.ordinal, self._processes, self._lineage)
        self._roster = Roster(site.ordinal, sites, self._processes, self._lineage, self._filter)
        self._waiting = Waiting(site)
        self._current: object = None
        """The site's configuration, as far as its events were handled."""

    # -- what a shell asks

    @property
    def settled(self) -> bool:
        """The tables of this configuration are exchanged."""
        return self._roster.settled and self._current is self.site.current

    @property
    def counters(self) -> GroupCounters:
        return self._roster.counters

    @property
    def drained(self) -> bool:
        """All that was taken is sent."""
        return not self._waiting and not len(self.site.outbox)

    def room(self) -> int:
        """How many messages `send` would take now: none while tables are exchanged."""
        return self.site.room() if self._open() and not self._waiting else 0

    def groups(self) -> list[GroupStatus]:
        """By name; while tables are exchanged, as before."""
        groups = self._roster.groups
        return [GroupStatus(name, len(groups[name].members), groups[name].primary) for name in sorted(groups)]

    def record(self) -> None:
        """From now on `take_notes` returns what a recorder needs."""
        self._processes.notes = []
        self._waiting.submitted = deque()

    def take_notes(self) -> list[Note]:
        """What happened in groups with the filter since it was last asked."""
        notes = self._processes.notes or []
        if notes:
            self._processes.notes = []
        return notes

    def _open(self) -> bool:
        """Nothing is sent while tables are exchanged, nor in a primary component before its use is agreed."""
        return self.settled and (self._lineage.active or not self._lineage.primary)

    # -- requests of processes

    def open(self) -> Process:
        """A new process. Raises Unavailable at the limit."""
        return self._processes.open()

    def close(self, process: Process, now: int) -> None:
        """It leaves all its groups, and sees nothing more."""
        left = self._processes.close(process)
        if left:
            self._leave(left, now)

    def join(self, process: Process, group: str, primary: bool, now: int) -> int:
        """Returns the membership's number at once; it begins with its first ViewChanged, or ends with Left.

        `primary`: with the virtual-synchrony filter. Raises Rejected for a bad name, a process that is not open or
        a second membership in a group; Unavailable at a limit.
        """
        membership = self._processes.join(process, group, primary)
        join = Join(membership.number, group, membership.identity.number, primary)
        self._request(primary, encode(JOIN, join), now)
        return membership.number

    def leave(self, membership: int, now: int) -> None:
        """Ends with Left. Raises Rejected where there never was such a membership."""
        found = self._processes.find(membership)
        if found is not None and not found.leaving:
            self._processes.begin_leaving(found)
            self._leave([found], now)

    def _leave(self, memberships: list[Membership], now: int) -> None:
        leave = Leave([membership.number for membership in memberships])
        self._request(any(membership.primary for membership in memberships), encode(LEAVE, leave), now)

    def _request(self, primary: bool, payload: bytes, now: int) -> None:
        # With the filter, views must be the same even at sites that part: no process may see one that others never
        # will. Hence safe.
        service = Service.SAFE if primary else Service.AGREED
        if self.room() > 0:
            self._waiting.submit(service, payload, now)
        else:
            self._waiting.add(service, payload)

    def send(
        self, membership: int, service: Service, payloads: Sequence[bytes], to: tuple[Process, ...] | None, now: int
    ) -> int:
        """Takes as many as there is room for, from the first on, and returns how many: 0 also before the join is
        delivered.

        Raises Rejected (too large, no such membership, to nobody), Unavailable (outside of the primary component).
        """
        found = self._processes.memberships.get(membership)
        if found is None or found.leaving:
            raise Rejected(f"membership {membership}: it is over, or never was")
        if found.blocked:
            raise Unavailable(f"group {found.group!r}: this process is not in its primary component")
        room = self.room()
        if room <= 0 or not found.joined:
            return 0
        if found.primary:
            if found.shown is None:
                return 0  # its first view waits
            # Only the total order puts a message on the same side of every view, everywhere.
            service = max(service, Service.AGREED)
        if len(payloads) > room:
            payloads = payloads[:room]
        if to is None:
            heading = found.heading
            return self._waiting.submit_many(service, [heading + data for data in payloads], membership, now)
        if not to:
            raise Rejected("a message to nobody: expected at least one process")
        heading = subset_heading(membership, to)
        return self._waiting.submit_many(service, [heading + data for data in payloads], 0, now)

    def submit_other(self, service: Service, payloads: Sequence[bytes], now: int) -> int:
        """Takes messages of another layer, of kinds from 16 on, and returns how many. What is not sent when the
        configuration ends comes back as `Effects.unsent`."""
        if any(not payload or payload[0] < FIRST_OTHER for payload in payloads):
            raise Rejected(f"a message of another layer expected to be of kind {FIRST_OTHER} or above")
        if self._current is not self.site.current:
            return 0
        return self._waiting.submit_many(service, payloads, 0, now)

    # -- the cluster's list of sites

    @property
    def used(self) -> bool:
        """The present configuration is primary, and used."""
        return self.settled and self._lineage.active

    def change_list(self, proposal: NextList, now: int) -> None:
        """Proposes the next version of the list to the primary component. It is in force, or lost against another
        one, once `Site.sites` says so; if the configuration ends before it is sent, nothing happens.

        Raises Rejected where a change is under way, Unavailable outside of the primary component.
        """
        if not self.used:
            raise Unavailable("this site is not in the primary component: only that can change the list of sites")
        known = self._lineage.sites
        if not (known.stable and self.site.sites.stable) or self._roster.proposed:
            raise Rejected("a change of the list of sites is under way: one change at a time")
        if not proposal.fits(known):
            raise Rejected("the list of sites has changed meanwhile: look at it again")
        # Safe: where one member has delivered it, all have it, and will deliver it or crash.
        self._request(True, encode(LIST, proposal), now)

    def _renew_list(self, now: int) -> bool:
        """What the members know of the list has changed in this configuration: the next one agrees on it. Returns
        whether this site asked for that. One member does, once it has stored what it knows."""
        site = self.site
        known, agreed = site.sites, site.changes.agreed
        if (
            known.stable
            or not self.used
            or site.members[0] != site.ordinal
            or not site.sites_kept
            or (known.newest, known.proposal is None) == (agreed.newest, agreed.proposal is None)
        ):
            return False
        return site.renew(now)

    # -- other layers

    def share(self, kinds: Iterable[int], brings: Callable[[], bytes] | None = None) -> list[LayerEvent]:
        """Makes these kinds of messages another layer's. From now on its messages and every change of configuration
        are appended to the list that this returns, in their order. The layer empties it.

        `brings`: the layer is also handed `Used`. This is called, after the `Changed` was appended, for what the
        layer brings into a configuration whose members do not all come together: at most `brought_bytes`.
        """
        share = self._roster.share(kinds)
        if brings is not None:
            self._roster.follow(share, brings, self.brought_bytes)
        return share

    @property
    def brought_bytes(self) -> int:
        """The most that a layer can bring into a configuration."""
        return self.site.options.limits.message_bytes // _BROUGHT

    def flush(self, now: int, effects: Effects) -> None:
        """Ends the site's turn, and adds what it brought to `effects`. Where other layers speak after that, it is
        called again, with the same effects."""
        self._flush_site(now, effects)
        while self._speak(now):
            self._flush_site(now, effects)

    def take(self) -> list[tuple[Process, list[GroupEvent]]]:
        """What has happened to each process of this site since it was last asked, in order."""
        return self._processes.take()

    def _speak(self, now: int) -> bool:
        """Submits what this layer has to send to the site. Returns whether that was anything."""
        roster = self._roster
        if roster.due is not None:
            if not self.site.sites_kept:
                return False  # its receivers rely on this site having stored what it knows of the cluster's list
            # Safe: a site that uses the configuration knows that every site that goes on knows it was settled.
            due, roster.due = roster.due, None
            self._waiting.submit(Service.SAFE, due, now)
            return True
        if not self._open():
            return False
        if self._renew_list(now):
            return True
        synced = self._filter.wants_sync and self.site.room() > 0
        if synced:
            self._waiting.submit(Service.SAFE, bytes((SYNC,)), now)
            self._filter.sync_sent()
        return self._waiting.pump(now) or synced

    # -- the site's events

    def _flush_site(self, now: int, effects: Effects) -> None:
        site, events, unsent = self.site, effects.events, effects.unsent
        handled, returned = len(events), len(unsent)
        site.flush(now, effects)
        self._current = site.current
        if len(unsent) > returned:
            unsent[returned:] = self._waiting.come_back(unsent[returned:])
        processes = self._processes
        processes.position = handled
        if len(events) > handled:
            self._handle(events[handled:], now)
        if processes.ended:
            self._waiting.drop(processes.ended)
            processes.ended.clear()

    def _handle(self, events: list[Event], now: int) -> None:
        processes, roster = self._processes, self._roster
        for event in events:
            processes.position += 1
            if type(event) is Delivered:
                roster.delivered(event)
            elif type(event) is Changed:
                roster.changed(event)
                if event.kind is ConfKind.REGULAR:
                    self._waiting.begin()
            elif type(event) is Sent and processes.notes is not None:
                self._sent(event)
        self._take_list_changes(now)

    def _take_list_changes(self, now: int) -> None:
        lineage, roster = self._lineage, self._roster
        if lineage.newly_used is not None:
            (version, number), lineage.newly_used = lineage.newly_used, None
            self.site.used(version, number, now, lineage.newly_chosen)
        if roster.proposals:
            for proposal in roster.proposals:
                self.site.propose(proposal, now)
            roster.proposals.clear()

    def _sent(self, event: Sent) -> None:
        for number, first, count in self._waiting.sent(event):
            membership = self._processes.memberships.get(number)
            if membership is not None and membership.primary and membership.shown is not None:
                self._processes.note(membership, membership.shown, Cast(event.service, first, count))

    def invariants(self) -> None:
        self.site.invariants()
        self._processes.invariants()
        self._roster.invariants()
