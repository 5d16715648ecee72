"""Who has joined wide groups: in this cluster, and as every connected cluster has told above (ROSTER).

Given: the cluster's joins and leaves at their places in its order; rosters of all clusters at their places above.
Promised: sites of the same wide configuration that are at the same place above know the same rosters. A wide
configuration begins with none: each representative tells its own again, so that those who met know the same.
"""

from collections.abc import Iterable, Sequence

from reconvene.domains.messages import MOST_MEMBERS, Joined, Roster

__all__ = ["Local", "Rosters", "size_of"]

_HEADER_BYTES = 12
"""Of a group and of a process in a list."""


class Local:
    """Processes of this cluster in wide groups: the same at all its sites, at the same place of their order."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._joined: set[Joined] = set()
        self._bytes = 0

    def apply(self, one: Joined, joins: bool) -> bool:
        """Returns whether that changed anything. At the limits nobody joins, at any site."""
        if joins == (one in self._joined) or (joins and not self._fits(one)):
            return False
        if joins:
            self._joined.add(one)
            self._bytes += size_of(one)
        else:
            self._joined.discard(one)
            self._bytes -= size_of(one)
        return True

    def _fits(self, one: Joined) -> bool:
        return len(self._joined) < MOST_MEMBERS and self._bytes + size_of(one) <= self._most_bytes

    def meet(self, parts: Iterable[tuple[Sequence[int], Iterable[Joined]]]) -> None:
        """Parts come together; each speaks for its own sites."""
        self._joined, self._bytes = set(), 0
        for one in sorted({one for members, joined in parts for one in joined if one.site in members}):
            self.apply(one, joins=True)

    def of_part(self, members: Sequence[int]) -> list[Joined]:
        return sorted(one for one in self._joined if one.site in members)

    def of_site(self, site: int) -> list[Joined]:
        return sorted(one for one in self._joined if one.site == site)

    def groups(self) -> dict[str, list[str]]:
        """By group its processes, sorted."""
        found: dict[str, list[str]] = {}
        for one in sorted(self._joined):
            found.setdefault(one.group, []).append(one.process)
        return {group: sorted(processes) for group, processes in found.items()}


def size_of(one: Joined) -> int:
    """Of a roster, at most."""
    return len(one.group.encode()) + len(one.process.encode()) + _HEADER_BYTES


class Rosters:
    """What was told in one configuration above, up to a place."""

    def __init__(self, told: Iterable[Roster] = ()) -> None:
        self._told: dict[tuple[str, int], Roster] = {}
        """By domain and local configuration: a cluster that has parted tells one for each part."""
        for roster in told:
            self.apply(roster)

    def apply(self, roster: Roster) -> None:
        """It takes the place of those of local configurations that have sites in common with its own; if one of these
        is newer, it is out of date itself."""
        sites = set(roster.sites)
        shared = [
            key for key, told in self._told.items() if key[0] == roster.domain and not sites.isdisjoint(told.sites)
        ]
        if any(self._told[key].age > roster.age for key in shared):
            return
        for key in shared:
            del self._told[key]
        self._told[roster.domain, roster.conf] = roster

    @property
    def domains(self) -> frozenset[str]:
        return frozenset(domain for domain, _ in self._told)

    def has(self, domain: str, conf: int) -> bool:
        return (domain, conf) in self._told

    def all(self) -> list[Roster]:
        return [self._told[key] for key in sorted(self._told)]

    def views(self) -> dict[str, tuple[str, ...]]:
        """By group its members: DOMAIN/LOCAL-CONFIGURATION/PROCESS, sorted."""
        found: dict[str, list[str]] = {}
        for roster in self.all():
            for group, processes in roster.groups:
                found.setdefault(group, []).extend(f"{roster.domain}/{roster.conf}/{one}" for one in processes)
        return {group: tuple(sorted(found[group])) for group in sorted(found)}
