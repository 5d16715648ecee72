"""Reliable Communication in the Presence of Failures (ISIS), 4.6: Wide-Area Networks. Casts between clusters.

That a loss is decided by a majority of its own cluster, and that a domain out of reach has failed nowhere, as sites
see it: test_transis_domains. Replies from other clusters: tests/isis/test_far.py, tests/real/test_wide_isis.py. Not
built: GBCASTs across clusters (docs/deviations.md).
"""

from functools import lru_cache
from pathlib import Path

from tests.sim.two_clusters import load, process, step, two_clusters

from reconvene.lab.campaign.seeds import histories
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.sim.wide_isis import WideIsisSite
from reconvene.sim.wide_world import WideWorld
from reconvene.trace.events import Row
from reconvene.verify.engine import verify

SECOND = 1_000_000_000
SCENARIO = (
    two_clusters('duration = "3s"\nsettle = "2s"\n[between]\nlatency = "20ms"', gateways="ab")
    + "".join(process(name, "bank") for name in ("berlin/b.x", "berlin/c.y", "paris/q.z"))
    + load(("berlin/b.x", "berlin/c.y"), "cbcast", 20, "3s", 'scope = "cluster"')
    + load(("berlin/b.x", "berlin/c.y", "paris/q.z"), "cbcast", 8)
    + load(("berlin/b.x", "paris/q.z"), "abcast", 5, "3s", 'label = "queue"')
    + step("1.5s", 'watch = { process = "paris/q.z", watched = "berlin/c.y" }')
)
DIES = step("2s", 'kill = ["berlin/c.y"]')
CRASHES = step("2s", 'crash = ["berlin/c"]')
PARTED = step("2s", 'split = [["berlin"], ["paris"]]')


@lru_cache
def run(steps: str) -> tuple[Result, WideWorld]:
    text = SCENARIO
    if steps == CRASHES:
        text = text.replace('settle = "2s"\n', 'settle = "2s"\nfinal_down = ["berlin/c"]\n')
    if steps == PARTED:
        text = text.replace('settle = "2s"\n', 'settle = "2s"\nfinal = [["berlin"], ["paris"]]\n')
    runner = Runner(parse_scenario(text + steps, Path("far.toml")), 1, check_every=20)
    result = runner.run()
    assert verify(histories(result)).violated() == []
    assert isinstance(runner.world, WideWorld)
    return result, runner.world


def rows(result: Result, domain: str, *kinds: str) -> list[Row]:
    """Of layer `wide`, at the domain's sites."""
    nodes = [node for node in result.rows if node.startswith(f"{domain}/")]
    return [row for node in nodes for row in result.rows[node] if row.kind in kinds]


def level(result: Result, domain: str, *kinds: str) -> list[Row]:
    """Of layer `isis`, in the domain's own trace."""
    assert result.levels is not None
    found = [row for own in result.levels.traces[domain][1].values() for row in own if row.layer == "isis"]
    return [row for row in found if row.kind in kinds]


def test_a_site_view_is_of_one_cluster() -> None:
    """And the failure agreement protocol does not include sites outside a cluster."""
    result, _ = run(CRASHES)
    for domain, sites in (("berlin", "abc"), ("paris", "pq")):
        members = {member for row in level(result, domain, "site") for member in row.members or ()}
        assert {member.partition(":")[0] for member in members} == set(sites)
    assert [row for row in level(result, "berlin", "site") if row.t > 2 * SECOND]
    assert not [row for row in level(result, "paris", "site") if row.t > 2 * SECOND]


def test_the_failure_of_an_external_process_is_learned_from_its_cluster() -> None:
    """Whether the process dies, or its site is lost."""
    for steps in (DIES, CRASHES):
        result, _ = run(steps)
        (failed,) = rows(result, "paris", "failed")
        assert (failed.process, failed.sender) == ("paris/q:1:1", "berlin/c:1:1")
        told = [row for row in rows(result, "berlin", "send") if row.group == "isis" and row.t >= 2 * SECOND]
        assert told, "berlin has said so"
        assert told[0].t < failed.t


def test_it_is_reported_after_all_that_it_sent() -> None:
    result, _ = run(DIES)
    (failed,) = rows(result, "paris", "failed")
    heard = [row for row in rows(result, "paris", "receive") if row.sender == "berlin/c:1:1"]
    assert heard
    assert all(row.n < failed.n for row in heard)


