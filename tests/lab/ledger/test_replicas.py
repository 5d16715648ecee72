"""The ledger finds what a trace does not show: each kind of planted difference is reported."""

from collections.abc import Callable

import pytest

from reconvene.corel.batch import BatchId, decode_heading, encode_batch, messages_of
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY
from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.cluster import Cluster
from reconvene.sim.log_site import LogSite, RealLogCore

SECOND = 10**9


def settled() -> tuple[Cluster, ReplicaLedger]:
    cluster = Cluster("abc", core=RealLogCore(), followers=("f",))
    ledger = ReplicaLedger(cluster)
    cluster.start()
    cluster.run_for(2 * SECOND)
    for place in range(3):
        for name in "abc":
            cluster.append(name, [b"%d from %s" % (place, name.encode())])
        cluster.run_for(SECOND // 2)
    return cluster, ledger


def replica(cluster: Cluster, name: str) -> Replica:
    log = cluster.node(name).log
    assert isinstance(log, LogSite)
    return log.replica


def change_a_message(cluster: Cluster) -> None:
    bodies = replica(cluster, "b").queue.bodies
    body = bodies.get(BatchId(0, 1))
    bodies.put(BatchId(0, 1), encode_batch(decode_heading(body), [b"?" + data for data in messages_of(body)]))


def leave_one_yellow(cluster: Cluster) -> None:
    """b's disk is full, so messages of a can't become green."""
    cluster.refuse("b", 10 * SECOND)
    cluster.append("a", [b"late"])
    cluster.run_for(SECOND // 10)


def forget_the_last(cluster: Cluster) -> None:
    queue = replica(cluster, "c").queue
    position, heading = list(replica(cluster, "c").read(0))[-1]
    queue.green -= heading.count
    queue.greens.restart(position)


def accept_in_vain(cluster: Cluster) -> None:
    """c accepts a message that it can't write."""
    cluster.refuse("c", 10 * SECOND)
    cluster.append("c", [b"unsent"])
    cluster.run_for(SECOND // 10)


def stop_ordering(cluster: Cluster) -> None:
    """All of the newest set are here, and one of them takes itself for no primary component's member."""
    log = replica(cluster, "a")
    log.propose(log.replicas.with_quorum({"kind": "dynamic"}))
    cluster.append("a", [])
    cluster.run_for(SECOND)
    ordering = replica(cluster, "c").configuration._ordering
    assert ordering is not None
    ordering.primary = 0


def leave_the_follower_behind(cluster: Cluster) -> None:
    """f goes no further than its disk, which takes nothing more."""
    cluster.refuse("f", 10 * SECOND)
    cluster.append("a", [b"late"])
    cluster.run_for(SECOND // 10)


PLANTED: dict[str, tuple[Callable[[Cluster], None], str]] = {
    "another message": (change_a_message, "b: a:1:1 is not what was appended"),
    "one that is not green": (leave_one_yellow, "is not green"),
    "one that is lost": (forget_the_last, "c lacks"),
    "one that does not order": (stop_ordering, "c does not order"),
    "one that is not sent": (accept_in_vain, "c has accepted 1 batches and not sent them"),
    "one that f lacks": (leave_the_follower_behind, "f has 9 messages, and c, connected to it, 10"),
}


def test_a_good_run_has_no_problems() -> None:
    _, ledger = settled()
    assert ledger.problems(MAJORITY) == []
    assert (ledger.cases, ledger.accepted, ledger.ordered) == (36, 9, 9)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_difference_is_named(planted: str) -> None:
    change, name = PLANTED[planted]
    cluster, ledger = settled()
    change(cluster)
    problems = ledger.problems(MAJORITY)
    assert any(name in problem for problem in problems), problems
