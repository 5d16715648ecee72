"""The members of each group, and what each process of this site sees: what follows from the site's events alone.

Given: every event of the site, in order. Promised: at sites that go on together the same tables, and the same views
and messages in the same order; `due` is what the site has to send before anything else in its configuration.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent, Used
from reconvene.core.groups.early import Early, MessageRun
from reconvene.core.groups.events import Arrived, Process, ViewChanged, ViewId
from reconvene.core.groups.filter import Filter
from reconvene.core.groups.lineage import Claim, Lineage
from reconvene.core.groups.payloads import (
    CONFIRM,
    DATA,
    FIRST_OTHER,
    HEADING,
    JOIN,
    LEAVE,
    LIST,
    SUBSET,
    SYNC,
    TABLE,
    Entry,
    Join,
    Tables,
    decode_join,
    decode_leave,
    decode_proposal,
    decode_subset,
    decode_table,
    encode,
    membership_of,
)
from reconvene.core.groups.processes import Membership, Processes
from reconvene.core.groups.table import Brought, Group, Member, Table
from reconvene.errors import Malformed
from reconvene.ids import ConfigurationId, Service
from reconvene.site_list import NextList

__all__ = ["GroupCounters", "Roster"]


class GroupCounters:
    """What only grows."""

    __slots__ = ("early_dropped", "group_malformed", "tables_exchanged")

    def __init__(self) -> None:
        self.group_malformed = 0
        """Messages that no correct member sends: every site ignores them alike."""
        self.early_dropped = 0
        """Fifo messages that came before their sender was known: too many, or the sender stayed unknown."""
        self.tables_exchanged = 0
        """Configurations whose members exchanged their tables."""


class _Bringer(NamedTuple):
    """The layer that follows the lineage."""

    share: list[LayerEvent]
    ask: Callable[[], bytes]
    most: int
    """How many bytes it may bring."""


class Roster:
    def __init__(self, site: int, sites: int, processes: Processes, lineage: Lineage, filter_: Filter) -> None:
        self.counters = GroupCounters()
        self.settled = False
        """Everyone's table is known in this configuration."""
        self.due: bytes | None = None
        """A safe message that this site has to send."""
        self.proposals: list[NextList] = []
        """For the next version of the cluster's list: delivered, and not yet told to the site."""
        self.proposed = False
        """One was delivered in the present configuration."""
        self._shares: list[list[LayerEvent]] = []
        """What other layers are handed …"""
        self._share_of: dict[int, list[LayerEvent]] = {}
        """… and, by kind, whose messages those are."""
        self._bringer: _Bringer | None = None
        self._me = site
        self._sites = sites
        self._processes = processes
        self._lineage = lineage
        self._filter = filter_
        self._early = Early()
        self._table = Table(sites, processes.table_bytes)
        self._no_routes: list[dict[bytes, Member]] = [{} for _ in range(sites)]
        self._routes = self._no_routes
        """The table's, while it holds."""
        self._number = 0
        self._conf = ""
        self._members: tuple[int, ...] = ()
        self._changes = 0
        """Of all groups without the filter, in this configuration: a group that begins anew has new views."""
        self._transitional: tuple[int, ...] | None = None
        """While the configuration ends: the sites that go on together."""
        self._brought: dict[int, Brought] = {}
        self._used: Used | None = None
        """The frame that is being handled has begun the use of the configuration."""

    @property
    def groups(self) -> dict[str, Group]:
        return self._table.groups

    # -- other layers

    def share(self, kinds: Iterable[int]) -> list[LayerEvent]:
        share: list[LayerEvent] = []
        for kind in kinds:
            assert FIRST_OTHER <= kind < 256, f"kind {kind}: not for other layers"
            assert kind not in self._share_of, f"kind {kind} has an owner"
            self._share_of[kind] = share
        self._shares.append(share)
        return share

    def follow(self, share: list[LayerEvent], ask: Callable[[], bytes], most: int) -> None:
        """From now on `Used` is appended to this share too. `ask` returns what its layer brings into a configuration
        that is installed now, at most so many bytes; it is called after the `Changed` was appended."""
        assert self._bringer is None, "one layer follows the lineage"
        assert not self._number, "before the first configuration"
        self._bringer = _Bringer(share, ask, most)
        self._processes.table_bytes -= most
        self._table = Table(self._sites, self._processes.table_bytes)

    # -- configurations

    def changed(self, event: Changed) -> None:
        for share in self._shares:
            share.append(event)
        match event.kind:
            case ConfKind.HIDDEN:
                if self.settled:
                    self._show_views(ConfKind.HIDDEN, event.conf, event.members)
            case ConfKind.TRANSITIONAL:
                self._conf = event.conf
                self._transitional = event.members
                self._filter.begin_transitional()
                if self.settled:
                    self._show_views(ConfKind.TRANSITIONAL, event.conf, event.members)
            case ConfKind.REGULAR:
                self._install(event)

    def _install(self, event: Changed) -> None:
        assert event.sites is not None, "the site says what the members know of the list"
        # While the list changes, no member uses the configuration before all have stored what they know: their tables
        # say that they have.
        together = self._transitional == event.members and self.settled and event.sites.stable
        alone = self._transitional is None
        self.proposed = False
        self._grow(len(event.sites.names))
        self._transitional = None
        self._number = int(event.conf)
        self._conf = event.conf
        self._members = event.members
        self._changes = 0
        self._brought.clear()
        self.counters.early_dropped += self._early.clear()
        if self._lineage.primary and not self._lineage.active:
            self._filter.disown(self._table)
        self._lineage.install(self._number, event.members, event.sites)
        self._filter.install(event.conf, self._table)
        self.settled = together or alone
        if self.settled:
            self._table.keep(event.members)
            self._show_views(ConfKind.REGULAR, event.conf, event.members)
            self.due = bytes((CONFIRM,)) if self._lineage.primary and event.members[0] == self._me else None
        else:
            self.due = encode(TABLE, self._own_table())
        self._routes = self._table.routes if self.settled else self._no_routes

    def _grow(self, sites: int) -> None:
        """There are so many numbers now."""
        if sites > self._sites:
            self._no_routes += [{} for _ in range(sites - self._sites)]
            self._sites = sites
            self._table.grow(sites)

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
        if self._bringer is not None:
            brought = self._bringer.ask()
            assert len(brought) <= self._bringer.most, (
                f"a layer brings {len(brought)} bytes: at most {self._bringer.most}"
            )
        else:
            brought = b""
        claim = self._lineage.claim()
        return Tables(entries, claim.lineage, claim.memory, claim.active, claim.exit, brought, claim.forgotten)

    def _settle(self) -> None:
        """All tables are here."""
        self.counters.tables_exchanged += 1
        self.settled = True
        table = self._table = Table(self._sites, self._processes.table_bytes)
        refused = table.fill(self._brought)
        self._routes = table.routes
        for site, number in refused:
            if site == self._me:
                self._refuse(self._processes.memberships[number])
        claims = {
            site: Claim(tables.lineage, tables.memory, tables.active, tables.exit, tables.forgotten)
            for site, (_, tables) in self._brought.items()
        }
        brought = {site: self._brought[site].tables.brought for site in sorted(self._brought)}
        self._brought.clear()
        self._lineage.decide(claims)
        self._filter.decide(self._lineage.heirs, table)
        self._show_views(ConfKind.REGULAR, ConfigurationId.regular(self._number), self._members)
        if self._transitional is not None:
            self._show_views(ConfKind.TRANSITIONAL, self._conf, self._transitional)
        if self._lineage.primary:
            self._activate(brought)
        for site, number in self._early.waiting():
            if number in table.members[site]:
                self._deliver_early(site, number)

    def _activate(self, brought: dict[int, bytes] | None) -> None:
        lineage = self._lineage
        lineage.activate()
        conf = ConfigurationId.regular(self._number)
        self._used = Used(self._number, conf, self._members, lineage.heirs, brought)
        self._filter.activate(self._table)

    def _refuse(self, membership: Membership) -> None:
        kind = "has no filter" if membership.primary else "has the primary-component filter"
        self._processes.remove(membership, f"refused: group {membership.group!r} {kind}")

    # -- views of groups without the filter

    def _show_views(self, kind: ConfKind, conf: str, sites: Collection[int]) -> None:
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
            self._show_view(group, kind, conf, sites)

    def _show_view(self, group: Group, kind: ConfKind, conf: str, sites: Collection[int]) -> None:
        members = tuple([member.identity for member in group.members if member.site in sites])
        primary = self._lineage.primary
        for membership in group.local:
            event = ViewChanged(membership.number, kind, group.view, conf, members, primary, membership.owner.process)
            self._processes.show(membership, membership.identity, event)

    def _change(self, group: Group) -> None:
        """A process has joined or left. In a transitional configuration that is seen in the next view."""
        if self._transitional is None:
            self._changes += 1
            group.view = ViewId(self._number, self._changes)
            self._show_view(group, ConfKind.REGULAR, self._conf, self._members)

    # -- messages

    def delivered(self, event: Delivered) -> None:
        payloads = event.payloads
        heading = payloads[0][:HEADING]
        member = self._routes[event.sender].get(heading)
        if member is not None:
            # The fastest way to strip them all and to know that all had it.
            data = [payload.removeprefix(heading) for payload in payloads]
            if sum(map(len, payloads)) - sum(map(len, data)) == HEADING * len(data):
                self._arrived(member, event.service, data, event.first, event.timestamp, 0, None)
                return
        elif len(payloads) == 1 and heading and (share := self._share_of.get(heading[0])) is not None:
            share.append(event)
            return
        self._take_apart(event)

    def _take_apart(self, event: Delivered) -> None:
        """A frame of several kinds or memberships, or of one that is not known (yet)."""
        payloads = event.payloads
        parts: list[tuple[list[LayerEvent], range]] = []
        """Of other layers."""
        used: tuple[int, Used] | None = None
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
                    share = self._share_of.get(kind)
                    while end < len(payloads) and payloads[end] and self._is_of(payloads[end][0], share):
                        end += 1
                    if share is not None:  # else it is of a layer that this site does not have
                        parts.append((share, range(index, end)))
                elif event.service >= Service.AGREED:
                    self._take_request(kind, event.sender, event.incarnation, payloads[index])
                    if self._used is not None:
                        used, self._used = (index, self._used), None
                else:
                    raise Malformed("a request that is not ordered")
            except Malformed:
                self.counters.group_malformed += 1
            index = end
        if parts or used is not None:
            self._share_out(event, parts, used)

    def _share_out(
        self, event: Delivered, parts: list[tuple[list[LayerEvent], range]], used: tuple[int, Used] | None
    ) -> None:
        """Hands each layer all that a frame has for it, at once. `used`: the configuration is used from the frame's
        message of this index on."""
        for share in self._shares:
            indices = [index for owner, part in parts if owner is share for index in part]
            if used is not None and self._bringer is not None and share is self._bringer.share:
                at, begun = used
                _share_part(share, event, [index for index in indices if index < at])
                share.append(begun)
                indices = [index for index in indices if index > at]
            _share_part(share, event, indices)

    def _is_of(self, kind: int, share: list[LayerEvent] | None) -> bool:
        return kind >= FIRST_OTHER and self._share_of.get(kind) is share

    def _run(
        self, event: Delivered, number: int, data: list[bytes], index: int, to: Collection[Process] | None
    ) -> MessageRun:
        first = event.first + index
        return MessageRun(event.sender, number, event.service, data, first, event.timestamp, index, to)

    def _take_run(self, run: MessageRun) -> None:
        member = self._table.members[run.site].get(run.number) if self.settled else None
        if member is not None:
            self._arrived(member, run.service, run.payloads, run.first, run.timestamp, run.index, run.to)
        elif run.service is not Service.FIFO:
            raise Malformed("a message of an unknown membership")
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
                self._processes.add(
                    membership,
                    Arrived(
                        membership.number, member.identity, service, data, group.view, self._conf,
                        first, timestamp, index,
                    ),
                )  # fmt: skip

    # -- joins, leaves, tables

    def _take_request(self, kind: int, site: int, incarnation: int, payload: bytes) -> None:
        """Takes an agreed or safe message of this layer. Raises Malformed, at every site alike."""
        if kind == TABLE:
            self._take_table(site, incarnation, payload)
        elif not self.settled:
            raise Malformed("a request before the tables are exchanged")
        elif kind == JOIN:
            self._take_join(site, incarnation, decode_join(payload))
        elif kind == LEAVE:
            for number in decode_leave(payload).memberships:
                self._take_leave(site, number)
        elif kind == CONFIRM and self._lineage.primary and site == self._members[0]:
            if not self._lineage.active:
                self._activate(None)
        elif kind == LIST and self._lineage.active:
            self._take_proposal(decode_proposal(payload))
        elif kind == SYNC and self._lineage.active:
            if site == self._me:
                self._filter.synced()
        else:
            raise Malformed(f"a message of kind {kind}")

    def _take_proposal(self, proposal: NextList) -> None:
        """One at a time: the first that is delivered while no change is under way."""
        known = self._lineage.sites
        if not proposal.fits(known):
            raise Malformed("a proposal that does not follow the list")
        if known.stable and not self.proposed:
            self.proposed = True
            self.proposals.append(replace(proposal, stamp=self._number))

    def _take_table(self, site: int, incarnation: int, payload: bytes) -> None:
        if self.settled or site in self._brought:
            raise Malformed("a table that is not expected")
        try:
            tables = decode_table(payload)
        except Malformed:
            # The exchange has to end: an undecodable table counts as empty.
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
        if not self.settled:
            return
        self._table.invariants()
        self._lineage.invariants()
        self._filter.invariants(self._table)
        mine = self._table.members[self._me]
        for number, membership in self._processes.memberships.items():
            assert membership.joined == (number in mine), f"membership {number} and the table differ"
            assert not membership.joined or mine[number].identity == membership.identity


def _share_part(share: list[LayerEvent], event: Delivered, indices: list[int]) -> None:
    if len(indices) == len(event.payloads):
        share.append(event)
    elif indices:
        payloads = [event.payloads[index] for index in indices]
        share.append(replace(event, payloads=payloads, indices=tuple(indices)))
