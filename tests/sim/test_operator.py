"""When a run with an operator has not settled: a pending change waits for a replica that stays away."""

from random import Random

import pytest

from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.lab.campaign.seeds import run_seed
from reconvene.sim.cluster import Cluster
from reconvene.sim.log_site import RealLogCore
from reconvene.sim.operator import Operator, waits_for_absent
from reconvene.sim.scenario import OperatorPlan

SECOND = 1_000_000_000


@pytest.fixture
def pending(monkeypatch: pytest.MonkeyPatch) -> list[ReplicaSet]:
    """What pending changes would make, at every replica."""
    made: list[ReplicaSet] = []
    first = ReplicaSet.first("abc", MAJORITY)
    monkeypatch.setattr(Replica, "pending_sets", lambda _: [first, *made])
    return made


def test_only_a_pending_change_of_a_primary_component_waits(pending: list[ReplicaSet]) -> None:
    cluster = Cluster("abc", core=RealLogCore())
    cluster.start()
    cluster.run_for(2 * SECOND)
    assert not waits_for_absent(cluster), "nothing is pending"
    cluster.crash("c")
    cluster.run_for(2 * SECOND)
    assert not waits_for_absent(cluster), "nobody waits for c"
    first = ReplicaSet.first("abc", MAJORITY)
    pending.append(first.removed("c"))
    assert not waits_for_absent(cluster), "all of the new set are here"
    pending.append(first.with_quorum({"kind": "weighted", "weights": {"a": 1, "b": 1, "c": 1}}))
    assert waits_for_absent(cluster), "c is down"
    cluster.restart("c")
    cluster.run_for(2 * SECOND)
    assert not waits_for_absent(cluster), "c is back"
    cluster.partition(["ab", "c"])
    cluster.run_for(2 * SECOND)
    assert waits_for_absent(cluster), "c is elsewhere"
    cluster.partition(["a", "b", "c"])
    cluster.run_for(2 * SECOND)
    assert not waits_for_absent(cluster), "no component orders: nothing is asked of them"


@pytest.mark.long("a whole run; the rule has a test of its own")
def test_a_change_that_needs_a_replica_which_stays_down() -> None:
    """Of n01 to n04 with a minimum of three, n01, n02 and n04 order. The change removes n02: it waits for n03."""
    assert run_seed("dynamic", 4698954).violations == {}


def test_no_disk_is_lost_with_messages_before_another_replica_knows_of_it() -> None:
    cluster = Cluster("abc", core=RealLogCore())
    plan = OperatorPlan(from_ns=0, until_ns=0, mean_gap_ns=SECOND, lost=("c",), lost_ns=100 * SECOND)
    operator = Operator(cluster, plan, Random(1))
    cluster.partition(["ab", "c"])
    cluster.start()
    cluster.run_for(2 * SECOND)
    assert operator._may_lose(), "it is empty"
    cluster.append("c", [b"only here"])
    cluster.run_for(SECOND)
    assert not operator._may_lose()
    cluster.heal()
    cluster.run_for(2 * SECOND)
    assert operator._may_lose(), "the others know it, and would notice another one in its place"


@pytest.mark.long("a whole run; the rule has a test of its own")
def test_a_disk_that_nobody_knew_is_not_lost_with_what_it_accepted() -> None:
    assert run_seed("dynamic", 1220).violations == {}
