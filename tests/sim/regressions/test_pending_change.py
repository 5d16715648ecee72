"""A change of the quorum that is pending when the sites it needs are not there."""

from tests.corel.sites import MS, SECOND, Sites

from reconvene.corel.replicas.sets import MAJORITY
from reconvene.quorum import Spec

DYNAMIC: Spec = {"kind": "dynamic", "minimum": 2}


def propose(sites: Sites, quorum: Spec) -> None:
    replica = sites.log("c")
    replica.propose(replica.replicas.with_quorum(quorum))
    sites.cluster.node("c").append(())


def test_a_component_waits_for_a_quorum_of_the_set_that_a_pending_change_makes() -> None:
    """The ledger asked for everything that a component of two had accepted. A change to a minimum of three was
    pending in it, so it rightly waited for the third."""
    sites = Sites("abc", quorum=DYNAMIC)
    sites.run()
    sites.cluster.partition(["ac", "b"])
    propose(sites, {"kind": "dynamic", "minimum": 3})
    sites.append("c", "x")
    sites.cluster.crash("b")
    sites.run()
    assert sites.log("a").primary == 0
    assert "pending change" in sites.log("a").why
    assert sites.ledger.problems(DYNAMIC) == []
    sites.cluster.restart("b")
    sites.cluster.heal()
    sites.run()
    assert [sites.log(name).replicas.quorum["minimum"] for name in "abc"] == [3, 3, 3]
    sites.judge()


def test_a_pending_change_excuses_no_component_that_could_order_it() -> None:
    sites = Sites("abc", quorum=DYNAMIC)
    sites.run()
    sites.cluster.refuse("a", 10 * SECOND)
    propose(sites, MAJORITY)
    sites.run(100 * MS)
    assert any("is not green" in line for line in sites.ledger.problems(DYNAMIC))
