"""Looks at every turn of a simulation whose list of sites changes, and at what each site has on disk.

It knows the rules of docs/sites.md, and nothing of how the protocol keeps them. What breaks one is found under the
rule's name:

    numbers     a number has one name for ever, and a name one number
    versions    a version of the list is one list, wherever it is known
    majorities  a configuration that is used holds a majority of every version that one of its members knew
    stored      a version counts once all members of a configuration have stored it as the next one, and is the base
                once all members of one have stored that it counts
    one         nothing is proposed before the last change is in force
"""

from collections import Counter

from reconvene.core.record import KEY, stored_list
from reconvene.sim.cluster import Cluster
from reconvene.sim.node import Node
from reconvene.site_list import SiteList
from reconvene.stack.stack import Stack

__all__ = ["ListOracle"]


class ListOracle:
    def __init__(self, cluster: Cluster, first: tuple[str, ...]) -> None:
        self._cluster = cluster
        self.found: Counter[str] = Counter()
        self.used: dict[int, tuple[int, ...]] = {}
        self._names: dict[int, str] = dict(enumerate(first))
        self._versions: dict[int, int] = {1: (1 << len(first)) - 1}
        self._bases = {1}
        self._seen: dict[int, SiteList] = {}
        cluster.on_turn(self._turned)

    def _turned(self, node: Node) -> None:
        stack = node.site
        assert isinstance(stack, Stack)
        known = stack.site.sites
        if known is not self._seen.get(node.ordinal):
            self._seen[node.ordinal] = known
            self._look(stack, known)
        lineage = stack.groups._lineage
        if lineage.active and lineage.number not in self.used:
            members = stack.groups._roster._members
            self.used[lineage.number] = members
            there = sum(1 << member for member in members)
            for mask in stack.site.changes.agreed.lists.values():
                self._expect("majorities", 2 * (mask & there).bit_count() > mask.bit_count())

    def _look(self, stack: Stack, known: SiteList) -> None:
        for number, name in enumerate(known.names):
            self._expect("numbers", self._names.setdefault(number, name) == name)
        self._expect("numbers", len(set(self._names.values())) == len(self._names))
        members = stack.groups._roster._members
        for version, mask in known.lists.items():
            if version not in self._versions:
                self._versions[version] = mask
                self._expect("stored", all(self._disk_has(stack, member, version, 1) for member in members))
            self._expect("versions", self._versions[version] == mask)
        if known.base not in self._bases:
            self._bases.add(known.base)
            self._expect("stored", all(self._disk_has(stack, member, known.base, 0) for member in members))
        self._expect("one", known.proposal is None or known.finished)

    def _disk_has(self, stack: Stack, member: int, version: int, proposed: int) -> bool:
        """`proposed`: it is enough that the version is the next one there."""
        stored = stored_list(self._cluster.node(stack.site.names[member]).disk.get(KEY.encode()))
        if stored is None:
            return False
        return stored.newest >= version or (bool(proposed) and stored.proposal is not None)

    def _expect(self, rule: str, holds: bool) -> None:
        if not holds:
            self.found[rule] += 1
