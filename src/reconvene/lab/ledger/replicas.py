"""What applications appended in a simulation, compared at the end with what the replicas hold.

A trace shows which messages are green at which replica. It does not show their content, nor what else is in a
replica's queue, nor how much a restarted replica has green. This ledger checks all of that.

Given: a cluster before it runs. Promised: every difference, in words, once the run has settled.
"""

from collections.abc import Callable, Collection, Iterable

from reconvene.corel.batch import Heading, Kind, messages_of
from reconvene.corel.replica import Replica
from reconvene.ids import message_id
from reconvene.lab.ledger.compare import first_difference, repeated
from reconvene.quorum import Spec, make_quorum
from reconvene.sim.cluster import Cluster
from reconvene.sim.log_site import LogSite
from reconvene.sim.node import Node
from reconvene.sim.outpost import OutpostNode

__all__ = ["ReplicaLedger"]


class ReplicaLedger:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._appended: dict[str, bytes] = {}
        self.cases = 0
        """Green messages that were compared with what was appended."""
        self.accepted = 0
        """Messages that a replica reported as accepted."""
        self.ordered = 0
        """Accepted messages that are green at a replica in the end."""
        cluster.on_append(self._append)

    def _append(self, node: Node | OutpostNode, first: int, messages: list[bytes]) -> None:
        if isinstance(node, OutpostNode):
            author, incarnation = node.name, node.incarnation
        else:
            replica = self._replica(node.name)
            assert node.site is not None, "it has just taken them"
            assert replica is not None
            assert replica.own is not None
            author, incarnation = replica.name_of(replica.own), node.site.incarnation
        for place, message in enumerate(messages):
            self._appended[message_id(author, incarnation, first + place)] = message

    def problems(self, quorum: Spec) -> list[str]:
        """What is wrong once the run has settled, one line each."""
        cluster = self._cluster
        holds = self._must_order(quorum)
        found: list[str] = []
        longest: list[str] = []
        for component in cluster.components():
            replicas = {name: replica for name in component if (replica := self._part(name)) is not None}
            green = {name: self._green(name, replica, found) for name, replica in replicas.items()}
            for name, ids in green.items():
                if (at := first_difference(ids, longest)) is not None:
                    found.append(f"{name} has {ids[at]} at {at}, where another replica has {longest[at]}")
                longest = max(longest, ids, key=len)
            found += self._unequal(replicas, green)
            has = {name: {*green[name], *self._pending(replica)} for name, replica in replicas.items()}
            found += self._lacking(has)
            if holds(list(replicas)) and _holds_pending(replicas):
                for name, replica in replicas.items():
                    found += [f"{name}: {message} is not green" for message in self._pending(replica)]
                    if not replica.primary:
                        found.append(f"{name} does not order: {replica.why}")
        for follower in cluster.followers:
            if follower.pulling is not None:
                ids = self._green(follower.name, follower.pulling.follower, found)
                if (at := first_difference(ids, longest)) is not None:
                    found.append(f"{follower.name} has {ids[at]} at {at}, where a replica has {longest[at]}")
                line, source = max(self._lines(follower.name), default=(0, ""))
                if follower.pulling.follower.green < line:
                    found.append(f"{follower.name} has {len(ids)} messages, and {source}, connected to it, {line}")
        accepted = {message for name in cluster.names for message in self._accepted(name)}
        self.accepted, self.ordered = len(accepted), len(accepted.intersection(longest))
        return found

    def _lines(self, follower: str) -> Iterable[tuple[int, str]]:
        """Green lines of the replicas that are connected to this follower. The trace does not show them: after a
        restart a green line may be behind what was recorded."""
        for component in self._cluster.components():
            for name in component if follower in component else ():
                if (replica := self._replica(name)) is not None:
                    yield replica.green, name

    def _replica(self, name: str) -> Replica | None:
        if name not in self._cluster.names:
            return None  # a process beside the nodes
        log = self._cluster.node(name).log
        assert log is None or isinstance(log, LogSite), "a cluster that keeps the log"
        return None if log is None else log.replica

    def _part(self, name: str) -> Replica | None:
        """None where it is down, or has no part in the log any more."""
        replica = self._replica(name)
        return replica if replica is not None and replica.left_out is None else None

    def _must_order(self, quorum: Spec) -> Callable[[Collection[str]], bool]:
        """Which replicas have to order in the end. Where the set of them was changed: all of the newest."""
        every = [replica for name in self._cluster.names if (replica := self._replica(name)) is not None]
        newest = max((replica.replicas for replica in every), key=lambda one: one.age, default=None)
        if newest is None or newest.age == (0, 0):
            return make_quorum(quorum, self._cluster.names).holds
        return frozenset(newest.names()).issubset

    def _ids(self, replica: Replica, heading: Heading) -> list[str]:
        author = replica.name_of(heading.author)
        return [message_id(author, heading.incarnation, heading.first + place) for place in range(heading.count)]

    def _pending(self, replica: Replica) -> list[str]:
        return [message for entry in replica.queue.pending() for message in self._ids(replica, entry.heading)]

    def _green(self, name: str, replica: Replica, found: list[str]) -> list[str]:
        """The replica's green messages; what is wrong with them is added to `found`."""
        ids: list[str] = []
        for position, heading in replica.read(replica.base):
            if position != len(ids):
                found.append(f"{name}: a batch at {position}, where {len(ids)} was expected")
            batch = self._ids(replica, heading)
            ids += batch
            if heading.kind is Kind.CHANGE:
                continue  # an operator's
            appended = _outposts_ids(replica, heading) or batch
            for message, data in zip(appended, messages_of(replica.body(heading)), strict=True):
                self.cases += 1
                if self._appended.get(message) != data:
                    found.append(f"{name}: {message} is not what was appended")
        found += [f"{name}: {message} is green {times} times" for message, times in repeated(ids).items()]
        if len(ids) != replica.green:
            found.append(f"{name}: {len(ids)} messages are green, and the line is at {replica.green}")
        return ids

    def _unequal(self, replicas: dict[str, Replica], green: dict[str, list[str]]) -> list[str]:
        """Replicas of one component have equal queues, and have sent every message that they accepted."""
        found: list[str] = []
        first: tuple[str, list[str], list[str], list[str]] | None = None
        for name, replica in replicas.items():
            queue = replica.queue
            yellow = [message for entry in queue.yellow for message in self._ids(replica, entry.heading)]
            red = [message for entry in queue.red for message in self._ids(replica, entry.heading)]
            if first is None:
                first = (name, green[name], yellow, red)
            for color, one, other in zip(
                ("green", "yellow", "red"), first[1:], (green[name], yellow, red), strict=True
            ):
                if one != other:
                    found.append(f"{first[0]} has {len(one)} {color} messages, and {name} has {len(other)} others")
            if queue.accepted or replica.accepting.pending:
                found.append(f"{name} has accepted {len(queue.accepted)} batches and not sent them")
        return found

    def _accepted(self, name: str) -> list[str]:
        return [row.msg for row in self._cluster.rows[name] if row.kind == "accept" and isinstance(row.msg, str)]

    def _lacking(self, has: dict[str, set[str]]) -> Iterable[str]:
        """Messages that one replica reported as accepted, and another one of its component lacks."""
        for author in has:
            accepted = self._accepted(author)
            for name, there in has.items():
                yield from (f"{name} lacks {m}, which {author} accepted" for m in accepted if m not in there)


def _holds_pending(component: dict[str, Replica]) -> bool:
    """Whether these are a quorum of every set that a pending change would make: a change of the replicas, and all
    that comes after it, waits for that (docs/quorums.md)."""
    return all(made.quorum_holds(component) for replica in component.values() for made in replica.pending_sets()[1:])


def _outposts_ids(replica: Replica, heading: Heading) -> list[str]:
    """What an outpost accepted was appended under the outpost's id. Empty: the batch has none of it."""
    return [
        message_id(source.origin.outpost, source.origin.incarnation, number)
        for source in replica.forwarded(heading)
        if source.origin is not None
        for number in range(source.number, source.number + source.count)
    ]
