"""An operator of the log in a simulation: changes the replicas and their quorum, loses disks, gives replicas up.

Given: what to do, how often, and until when. Promised: what it does follows from its own stream of random numbers and
from what the replicas are; what a replica refuses does not happen; no disk is lost that alone has what was ordered,
or that has accepted messages before any other replica knew of it.
"""

from contextlib import suppress
from random import Random

from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.errors import Rejected, Unavailable
from reconvene.quorum import Spec
from reconvene.sim.cluster import Cluster
from reconvene.sim.node import Node
from reconvene.sim.scenario import OperatorPlan
from reconvene.storage.tables import Clear

__all__ = ["Operator", "waits_for_absent"]

MS = 1_000_000
_LOOK_EVERY_NS = 20 * MS
_AWAY_NS = 600 * MS
"""At most so long one is down that has lost its disk."""
_PATIENCE_NS = 1_000 * MS
"""So long those that are left have to come to order by themselves, before they are made to."""


class Operator:
    def __init__(self, cluster: Cluster, plan: OperatorPlan, random: Random) -> None:
        self._cluster = cluster
        self._plan = plan
        self._random = random
        self._stopped = False
        self.changed = 0
        """Changes that were proposed."""
        self.lost = False
        self.forced = False
        if plan.changes:
            self._next(plan.from_ns)
        if plan.lost:
            cluster.loop.at(plan.lost_ns, self._lose)

    def stop(self) -> None:
        """Faults stop. Only what is left to be given up is given up still."""
        self._stopped = True

    # -- changes through the log

    def _next(self, after_ns: int) -> None:
        at = after_ns + int(self._random.expovariate(1 / self._plan.mean_gap_ns))
        if at < self._plan.until_ns:
            self._cluster.loop.at(at, self._act)

    def _act(self, _: None) -> None:
        if self._stopped:
            return
        ordering = [(node, replica) for node, replica in self._replicas() if replica.primary]
        if ordering:
            node, replica = self._random.choice(ordering)
            with suppress(Rejected, Unavailable):
                replica.propose(self._change(replica.replicas))
                self.changed += 1
                node.replicas_changed = True  # a component counts by the set that a pending change would make, too
                node.append(())
        self._next(self._cluster.now)

    def _change(self, replicas: ReplicaSet) -> ReplicaSet:
        """Raises Rejected where there is nobody to add or remove."""
        names = replicas.names()
        kind = self._random.choice(self._plan.changes)
        if kind == "switch":
            return replicas.with_quorum(self._quorum(names))
        if kind == "remove":
            name = self._random.choice(names)
            left = [other for other in names if other != name]
            if len(left) < 2:
                raise Rejected("replicas: too few are left")
            return replicas.removed(name, None if self._random.random() < 0.7 else self._quorum(left))
        outside = [
            name for name in self._cluster.names if replicas.number_of(name) is None and name not in self._plan.lost
        ]
        if not outside:
            raise Rejected("replicas: nobody is left outside")
        name = self._random.choice(outside)
        fits = replicas.quorum["kind"] in ("majority", "dynamic") and "weights" not in replicas.quorum
        return replicas.added(
            name, None if fits and self._random.random() < 0.7 else self._quorum(sorted([*names, name]))
        )

    def _quorum(self, names: list[str]) -> Spec:
        """Half of them dynamic."""
        random = self._random
        weights = {name: random.randint(1, 3) for name in names}
        match random.randrange(6):
            case 0:
                return MAJORITY
            case 1:
                return {"kind": "weighted", "weights": weights}
            case 2:
                cut = random.randint(1, len(names) - 1)
                return {"kind": "grid", "rows": [names[:cut], names[cut:]]}
            case 3:
                return {"kind": "dynamic", "minimum": random.randint(1, 2), "weights": weights}
            case _:
                return {"kind": "dynamic", "minimum": random.randint(1, min(3, len(names)))}

    # -- disks that are lost

    def _lose(self, _: None) -> None:
        if not self._may_lose():
            if not self._stopped:
                self._cluster.loop.at(self._cluster.now + _LOOK_EVERY_NS, self._lose)
            return
        self.lost = True
        if self._plan.torn:
            self._tear()
        for name in self._plan.lost:
            node = self._cluster.node(name)
            if node.up:
                self._cluster.crash(name)
            node.disk.put([Clear(b"\x00", b" ")])  # of the log; the site keeps its own, as if they were two disks
            self._cluster.loop.at(self._cluster.now + self._random.randrange(_AWAY_NS), self._start, node)
        if self._plan.force:
            self._cluster.loop.at(self._cluster.now + _PATIENCE_NS, self._give_up)

    def _may_lose(self) -> bool:
        """One that keeps its disk is in the last primary component, and nobody has tried to make a later one."""
        up = self._replicas()
        if len(up) < len(self._cluster.names):
            return False
        tried = max(replica.record.last_attempted_primary for _, replica in up)
        left = [replica for node, replica in up if node.name not in self._plan.lost]
        if not any(replica.primary == tried > 0 and replica.step == "log: primary" for replica in left):
            return False
        if any(self._unnoticed(replica, left) for node, replica in up if node.name in self._plan.lost):
            return False
        return not self._plan.torn or any(self._in_doubt(replica, tried) for replica in left)

    def _unnoticed(self, replica: Replica, left: list[Replica]) -> bool:
        """It has accepted messages, and nobody would notice that another disk took the place of this one: to those
        that are left that would be its first. The messages would be gone, and the log would go on under the same
        number, which nothing promises to prevent."""
        number = replica.queue.own
        known = any(number is not None and number in other.record.identities for other in left)
        return not known and replica.queue.authored(number) > 0

    def _tear(self) -> None:
        """Those that know that the last primary component was established are parted from all others."""
        tried = max(replica.record.last_attempted_primary for _, replica in self._replicas())
        know = [
            node.name
            for node, replica in self._replicas()
            if replica.primary == tried and node.name not in self._plan.lost
        ]
        self._cluster.partition([know, [name for name in self._cluster.names if name not in know]])

    def _in_doubt(self, replica: Replica, primary: int) -> bool:
        """It committed to this primary component, with the lost ones, and left it before it knew more."""
        record = replica.record
        return (
            record.committed_here == primary
            and replica.primary != primary
            and set(self._plan.lost) <= set(record.commit_members)
            and record.kept is not None
            and record.kept.established.number < primary
        )

    def _start(self, node: Node) -> None:
        if not node.up and not self._stopped:
            self._cluster.restart(node.name)

    def _give_up(self, _: None) -> None:
        """All that are left have to be together for it."""
        left = [(node, replica) for node, replica in self._replicas() if node.name not in self._plan.lost]
        newest = max((replica.replicas for _, replica in left), key=lambda one: one.age, default=None)
        if newest is None or not any(replica.primary for _, replica in left):
            for node, replica in left:
                lost = [name for name in self._plan.lost if replica.replicas.number_of(name) is not None]
                kept = [name for name in replica.replicas.names() if name not in lost]
                if not lost or any(name not in replica.participants for name in kept):
                    continue
                with suppress(Rejected, Unavailable):
                    replica.force(replica.replicas.forced_without(lost))
                    node.append(())
                    self.forced = True
                    break
        if any(replica.replicas.number_of(name) is not None for _, replica in left for name in self._plan.lost):
            self._cluster.loop.at(self._cluster.now + _PATIENCE_NS // 2, self._give_up)

    def _replicas(self) -> list[tuple[Node, Replica]]:
        return _replicas(self._cluster)


def waits_for_absent(cluster: Cluster) -> bool:
    """A change is pending in a primary component, and a replica of the set that it would make is down or elsewhere.
    The log may have to wait for that one, and so does all that comes after the change."""
    for node, replica in _replicas(cluster):
        here = {
            other
            for component in cluster.components()
            if node.name in component
            for other in component
            if cluster.node(other).up
        }
        if replica.primary and any(not here.issuperset(made.names()) for made in replica.pending_sets()[1:]):
            return True
    return False


def _replicas(cluster: Cluster) -> list[tuple[Node, Replica]]:
    return [
        (node, node.log.replica) for node in cluster.nodes if node.up and not node.paused and node.log is not None
    ]
