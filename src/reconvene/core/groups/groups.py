"""Process groups over a site's configurations: named groups, views, the four services, messages to some members.

Given by the site: extended virtual synchrony among sites. Promised: every member of a group that goes on with the
others sees the same views and, between two of them, the same messages; docs/groups.md says what else, and how.

A turn is any number of requests and inputs, then one `flush`, as with the site itself. The site is made with
`Options(return_unsent=True)`, and is driven through this class alone.
"""

from collections import deque
from collections.abc import Collection, Sequence

from msgspec import Struct

from reconvene.core.effects import Changed, ConfKind, Delivered, Effects, Sent
from reconvene.core.groups.early import Early, Run
from reconvene.core.groups.events import Arrived, GroupEvent, Process, ViewChanged, ViewId
from reconvene.core.groups.filter import Filter, Quorum
from reconvene.core.groups.notes import Cast, Note
from reconvene.core.groups.payloads import (
    CONFIRM,
    DATA,
    FIRST_OTHER,
    HEADING,
    JOIN,
    LEAVE,
    SUBSET,
    TABLE,
    Entry,
    Join,
    Leave,
    Tables,
    decode_join,
    decode_leave,
    decode_subset,
    decode_table,
    encode,
    membership_of,
    subset_heading,
)
from reconvene.core.groups.processes import GroupLimits, Membership, Processes
from reconvene.core.groups.table import Brought, Group, Member, Table
from reconvene.core.groups.waiting import Waiting
from reconvene.core.site import Site
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import Service

__all__ = ["GroupCounters", "GroupLimits", "GroupStatus", "Groups"]

_TABLE_OVERHEAD = 1_024


class GroupStatus(Struct, frozen=True):
    name: str
    members: int
    primary: bool
    """With the virtual-synchrony filter."""


class GroupCounters:
    """What only grows."""

    __slots__ = ("early_dropped", "group_malformed", "tables_exchanged")

    def __init__(self) -> None:
        self.group_malformed = 0
        """Messages of members that no honest one sends: ignored by everyone alike."""
        self.early_dropped = 0
        """Fifo messages that came before their sender was known, and were too many or never explained."""
        self.tables_exchanged = 0
        """Configurations whose members told each other their tables."""