def test_what_can_not_be_reached_has_not_failed() -> None:
    result, _ = run(PARTED)
    assert {row.sender for row in rows(result, "paris", "unreachable")} == {"berlin"}
    assert not rows(result, "paris", "failed")
    assert [row for row in rows(result, "paris", "cbcast") if row.t > 2 * SECOND], "it goes on meanwhile"


def test_it_is_sent_directly_and_nothing_is_piggybacked() -> None:
    """What crosses are casts that are addressed outside, and nothing that precedes them within the cluster."""
    result, _ = run(DIES)
    sent = {str(row.msg): row for row in rows(result, "berlin", "send")}
    crossed = [sent[member] for row in rows(result, "berlin", "cross") for member in row.members or ()]
    casts = rows(result, "berlin", "cbcast", "abcast")
    assert len([row for row in crossed if row.group == "isis:bank"]) == len(casts)
    assert {row.group for row in crossed} == {"isis:bank", "isis"}
    assert len(level(result, "berlin", "cbcast")) > len(casts) / 2, "there was much to piggyback"


def test_the_rules_of_order_are_respected_all_the_same() -> None:
    """A process casts to another cluster, then within its own; who receives both casts to that cluster in turn."""
    result, _ = run(DIES)
    report = verify(histories(result))
    assert report.check("wide.cast-causal").cases > 20
    assert report.check("wide.cast-order").cases > 10
    order: dict[str, list[str]] = {}
    for row in [*rows(result, "berlin", "receive"), *rows(result, "paris", "receive")]:
        order.setdefault(str(row.process), []).append(str(row.msg))
    abcasts = {str(row.msg) for domain in ("berlin", "paris") for row in rows(result, domain, "abcast")}
    mine, theirs = ([msg for msg in order[one] if msg in abcasts] for one in ("berlin/b:1:1", "paris/q:1:1"))
    assert mine == theirs


def test_the_flush_is_run_where_the_failed_process_was() -> None:
    """No view, no site view, no configuration changes in the other cluster."""
    result, _ = run(CRASHES)
    assert [row for row in level(result, "berlin", "view") if row.t > 2 * SECOND]
    assert not [row for row in level(result, "paris", "view", "site") if row.t > 2 * SECOND]


def test_local_sites_have_it_before_an_external_one() -> None:
    """Of c, which casts no ABCASTs: behind one that is not placed yet, a site keeps a CBCAST that it has."""
    result, _ = run(DIES)
    delivered: dict[str, dict[str, int]] = {}
    for domain in ("berlin", "paris"):
        for row in rows(result, domain, "deliver"):
            delivered.setdefault(str(row.msg), {})[row.node] = row.t
    sent = [row for row in rows(result, "berlin", "send") if row.node == "berlin/c" and row.group == "isis:bank"]
    assert sent
    for row in sent:
        at = delivered[str(row.msg)]
        assert max(at[f"berlin/{site}"] for site in "abc") < at["paris/q"]


def test_a_cast_of_a_site_that_crashes_reaches_everyone_or_nobody() -> None:
    """The local flush flushes pending broadcasts: who of its own cluster has one sees to it that it leaves."""
    result, _ = run(CRASHES)
    last = [row for row in rows(result, "berlin", "cbcast") if row.node == "berlin/c"]
    got = {
        process: {str(row.msg) for domain in ("berlin", "paris") for row in rows(result, domain, "receive")
                  if row.process == process}
        for process in ("berlin/b:1:1", "paris/q:1:1")
    }  # fmt: skip
    assert last
    for row in last:
        assert (str(row.msg) in got["berlin/b:1:1"]) == (str(row.msg) in got["paris/q:1:1"])


def test_groups_extend_over_cluster_boundaries() -> None:
    result, _ = run(DIES)
    for domain in ("berlin", "paris"):
        for row in rows(result, domain, "cbcast", "abcast"):
            assert {str(one).partition("/")[0] for one in row.dests or ()} == {"berlin", "paris"}


def test_what_is_done_is_collected_within_the_cluster() -> None:
    """Though the other cluster is out of reach, nothing is kept for it."""
    _, world = run(PARTED)
    for name in world.names:
        site = world.node(name).node.site
        assert isinstance(site, WideIsisSite)
        assert not site.layer.pool.entries
        assert not site.layer.own.open
