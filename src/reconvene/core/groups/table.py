"""The members of each group, as all members of a configuration know them alike.

Given: joins, leaves and whole tables in the same order everywhere. Promised: the same groups, with their members in
the same order, everywhere.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from reconvene.core.groups.events import Process, ViewId
from reconvene.core.groups.payloads import DATA, Entry, Join, Tables, heading
from reconvene.core.groups.processes import Membership, weight

__all__ = ["Brought", "Group", "Member", "Table"]


class Brought(NamedTuple):
    """A site's table, and the incarnation that it came from."""

    incarnation: int
    tables: Tables


class Group:
    """A group that has members."""

    __slots__ = ("agreed", "local", "members", "name", "primary", "view")

    def __init__(self, name: str, primary: bool) -> None:
        self.name = name
        self.primary = primary
        """With the virtual-synchrony filter."""
        self.members: list[Member] = []
        self.local: list[Membership] = []
        """Those of this site that have a view: messages are for them."""
        self.view = ViewId(0, 0)
        """The last regular one."""
        self.agreed = False
        """With the filter: messages were delivered in this view that some members may not have."""

    def processes(self) -> tuple[Process, ...]:
        return tuple([member.identity for member in self.members])


class Member:
    __slots__ = ("fresh", "group", "identity", "live", "number", "site")

    def __init__(self, site: int, number: int, group: Group, identity: Process) -> None:
        self.site = site
        self.number = number
        """The membership's, at its site."""
        self.group = group
        self.identity = identity
        self.live = False
        """With the filter: it is in the group's view. Others wait to be merged."""
        self.fresh = 0


class Table:
    def __init__(self, sites: int, table_bytes: int) -> None:
        self.groups: dict[str, Group] = {}
        self.members: list[dict[int, Member]] = [{} for _ in range(sites)]
        """By site, by the membership's number."""
        self.routes: list[dict[bytes, Member]] = [{} for _ in range(sites)]
        """By site, by the heading of the member's messages."""
        self._table_bytes = table_bytes
        self._weights = [0] * sites

    def grow(self, sites: int) -> None:
        """There are so many numbers now."""
        for _ in range(sites - len(self.members)):
            self.members.append({})
            self.routes.append({})
            self._weights.append(0)

    def join(self, site: int, incarnation: int, join: Join) -> Member | None:
        """Returns None where it can't be taken: its group differs about the filter, or no correct site sends it."""
        group = self.groups.get(join.group)
        if join.membership in self.members[site] or self._weights[site] + weight(join.group) > self._table_bytes:
            return None
        if group is None:
            group = self.groups[join.group] = Group(join.group, join.primary)
        elif group.primary != join.primary:
            return None
        return self._add(group, site, join.membership, Process(site, incarnation, join.identity))

    def _add(self, group: Group, site: int, number: int, identity: Process) -> Member:
        member = Member(site, number, group, identity)
        group.members.append(member)
        self.members[site][number] = member
        self.routes[site][heading(DATA, number)] = member
        self._weights[site] += weight(group.name)
        return member

    def leave(self, site: int, number: int) -> Member | None:
        member = self.members[site].pop(number, None)
        if member is None:
            return None
        group = member.group
        del self.routes[site][heading(DATA, number)]
        self._weights[site] -= weight(group.name)
        group.members.remove(member)
        if not group.members:
            del self.groups[group.name]
        return member

    def keep(self, sites: Collection[int]) -> None:
        """All processes of other sites are gone."""
        for site, members in enumerate(self.members):
            if site not in sites:
                members.clear()
                self.routes[site].clear()
                self._weights[site] = 0
        for name, group in list(self.groups.items()):
            group.members = [member for member in group.members if member.site in sites]
            if not group.members:
                del self.groups[name]

    def fill(self, brought: Mapping[int, Brought]) -> list[tuple[int, int]]:
        """Takes a configuration's tables. Returns the (site, membership) of those that must leave their group because
        it is another kind of group for the lowest of its members."""
        refused = []
        for site in sorted(brought):
            incarnation, tables = brought[site]
            for entry in sorted(tables.entries, key=_by_membership):
                joined = self.join(
                    site, incarnation, Join(entry.membership, entry.group, entry.identity, entry.primary)
                )
                if joined is None:
                    refused.append((site, entry.membership))
                else:
                    joined.live = entry.primary and entry.live
                    joined.fresh = entry.fresh
        for group in self.groups.values():
            group.members.sort(key=_by_identity)
        return refused

    def entries(self, site: int) -> list[Member]:
        return list(self.members[site].values())

    def invariants(self) -> None:
        assert sum(map(len, self.members)) == sum(len(group.members) for group in self.groups.values())
        for site, members in enumerate(self.members):
            assert len(self.routes[site]) == len(members)
            assert self._weights[site] == sum(weight(member.group.name) for member in members.values())
        for name, group in self.groups.items():
            assert group.members, f"group {name} has no members"
            identities = group.processes()
            assert len(set(identities)) == len(identities), f"a process is in group {name} twice"


def _by_membership(entry: Entry) -> int:
    return entry.membership


def _by_identity(member: Member) -> Process:
    return member.identity