class Groups:
    def __init__(
        self, site: Site, sites: int, limits: GroupLimits | None = None, quorum: Quorum | None = None
    ) -> None:
        """`quorum` tells which sites make up a primary component: more than half of them unless told otherwise."""
        assert site.options.return_unsent, "what is not sent has to come back"
        self.site = site
        self.counters = GroupCounters()
        self.others: list[tuple[int, Delivered]] = []
        """Messages of other layers that the last flush brought; each with its first one's index in its frame."""
        self._sites = sites
        self._me = site.ordinal
        self._table_bytes = site.options.limits.message_bytes - _TABLE_OVERHEAD
        self._quorum: Quorum = quorum or (lambda members: 2 * len(members) > sites)
        self._processes = Processes(site.ordinal, site.incarnation, limits or GroupLimits(), self._table_bytes)
        self._filter = Filter(site.ordinal, self._processes, self._quorum)
        self._waiting = Waiting(site)
        self._early = Early()
        self._table = Table(sites, self._table_bytes)
        self._nobody: list[dict[bytes, Member]] = [{} for _ in range(sites)]
        self._routes = self._nobody
        """The table's, while it holds."""
        self._settled = False
        self._current: object = None
        """The site's configuration, as far as its events were handled."""
        self._number = 0
        self._conf = ""
        self._members: tuple[int, ...] = ()
        self._changes = 0
        """Of all groups without the filter, in this configuration: a group that begins anew has new views."""
        self._transitional: tuple[int, ...] | None = None
        """While the configuration ends: who goes on together."""
        self._brought: dict[int, Brought] = {}
        self._due: bytes | None = None
        """What this site has to tell before anything else in this configuration."""

    # -- what a shell asks

    @property
    def settled(self) -> bool:
        """The tables of this configuration are exchanged."""
        return self._settled and self._current is self.site.current

    @property
    def drained(self) -> bool:
        """All that was taken is sent."""
        return not self._waiting and not len(self.site.outbox)

    def room(self) -> int:
        """How many messages `send` would take now: none while tables are exchanged."""
        return self.site.room() if self._open() and not self._waiting else 0

    def deadline(self) -> int:
        return self.site.deadline()

    def groups(self) -> list[GroupStatus]:
        """By name; while tables are exchanged, as before."""
        groups = self._table.groups
        return [GroupStatus(name, len(groups[name].members), groups[name].primary) for name in sorted(groups)]

    def record(self) -> None:
        """From now on `take_notes` has what a recorder needs."""
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
        return self.settled and (self._filter.active or not self._filter.primary)

    # -- requests of processes

    def open(self) -> Process:
        """A new process. Raises Unavailable at the limit."""
        return self._processes.open()

    def close(self, process: Process, now: int) -> None:
        """It leaves all its groups, and is told nothing more."""
        left = self._processes.close(process)
        if left:
            self._leave(left, now)

    def join(self, process: Process, group: str, primary: bool, now: int) -> int:
        """Gives the membership's number at once; it begins with its first ViewChanged, or ends with Left.

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
        # Where views may not differ even at sites that part, nobody may see one that others never will: safe.
        service = Service.SAFE if primary else Service.AGREED
        if self.room() > 0:
            self._waiting.submit(service, payload, now)
        else:
            self._waiting.add(service, payload)

    def send(
        self, membership: int, service: Service, payloads: Sequence[bytes], to: tuple[Process, ...] | None, now: int
    ) -> int:
        """Takes as many as there is room for, from the first on; gives how many: 0 also before the join is delivered.

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
        if found.primary and service < Service.AGREED:
            # Only the total order puts a message on the same side of every view, everywhere.
            service = Service.AGREED
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
        """Takes messages of another layer, of kinds from 16 on; gives how many. What the configuration's end leaves
        unsent comes back as `Effects.unsent`."""
        if any(not payload or payload[0] < FIRST_OTHER for payload in payloads):
            raise Rejected(f"a message of another layer expected to be of kind {FIRST_OTHER} or above")
        if self._current is not self.site.current:
            return 0
        return self._waiting.submit_many(service, payloads, 0, now)

    # -- inputs

    def receive(self, data: bytes, now: int) -> None:
        self.site.receive(data, now)

    def synced(self, token: int, now: int) -> None:
        self.site.synced(token, now)

    def tick(self, now: int) -> None:
        self.site.tick(now)

    def leave_cluster(self, now: int) -> None:
        self.site.leave(now)

    def flush(self, now: int) -> tuple[Effects, list[tuple[Process, list[GroupEvent]]]]:
        """Ends the turn: what is to be done, and what happened to each local process, in order."""
        self.others = []
        self._processes.position = 0
        effects = self.site.flush(now)
        self._handle(effects)
        while self._speak(now):
            more = self.site.flush(now)
            self._handle(more)
            effects.persist += more.persist
            effects.events += more.events
            effects.datagrams += more.datagrams
            effects.unsent += more.unsent
        return effects, self._processes.take()

    def _speak(self, now: int) -> bool:
        """Hands the site what this layer has to say; tells whether that was anything."""
        if self._due is not None:
            # Safe: who uses the configuration knows that nobody who goes on can miss that it was settled.
            due, self._due = self._due, None
            self._waiting.submit(Service.SAFE, due, now)
            return True
        return self._open() and self._waiting.pump(now)

    # -- the site's events

    def _handle(self, effects: Effects) -> None:
        self._current = self.site.current
        if effects.unsent:
            effects.unsent = self._waiting.come_back(effects.unsent)
        processes = self._processes
        for event in effects.events:
            processes.position += 1
            if type(event) is Delivered:
                self._delivered(event)
            elif type(event) is Changed:
                self._changed(event)
            elif type(event) is Sent and processes.notes is not None:
                self._sent(event)
        if processes.ended:
            self._waiting.drop(processes.ended)
            processes.ended.clear()

    def _sent(self, event: Sent) -> None:
        for number, first, count in self._waiting.sent(event):
            membership = self._processes.memberships.get(number)
            if membership is not None and membership.primary and membership.shown is not None:
                self._processes.note(membership, membership.shown, Cast(event.service, first, count))

    def _changed(self, event: Changed) -> None:
        match event.kind:
            case ConfKind.HIDDEN:
                if self._settled:
                    self._tell_views(ConfKind.HIDDEN, event.conf, event.members)
            case ConfKind.TRANSITIONAL:
                self._conf = event.conf
                self._transitional = event.members
                self._filter.begin_transitional()
                if self._settled:
                    self._tell_views(ConfKind.TRANSITIONAL, event.conf, event.members)
            case ConfKind.REGULAR:
                self._install(event)

    def _install(self, event: Changed) -> None:
        together = self._transitional == event.members and self._settled
        alone = self._transitional is None
        self._transitional = None
        self._number = int(event.conf)
        self._conf = event.conf
        self._members = event.members
        self._changes = 0
        self._brought.clear()
        self.counters.early_dropped += self._early.clear()
        if self._waiting.submitted:
            self._waiting.submitted.clear()
        self._filter.install(self._number, event.members, self._table)
        self._settled = together or alone
        if self._settled:
            self._table.keep(event.members)
            self._tell_views(ConfKind.REGULAR, event.conf, event.members)
            self._due = bytes((CONFIRM,)) if self._filter.primary and event.members[0] == self._me else None
        else:
            self._routes = self._nobody
            self._due = encode(TABLE, self._own_table())
        self._routes = self._table.routes if self._settled else self._nobody

    def _own_table(self) -> Tables:
        entries = []
        for member in self._table.entries(self._me):
            membership = self._processes.memberships[member.number]
            fresh = self._processes.reserve(membership) if member.live else 0
            entries.append(
                Entry(
                    member.number, member.group.name, member.identity.number, member.group.primary, member.live, fresh
                )
            )
        known = self._filter
        return Tables(entries, known.lineage, known.memory, known.used, known.exit)

    def _settle(self) -> None:
        """All tables are here."""
        self.counters.tables_exchanged += 1
        self._settled = True
        table = self._table = Table(self._sites, self._table_bytes)
        refused = table.fill(self._brought)
        self._routes = table.routes
        for site, number in refused:
            if site == self._me:
                self._refuse(self._processes.memberships[number])
        self._filter.decide(self._brought, table)
        self._brought.clear()
        regular = str(self._number)
        self._tell_views(ConfKind.REGULAR, regular, self._members)
        if self._transitional is not None:
            self._tell_views(ConfKind.TRANSITIONAL, self._conf, self._transitional)
        if self._filter.primary:
            self._filter.activate(table)
        for site, number in self._early.waiting():
            if number in table.members[site]:
                self._deliver_early(site, number)

    def _refuse(self, membership: Membership) -> None:
        kind = "has no filter" if membership.primary else "has the primary-component filter"
        self._processes.remove(membership, f"refused: group {membership.group!r} {kind}")

    # -- views of groups without the filter

    def _tell_views(self, kind: ConfKind, conf: str, sites: Collection[int]) -> None:
        """Of every group. A regular one begins a configuration."""
        mine = self._table.members[self._me]
        groups = {member.group.name: member.group for member in mine.values() if not member.group.primary}
        if kind is ConfKind.REGULAR:
            for group in self._table.groups.values():
                if not group.primary:
                    group.view = ViewId(self._number, 0)
                    group.local = []
            for member in mine.values():
                if not member.group.primary:
                    member.group.local.append(self._processes.memberships[member.number])
        for group in groups.values():
            self._tell_view(group, kind, conf, sites)

    def _tell_view(self, group: Group, kind: ConfKind, conf: str, sites: Collection[int]) -> None:
        members = tuple([member.identity for member in group.members if member.site in sites])
        primary = self._filter.primary
        for membership in group.local:
            event = ViewChanged(membership.number, kind, group.view, conf, members, primary, membership.owner.process)
            self._processes.show(membership, membership.identity, event)

    def _change(self, group: Group) -> None:
        """A process has joined or left. In a transitional configuration that is seen in the next view."""
        if self._transitional is None:
            self._changes += 1
            group.view = ViewId(self._number, self._changes)
            self._tell_view(group, ConfKind.REGULAR, self._conf, self._members)

    # -- messages

    def _delivered(self, event: Delivered) -> None:
        payloads = event.payloads
        heading = payloads[0][:HEADING]
        member = self._routes[event.sender].get(heading)
        if member is not None:
            data = [payload[HEADING:] for payload in payloads if payload.startswith(heading)]
            if len(data) == len(payloads):
                self._arrived(member, event.service, data, event.first, event.timestamp, 0, None)
                return
        self._take_apart(event)

    def _take_apart(self, event: Delivered) -> None:
        """A frame of several kinds or memberships, or of one that is not known (yet)."""
        payloads = event.payloads
        index = 0
        while index < len(payloads):
            end = index + 1
            kind = payloads[index][0] if payloads[index] else 0
            try:
                if kind == DATA:
                    number = membership_of(payloads[index])
                    heading = payloads[index][:HEADING]
                    while end < len(payloads) and payloads[end].startswith(heading):
                        end += 1
                    data = [payload[HEADING:] for payload in payloads[index:end]]
                    self._take_run(self._run(event, number, data, index, None))
                elif kind == SUBSET:
                    number = membership_of(payloads[index])
                    to, content = decode_subset(payloads[index])
                    self._take_run(self._run(event, number, [content], index, to))
                elif kind >= FIRST_OTHER:
                    while end < len(payloads) and payloads[end] and payloads[end][0] >= FIRST_OTHER:
                        end += 1
                    self.others.append((index, _part(event, index, end)))
                elif event.service >= Service.AGREED:
                    self._take_request(kind, event.sender, event.incarnation, payloads[index])
                else:
                    raise Malformed("a request that is not ordered")
            except Malformed:
                self.counters.group_malformed += 1
            index = end

    def _run(
        self, event: Delivered, number: int, data: list[bytes], index: int, to: Collection[Process] | None
    ) -> Run:
        first = event.first + index
        return Run(event.sender, number, event.service, data, first, event.timestamp, index, to)

    def _take_run(self, run: Run) -> None:
        member = self._table.members[run.site].get(run.number) if self._settled else None
        if member is not None:
            self._arrived(member, run.service, run.payloads, run.first, run.timestamp, run.index, run.to)
        elif run.service is not Service.FIFO:
            raise Malformed("a message of nobody")
        elif not self._early.hold(run):
            self.counters.early_dropped += len(run.payloads)

    def _deliver_early(self, site: int, number: int) -> None:
        for run in self._early.take(site, number):
            member = self._table.members[site][number]
            self._arrived(member, run.service, run.payloads, run.first, run.timestamp, run.index, run.to)

    def _arrived(
        self,
        member: Member,
        service: Service,
        data: list[bytes],
        first: int,
        timestamp: tuple[int, ...] | None,
        index: int,
        to: Collection[Process] | None,
    ) -> None:
        group = member.group
        if group.primary:
            arrived = Arrived(0, member.identity, service, data, group.view, self._conf, first, timestamp, index)
            if not self._filter.arrived(member, arrived, to):
                self.counters.group_malformed += 1
            return
        for membership in group.local:
            if to is None or membership.identity in to:
                self._processes.tell(
                    membership,
                    Arrived(
                        membership.number, member.identity, service, data, group.view, self._conf,
                        first, timestamp, index,
                    ),
                )  # fmt: skip

    # -- joins, leaves, tables

    def _take_request(self, kind: int, site: int, incarnation: int, payload: bytes) -> None:
        """An agreed or safe message of this layer. Raises Malformed, alike everywhere."""
        if kind == TABLE:
            self._take_table(site, incarnation, payload)
        elif not self._settled:
            raise Malformed("a request before the tables are exchanged")
        elif kind == JOIN:
            self._take_join(site, incarnation, decode_join(payload))
        elif kind == LEAVE:
            for number in decode_leave(payload).memberships:
                self._take_leave(site, number)
        elif kind == CONFIRM and self._filter.primary and site == self._members[0]:
            if not self._filter.active:
                self._filter.activate(self._table)
        else:
            raise Malformed(f"a message of kind {kind}")

    def _take_table(self, site: int, incarnation: int, payload: bytes) -> None:
        if self._settled or site in self._brought:
            raise Malformed("a table that nobody waits for")
        try:
            tables = decode_table(payload)
        except Malformed:
            # The exchange has to end: who tells nonsense has nobody.
            self.counters.group_malformed += 1
            tables = Tables()
        self._brought[site] = Brought(incarnation, tables)
        if len(self._brought) == len(self._members):
            self._settle()

    def _take_join(self, site: int, incarnation: int, join: Join) -> None:
        membership = self._processes.memberships.get(join.membership) if site == self._me else None
        member = self._table.join(site, incarnation, join)
        if member is None:
            if membership is None or membership.joined:
                return
            self._refuse(membership)
            return
        if membership is not None:
            membership.joined = True
        if join.primary:
            self._filter.joined(member)
        else:
            if membership is not None and self._transitional is None:
                member.group.local.append(membership)
            self._change(member.group)
        if self._early:
            self._deliver_early(site, join.membership)

    def _take_leave(self, site: int, number: int) -> None:
        member = self._table.leave(site, number)
        if member is None:
            return
        group = member.group
        if group.primary:
            self._filter.left(member)
        if site == self._me:
            group.local = [membership for membership in group.local if membership.number != number]
            self._processes.remove(self._processes.memberships[number], "left")
        if not group.primary:
            self._change(group)

    def invariants(self) -> None:
        self.site.invariants()
        self._processes.invariants()
        if not self._settled:
            return
        self._table.invariants()
        self._filter.invariants(self._table)
        mine = self._table.members[self._me]
        for number, membership in self._processes.memberships.items():
            assert membership.joined == (number in mine), f"membership {number} and the table differ"
            assert not membership.joined or mine[number].identity == membership.identity


def _part(event: Delivered, start: int, end: int) -> Delivered:
    if start == 0 and end == len(event.payloads):
        return event
    return Delivered(
        event.conf, event.sender, event.incarnation, event.service, event.first + start, event.payloads[start:end],
        event.timestamp,
    )  # fmt: skip
