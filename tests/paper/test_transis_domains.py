"""The Transis Approach, "The Hierarchical Broadcast Domain", and ISIS (Reliable Communication), section 4.6.

Casts between processes of two clusters (4.6): test_isis_wide.
That a cluster uses broadcast hardware: test_transis_engine.
"""

from functools import lru_cache
from pathlib import Path

from reconvene.lab.campaign.seeds import histories
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.trace.events import Row
from reconvene.verify.engine import verify

SECOND = 1_000_000_000
SCENARIO = """
name = "domains"
stack = "wide"
duration = "4s"
settle = "2s"
final_down = ["berlin/c"]
[between]
latency = "10ms"
[[domain]]
name = "berlin"
nodes = ["a", "b", "c", "d", "e"]
gateways = ["a", "b"]
pass = { out = ["bank"], in = ["bank"] }
[[domain]]
name = "paris"
nodes = ["p", "q", "r"]
gateways = ["p", "q"]
[[load]]
nodes = ["berlin/d", "paris/r"]
service = "causal"
rate = 10
group = "bank"
from = "1s"
until = "3.5s"
[[load]]
nodes = ["berlin/e"]
service = "agreed"
rate = 10
group = "bank"
from = "1s"
until = "3.5s"
[[load]]
nodes = ["berlin/d", "paris/r"]
service = "agreed"
rate = 10
group = "news"
from = "1s"
until = "3.5s"
[[load]]
nodes = ["berlin/e"]
service = "agreed"
rate = 10
group = "bank"
scope = "cluster"
from = "1s"
until = "3.5s"
"""
ORDINARY = '[[at]]\ntime = "2s"\ncrash = ["berlin/c"]\n'
REPRESENTATIVE = '[[at]]\ntime = "2.0015s"\ncrash = ["berlin/a"]\n'
PARTED = '[[at]]\ntime = "2s"\nsplit = [["berlin"], ["paris"]]\n[[at]]\ntime = "3s"\nheal = true\n'


@lru_cache
def run(steps: str) -> Result:
    text = SCENARIO if steps == ORDINARY else SCENARIO.replace('final_down = ["berlin/c"]\n', "")
    result = Runner(parse_scenario(text + steps, Path("domains.toml")), 1, check_every=20).run()
    assert verify(histories(result)).violated() == []
    return result


def rows(result: Result, domain: str, *kinds: str) -> list[Row]:
    """Of layer `wide`, at the domain's sites."""
    nodes = [node for node in result.rows if node.startswith(f"{domain}/")]
    return [row for node in nodes for row in result.rows[node] if row.kind in kinds]


def level(result: Result, domain: str, kind: str) -> list[Row]:
    """Of the domain's own trace."""
    assert result.levels is not None
    return [row for own in result.levels.traces[domain][1].values() for row in own if row.kind == kind]


def test_representatives_take_part_in_the_next_level_up() -> None:
    result = run(ORDINARY)
    assert result.levels is not None
    upper = result.levels.traces["upper"][0]
    assert upper.nodes == ["berlin.a", "berlin.b", "paris.p", "paris.q"]
    assert {str(row.sender) for row in rows(result, "berlin", "rep")} <= {"berlin/a", "berlin/b"}
    for domain in ("berlin", "paris"):
        terms = {(row.conf, row.view): row.sender for row in rows(result, domain, "rep")}
        crossed = rows(result, domain, "cross", "in")
        assert crossed
        assert all(terms[row.conf, row.view] == row.node for row in crossed)


def test_each_level_maintains_the_group_services_itself() -> None:
    """Configurations of a level hold sites of that level only, and each level passes every check by itself."""
    result = run(ORDINARY)
    assert result.levels is not None
    for name, (meta, by_node) in result.levels.traces.items():
        assert {str(member) for row in level(result, name, "conf") for member in row.members or ()} == set(meta.nodes)
        assert any(row.kind == "deliver" for own in by_node.values() for row in own)


