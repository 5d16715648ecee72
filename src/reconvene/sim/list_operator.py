"""An operator who adds sites to a simulated cluster and removes them, while all else goes on.

Given: which site is to be added or removed. Promised: it asks a site in the primary component again and again, any of
them that would take it, until the change is in force; where there is a log, a site that is added becomes a replica
after that, and one that is removed is no replica any more before. Which site it asks follows from its own stream of
random numbers. After `stop` nothing more is asked: what is under way comes to its end by itself.
"""

from random import Random

from reconvene.errors import Rejected, Unavailable
from reconvene.list_change import AddSite, ListChange, RemoveSite, next_list
from reconvene.sim.cluster import Cluster
from reconvene.sim.node import Node
from reconvene.site_list import SiteList
from reconvene.stack.stack import Stack

__all__ = ["ListOperator"]

MS = 1_000_000
_LOOK_EVERY_NS = 25 * MS
_PATIENCE_NS = 400 * MS
"""So long it waits for a change that it has asked for, before it asks again."""


class ListOperator:
    def __init__(self, cluster: Cluster, first: tuple[str, ...], random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._stopped = False
        self.listed = set(first)
        """The sites that are in the list once all that was asked is done."""
        self._ever = set(first)
        self._wanted: list[ListChange] = []
        self._asked_at: dict[str, int] = {}
        self.finished = 0
        """Changes that are in force."""

    def stop(self) -> int:
        """Returns how many changes are given up: no site has taken them."""
        self._stopped = True
        given_up = [change for change in self._wanted if change.name not in self._asked_at]
        return len(given_up)

    def add(self, name: str) -> bool:
        """Returns False if it can't be: the name was in the list before."""
        if name in self._ever:
            return False
        self._ever.add(name)
        self.listed.add(name)
        self._cluster.node(name).await_list()
        self._want(AddSite(name, name))
        return True

    def remove(self, name: str) -> bool:
        """Returns False if it can't be: it is not in the list, or is the only site there."""
        if name not in self.listed or len(self.listed) == 1:
            return False
        self.listed.discard(name)
        self._want(RemoveSite(name))
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """Those that were never in the list."""
        return tuple(name for name in self._cluster.names if name not in self._ever)

    def _want(self, change: ListChange) -> None:
        self._wanted.append(change)
        self._cluster.loop.at(self._cluster.now, self._look, change)

    def _look(self, change: ListChange) -> None:
        if self._stopped:
            return
        if self._done(change):
            self._wanted.remove(change)
            self.finished += 1
            return
        if self._cluster.now >= self._asked_at.get(change.name, -_PATIENCE_NS) + _PATIENCE_NS:
            self._ask(change)
        later = self._random.randrange(_LOOK_EVERY_NS // 2, 2 * _LOOK_EVERY_NS)
        self._cluster.loop.at(self._cluster.now + later, self._look, change)

    def _done(self, change: ListChange) -> bool:
        """The newest base that a site has stored has it, and so has the log."""
        found = [stack.site.sites for _, stack in self._stacks()]
        newest = max(found, key=lambda known: known.base, default=None)
        if newest is None or not _has(newest, change):
            return False
        return isinstance(change, RemoveSite) or not self._replicas_lack(change.name)

    def _replicas_lack(self, name: str) -> bool:
        logs = [node.log.replica.replicas for node, _ in self._stacks() if node.log is not None]
        newest = max(logs, key=lambda replicas: replicas.age, default=None)
        return newest is not None and newest.number_of(name) is None

    def _ask(self, change: ListChange) -> None:
        stacks = [(node, stack) for node, stack in self._stacks() if stack.groups.used and not node.paused]
        if not stacks:
            return
        node, stack = self._random.choice(stacks)
        known = stack.site.sites
        try:
            if self._ask_log(node, known, change):
                return
            if not _has(known, change):
                proposal = next_list(known, change, stack.site.members, list(known.names))
                stack.groups.change_list(proposal, node.now)
                self._asked_at[change.name] = self._cluster.now
                node.wake()
        except (Rejected, Unavailable):
            return  # not now, or not there: another try comes

    def _ask_log(self, node: Node, known: SiteList, change: ListChange) -> bool:
        """Whether the log has to change first."""
        if node.log is None:
            return False
        replica = node.log.replica
        is_replica = replica.replicas.number_of(change.name) is not None
        if isinstance(change, RemoveSite) != is_replica or (isinstance(change, AddSite) and not _has(known, change)):
            return False
        if replica.primary:
            replicas = replica.replicas
            replica.propose(replicas.removed(change.name) if is_replica else replicas.added(change.name))
            node.replicas_changed = True
            node.append(())
        return True

    def _stacks(self) -> list[tuple[Node, Stack]]:
        found: list[tuple[Node, Stack]] = []
        for node in self._cluster.nodes:
            stack = node.site
            if isinstance(stack, Stack):
                found.append((node, stack))
        return found


def _has(known: SiteList, change: ListChange) -> bool:
    """The list has this change, and nothing else counts."""
    return known.finished and (change.name in known.sites(known.newest)) == isinstance(change, AddSite)
