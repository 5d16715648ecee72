"""A site whose storage was put back is distinguished from one that was merely restarted."""

import pytest

from reconvene.core.membership.past import contradicts
from reconvene.core.site import Site
from reconvene.ids import configuration_number
from reconvene.sim.cluster import Cluster
from reconvene.sim.core import EvsSite
from reconvene.wire.messages import Report

SECOND = 1_000_000_000


def report(inc: int, token: int, conf: int, since: int) -> Report:
    return Report(2, inc, 1, 0, configuration_number(conf, 0), 0, False, 0, token, configuration_number(since, 2))


@pytest.mark.parametrize(
    ("now", "known", "why"),
    [
        (report(2, 7, 9, 9), report(1, 5, 8, 1), None),
        (report(2, 7, 9, 9), report(2, 7, 12, 9), None),
        (report(2, 7, 9, 9), report(3, 5, 12, 12), "start 3 is known, and this is its start 2"),
        (report(2, 7, 9, 9), report(2, 5, 9, 9), "another start 2 is known"),
        (report(2, 7, 9, 9), report(1, 5, 9, 1), "configuration 9 is known, and it began anew with 9"),
        (report(2, 0, 9, 9), report(3, 5, 9, 1), None),
    ],
)
def test_what_contradicts_what_is_known(now: Report, known: Report, why: str | None) -> None:
    assert contradicts(now, known) == why


def site(cluster: Cluster, name: str) -> Site:
    found = cluster.node(name).site
    assert isinstance(found, EvsSite)
    return found.site


def put_back(starts: int) -> Cluster:
    """c is copied, started so often again, and put back."""
    cluster = Cluster("abc", check_every=1)
    cluster.start()
    cluster.run_for(2 * SECOND)
    node = cluster.node("c")
    copy = node.disk.copy()
    for _ in range(starts):
        cluster.crash("c")
        cluster.restart("c")
        cluster.run_for(2 * SECOND)
    cluster.crash("c")
    node.disk.put_back(copy)
    cluster.rows["c"].clear()
    node._recorder._inc = 0
    cluster.restart("c")
    cluster.run_for(10 * SECOND)
    return cluster


def test_a_site_that_was_put_back_is_not_heard() -> None:
    for starts, why in ((1, "another start 2 is known"), (3, "start 4 is known, and this is its start 2")):
        cluster = put_back(starts)
        assert site(cluster, "c").behind == why
        assert site(cluster, "c").members == (2,)
        for name in "ab":
            assert site(cluster, name).changes.hearing.behind == {2: why}, name
            assert site(cluster, name).members == (0, 1)


def test_one_that_lost_nothing_is_heard() -> None:
    cluster = Cluster("abc", check_every=1)
    cluster.start()
    cluster.run_for(2 * SECOND)
    cluster.crash("c")
    cluster.run_for(2 * SECOND)
    cluster.node("c").disk.put_back(cluster.node("c").disk.copy())
    cluster.restart("c")
    cluster.run_for(10 * SECOND)
    assert site(cluster, "a").members == (0, 1, 2)
    assert site(cluster, "a").changes.hearing.behind == {}