def test_a_level_abstracts_those_below_it() -> None:
    """An ordinary site crashes: neither the cluster above nor another one changes its configuration. 4.6: the failure
    agreement protocol does not include sites outside a cluster."""
    result = run(ORDINARY)
    assert [row for row in level(result, "berlin", "conf") if row.t > 2 * SECOND]
    for domain in ("upper", "paris"):
        assert not [row for row in level(result, domain, "conf") if row.t > 2 * SECOND]
    assert not [row for row in rows(result, "paris", "conf") if row.t > 2 * SECOND]


def test_a_representative_filters_what_leaves_and_forwards_what_comes_in() -> None:
    result = run(ORDINARY)
    sent = {str(row.msg): row for domain in ("berlin", "paris") for row in rows(result, domain, "send")}
    elsewhere = [sent[str(r.msg)] for r in rows(result, "paris", "deliver") if str(r.sender).startswith("berlin/")]
    assert {row.group for row in elsewhere} == {"bank"}
    assert {row.service for row in elsewhere} == {"causal", "agreed"}
    back = [sent[str(row.msg)] for row in rows(result, "berlin", "deliver") if str(row.sender).startswith("paris/")]
    assert {row.group for row in back} == {"bank"}
    crossed = {
        member for row in rows(result, "berlin", "in") if row.sender == "paris" for member in row.members or ()
    }
    assert {str(row.msg) for row in back} <= crossed


def test_local_traffic_does_not_flood_the_network_between_clusters() -> None:
    """And 4.6: what crosses holds nothing but what is addressed outside."""
    result = run(ORDINARY)
    sent = {str(row.msg): row for domain in ("berlin", "paris") for row in rows(result, domain, "send")}
    crossed = [sent[member] for row in rows(result, "berlin", "cross") for member in row.members or ()]
    assert {(row.group, row.scope) for row in crossed} == {("bank", "wide")}
    assert any(row.scope == "cluster" for row in rows(result, "berlin", "send"))


def test_a_failure_is_learned_from_the_cluster_where_it_happened() -> None:
    """4.6: "indirectly from a monitoring facility actually resident in the remote cluster"."""
    result = run(ORDINARY)
    lost = rows(result, "paris", "lost")
    assert {str(row.sender) for row in lost} == {"berlin/c"}
    dropped = {row.conf: row.members for row in level(result, "berlin", "conf") if row.conf_kind == "regular"}
    assert all(row.reg in dropped and "c" not in (dropped[row.reg] or ()) for row in lost)


def test_a_cluster_out_of_reach_has_not_failed() -> None:
    result = run(PARTED)
    assert {str(row.sender) for row in rows(result, "paris", "unreachable")} == {"berlin"}
    assert not rows(result, "paris", "lost")


def test_local_sites_know_before_any_external_site_learns() -> None:
    """4.6: messages are "sent to local sites before the first transmission to an external site"."""
    result = run(ORDINARY)
    for row in rows(result, "berlin", "cross"):
        home = [r for r in level(result, "berlin", "deliver") if r.msg == row.msg]
        assert {r.service for r in home} == {"safe"}
        assert min(r.t for r in home) <= row.t
    told: dict[str, list[int]] = {}
    for row in rows(result, "berlin", "deliver"):
        if row.service == "causal" and row.sender == "berlin/d" and row.group == "bank" and row.t < 2 * SECOND:
            told.setdefault(str(row.msg), []).append(row.t)
    first = {str(row.msg): row.t for row in reversed(rows(result, "paris", "deliver"))}
    seen = [msg for msg in told if msg in first and len(told[msg]) == 5]
    assert seen
    assert all(max(told[msg]) < first[msg] for msg in seen)


def test_what_is_pending_survives_who_sent_it_out() -> None:
    """4.6: a flush in the cluster finds what is pending "unless all local participants have failed", and "the new
    coordinator can be located in the same cluster as the initial one"."""
    result = run(REPRESENTATIVE)
    reps = [str(row.sender) for row in rows(result, "berlin", "rep") if row.node == "berlin/e" and row.t > 2 * SECOND]
    assert reps[0] == "berlin/b"
    sent = {str(row.msg) for row in rows(result, "berlin", "send") if row.scope == "wide" and row.group == "bank"}
    for site in "pqr":
        own = {str(row.msg) for row in result.rows[f"paris/{site}"] if row.kind == "deliver"}
        assert sent <= own
