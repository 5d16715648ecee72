"""Process groups on the simulator while an operator changes the list of sites, one restart after the other.

Chaos goes on meanwhile. New versions come before the last one is finished, some sites are never given one, and others
skip some: nothing that an operator does may lead to two primary components.
"""

from dataclasses import dataclass
from itertools import pairwise
from random import Random

from tests.sim.groups_world import MS, GroupSite, World

from reconvene.core.options import Options
from reconvene.core.record import boot, stored_list
from reconvene.sim.core import SiteLike
from reconvene.site_list import SiteList, read_list
from reconvene.stack.turn import Turn

__all__ = ["ListWorld", "Used"]

NODES = 6
_BETWEEN_RESTARTS_NS = 130 * MS
"""On average."""


@dataclass(frozen=True, slots=True)
class Used:
    """A configuration that a site took for the primary component."""

    number: int
    members: tuple[int, ...]
    version: int
    """The newest version of the list that its members knew."""


class ListWorld(World):
    def __init__(self, seed: int, recorded: bool = False) -> None:
        self._operator = Random(f"lists/{seed}")
        self.all_reachable = seed % 2 == 0
        """Else a site knows the addresses of those sites only that its own lists name."""
        self.versions = {1: self._some(3, 5)}
        self.files = [1] * NODES
        self.used: dict[int, Used] = {}
        super().__init__(seed, recorded, NODES)
        self.cluster.loop.at(200 * MS, self._restart_one)
        self.cluster.loop.at(self.scenario.duration_ns + 100 * MS, self._bring_up_to_date)

    def _some(self, least: int, most: int) -> frozenset[int]:
        return frozenset(self._operator.sample(range(NODES), self._operator.randint(least, most)))

    # -- how sites are made

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        known = stored_list(stored)
        version = self.files[ordinal]
        listed = self.versions[version]
        if known is not None and not any(mask >> ordinal & 1 for mask in known.lists.values()):
            known = None if ordinal in listed else known  # its first start as a site of the cluster
        names = self.cluster.names
        return boot(stored, ordinal, token, read_list(known, version, [names[site] for site in listed], names))

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> SiteLike:
        for life in self.lives:
            life.crashed = life.crashed or life.site == ordinal
        known = stored_list(record)
        assert known is not None
        listed = [site for site in range(sites) if any(mask >> site & 1 for mask in known.lists.values())]
        peers = None if self.all_reachable else listed
        return _ListSite(self, options, ordinal, sites, record, now, peers, self.layers(ordinal))

    # -- the operator

    def _restart_one(self, _: None) -> None:
        random = self._operator
        if self.cluster.now >= self.scenario.duration_ns:
            return
        newest = max(self.versions)
        behind = [site for site in sorted(self.versions[newest]) if self.files[site] < newest]
        if random.random() < (0.08 if behind else 0.5) and len(self.versions) < 6:
            newest += 1
            self.versions[newest] = self._some(2, 5)
            behind = sorted(self.versions[newest])
        if behind:
            self._start_with(random.choice(behind), newest)
        later = int(random.expovariate(1 / _BETWEEN_RESTARTS_NS))
        self.cluster.loop.at(self.cluster.now + later, self._restart_one)

    def _bring_up_to_date(self, _: None) -> None:
        """In the end all sites are up and connected, and every site of the newest list has it. The others have what
        they had."""
        self.cluster.heal()
        for node in self.cluster.nodes:
            if not node.up:
                self.cluster.restart(node.name)
        newest = max(self.versions)
        for site in sorted(self.versions[newest]):
            if self.files[site] < newest:
                self._start_with(site, newest)

    def _start_with(self, site: int, version: int) -> None:
        self.files[site] = version
        node = self.cluster.nodes[site]
        if node.up and not node.paused and not node.doomed:
            self.cluster.crash(node.name)
            self.cluster.restart(node.name)

    # -- what came of it

    def note_used(self, used: Used) -> None:
        assert self.used.setdefault(used.number, used) == used, "all members know the same of the list"

    def two_at_once(self) -> list[tuple[Used, Used]]:
        """Configurations that were used one after the other though they share no site: both could go on."""
        order = [self.used[number] for number in sorted(self.used)]
        return [(one, two) for one, two in pairwise(order) if not set(one.members) & set(two.members)]

    def lists(self) -> list[SiteList]:
        """What the sites of the newest list know in the end."""
        nodes = (self.cluster.nodes[site] for site in sorted(self.versions[max(self.versions)]))
        return [node.site.site.sites for node in nodes if isinstance(node.site, _ListSite)]

    def primary(self) -> list[bool]:
        """Whether the sites of the newest list are in the primary component in the end."""
        nodes = (self.cluster.nodes[site] for site in sorted(self.versions[max(self.versions)]))
        return [isinstance(node.site, _ListSite) and node.site.groups._lineage.active for node in nodes]


class _ListSite(GroupSite):
    def flush(self, now: int, time: int, *, asked: bool = True) -> Turn:
        turn = super().flush(now, time, asked=asked)
        lineage = self.groups._lineage
        if lineage.active:
            world = self._world
            assert isinstance(world, ListWorld)
            world.note_used(Used(lineage.number, self.groups._roster._members, lineage.sites.newest))
        return turn
