"""Several clusters in one run: what crosses, who represents a cluster, and that every level holds."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.once import Once
from tests.sim.chunks import few
from tests.sim.shipped import FOLDER, play

from reconvene.domains.gateway import Gateway
from reconvene.domains.port import Site
from reconvene.domains.tree import Tree
from reconvene.lab.campaign.seeds import histories, run_seed
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.trace.domains import write_wide_trace
from reconvene.trace.events import Row
from reconvene.verify.engine import verify
from reconvene.verify.load import load_domains

HEAD = """
name = "x"
stack = "wide"
duration = "3s"
settle = "3s"
[between]
latency = "10ms"
"""
BERLIN = '[[domain]]\nname = "berlin"\nnodes = ["a", "b", "c"]\ngateways = ["a", "b"]\n'
PARIS = '[[domain]]\nname = "paris"\nnodes = ["p", "q"]\ngateways = ["p"]\n'


def run(
    text: str, seed: int = 0, top: str = "", between: str = "", gateway: type[Gateway] = Gateway,
    wide: type[Site] = Site,
) -> Result:  # fmt: skip
    """`top`, `between`: more keys of the file, and of its [between]."""
    scenario = parse_scenario(top + HEAD + between + text, Path("x.toml"))
    result = Runner(scenario, seed, check_every=5, gateway=gateway, wide=wide).run()
    report = verify(histories(result))
    assert report.violated() == []
    assert report.check("live.membership").cases > 0
    return result


def rows(result: Result, node: str, *kinds: str) -> list[Row]:
    return [row for row in result.rows[node] if row.kind in kinds]


def delivered(result: Result, node: str) -> list[str]:
    return [str(row.msg) for row in rows(result, node, "deliver")]


def send(node: str, service: str = "agreed", **more: object) -> str:
    fields = {"node": node, "service": service, **more}
    inside = ", ".join(f"{key} = {value if isinstance(value, int) else repr(value)}" for key, value in fields.items())
    return f'[[at]]\ntime = "2s"\nsend = {{ {inside} }}\n'.replace("'", '"')


@pytest.mark.parametrize("service", ["fifo", "causal", "agreed", "safe"])
def test_everyone_delivers_in_one_order(service: str) -> None:
    result = run(BERLIN + PARIS + send("berlin/c", service, count=5) + send("paris/q", service, count=5))
    found = {node: delivered(result, node) for node in result.meta.nodes}
    assert all(len(messages) == 10 for messages in found.values())
    if service in ("agreed", "safe"):
        assert len({tuple(messages) for messages in found.values()}) == 1


def test_a_causal_message_is_delivered_at_home_at_once_and_elsewhere_after_two_delays() -> None:
    """docs/deviations.md names the price of safe crossings."""
    result = run(BERLIN + PARIS + PARIS.replace("paris", "oslo") + send("berlin/c", "causal"))
    (sent,) = rows(result, "berlin/c", "send")
    here, there = (rows(result, node, "deliver")[0].t - sent.t for node in ("berlin/c", "paris/q"))
    assert here == 0
    assert 20_000_000 < there < 25_000_000, "10 ms between clusters, and less than 1 ms within"


def test_scope_and_rules() -> None:
    paris = PARIS + 'pass = { out = ["bank*"], in = ["news"] }\n'
    steps = [
        send("berlin/c", group="news"),
        send("berlin/c", group="bank"),
        send("berlin/c", group="news", scope="cluster"),
        send("paris/q", group="banks"),
        send("paris/q", group="news"),
    ]
    result = run(BERLIN + paris + "".join(steps))
    assert set(delivered(result, "paris/p")) == {"berlin/c:1:1", "paris/q:1:1", "paris/q:1:2"}
    assert set(delivered(result, "berlin/b")) == {"berlin/c:1:1", "berlin/c:1:2", "berlin/c:1:3", "paris/q:1:1"}


def test_a_standby_goes_on() -> None:
    load = '[[load]]\nnodes = ["berlin/c", "paris/q"]\nservice = "agreed"\nrate = 50\nfrom = "1s"\n'
    first = str(rows(run(BERLIN + PARIS + load), "berlin/c", "rep")[-1].sender)
    (standby,) = {"berlin/a", "berlin/b"} - {first}
    crash = f'[[at]]\ntime = "2s"\ncrash = ["{first}"]\n'
    result = run(BERLIN + PARIS + load + crash)
    reps = [str(row.sender) for row in rows(result, "berlin/c", "rep") if row.t < 2_900_000_000]
    assert reps[-2:] == [first, standby]
    sent = {str(row.msg) for node in ("berlin/c", "paris/q") for row in rows(result, node, "send")}
    assert set(delivered(result, standby)) == set(delivered(result, "paris/p")) == sent
    assert not rows(result, "paris/q", "unreachable")


def _until_it_crosses_again(text: str) -> float:
    """Seconds from the crash of berlin's representative at 2 s until paris delivers what berlin sent after it."""
    down = 'final_down = ["berlin/a"]\n'
    load = '[[load]]\nnodes = ["berlin/c"]\nservice = "agreed"\nrate = 50\nfrom = "1s"\n'
    result = run(BERLIN + PARIS + load + '[[at]]\ntime = "2s"\ncrash = ["berlin/a"]\n', top=down, between=text)
    late = {str(row.msg) for row in rows(result, "berlin/c", "send") if row.t > 2_000_000_000}
    return min(row.t for row in rows(result, "paris/p", "deliver") if row.msg in late) / 1e9 - 2


def test_the_level_above_does_not_wait_for_its_own_time_out() -> None:
    """The cluster's verdict on its gateway counts above: GONE."""
    patient, quick = (_until_it_crosses_again(f'patience = "{wait}"\n') for wait in ("4s", "600ms"))
    assert patient < quick + 0.3


def test_without_gone_two_suspicions_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gateway, "left", lambda self, gateway: None)
    assert _until_it_crosses_again('patience = "2500ms"\n') > 2.4


def test_a_representative_that_gets_nothing_across_is_voted_out() -> None:
    made: list[Gateway] = []

    class Stuck(Gateway):
        """The one that is made first, berlin's preferred one, sends nothing above."""

        def __init__(self, tree: Tree, domain: str) -> None:
            super().__init__(tree, domain)
            made.append(self)

        @property
        def may_launch(self) -> bool:
            return self is not made[0] and super().may_launch

    result = run(BERLIN + PARIS + send("berlin/c") + send("paris/q"), gateway=Stuck)
    assert [str(row.sender) for row in rows(result, "berlin/c", "rep")][-1] == "berlin/b"
    assert "berlin/c:1:1" in delivered(result, "paris/q")


class OtherRules(Site):
    """Gateway b of berlin has another configuration than the others: there, only some groups leave."""

    def __init__(self, tree: Tree, domain: str, ordinal: int, *more: Any) -> None:
        if domain == "berlin" and ordinal == 1:
            tree = Tree([replace(one, out=("all",)) if one.name == domain else one for one in tree.domains.values()])
        super().__init__(tree, domain, ordinal, *more)


def test_a_gateway_whose_rules_differ_does_not_represent_its_cluster() -> None:
    """The representative resigns, and the other gateway is not elected."""
    steps = '[[at]]\ntime = "1s"\nhandover = ["berlin"]\n' + send("berlin/c")
    result = run(BERLIN + PARIS + steps, wide=OtherRules)
    for node in ("berlin/a", "berlin/b", "berlin/c"):
        assert rows(result, node, "rep")[-1].sender == "berlin/a", node
    assert "berlin/c:1:1" in delivered(result, "paris/q")


def test_alone_its_rules_count() -> None:
    crash = '[[at]]\ntime = "1s"\ncrash = ["berlin/a"]\n'
    result = run(BERLIN + PARIS + crash + send("berlin/c"), top='final_down = ["berlin/a"]\n', wide=OtherRules)
    assert [row.sender for row in rows(result, "berlin/c", "rep")][-1] == "berlin/b"
    assert "berlin/c:1:1" in delivered(result, "paris/q")


def test_a_cluster_without_a_gateway_goes_on_alone() -> None:
    part = '[[at]]\ntime = "1s"\npartition = [["berlin/a", "berlin/b", "paris/p", "paris/q"], ["berlin/c"]]\n'
    result = run(BERLIN + PARIS + part + send("berlin/c") + send("paris/q"))
    alone = rows(result, "berlin/c", "deliver")[0]
    assert alone.msg == "berlin/c:1:1"
    assert str(alone.conf).startswith("berlin/")
    assert delivered(result, "berlin/a") == ["paris/q:1:1"]
    last = [row for row in rows(result, "berlin/c", "conf") if row.conf_kind == "regular"][-1]
    assert last.members == ["berlin", "paris"], "it comes back in settle"


def test_a_cause_crosses_though_its_author_and_the_representative_crash() -> None:
    """Both crash before it has crossed. Another site has delivered it, and what that sent then crosses too."""
    steps = (
        send("berlin/c", "causal")
        + send("berlin/b", "causal").replace('"2s"', '"2001500us"')
        + '[[at]]\ntime = "2002ms"\ncrash = ["berlin/a", "berlin/c"]\n'
    )
    result = run(BERLIN + PARIS + steps, top='final_down = ["berlin/a", "berlin/c"]\n')
    assert delivered(result, "berlin/b") == delivered(result, "paris/q") == ["berlin/c:1:1", "berlin/b:1:1"]


def test_what_waits_behind_a_message_that_crosses_keeps_its_place() -> None:
    """Its group does not leave the cluster. Its site parts from the gateways before the first one has crossed."""
    berlin = BERLIN + 'pass = { out = ["all"], in = ["*"] }\n'
    part = '[[at]]\ntime = "2002ms"\npartition = [["berlin/a", "berlin/b", "paris/p", "paris/q"], ["berlin/c"]]\n'
    sends = send("berlin/c") + send("berlin/c", group="news") + send("berlin/c")
    result = run(berlin + PARIS + sends + part)
    assert delivered(result, "berlin/c") == ["berlin/c:1:1", "berlin/c:1:2", "berlin/c:1:3"]


def process(node: str, *groups: str) -> str:
    inside = ", ".join(f'"{group}"' for group in groups)
    return f'[[process]]\nnode = "{node}"\nname = "x"\ngroups = [{inside}]\n'


def views(result: Result, node: str, group: str = "bank") -> list[list[str]]:
    """Without the local configurations."""
    found = [[*map(str, row.members)] for row in rows(result, node, "view") if row.group == group]  # type: ignore[arg-type]
    return [[f"{name.split('/')[0]}/{name.split('/')[2]}" for name in members] for members in found]


def test_wide_views() -> None:
    join = '[[at]]\ntime = "1s"\njoin = { process = "paris/q.x", group = "bank" }\n'
    leave = '[[at]]\ntime = "2s"\nleave = { process = "berlin/c.x", group = "bank" }\n'
    result = run(BERLIN + PARIS + process("berlin/c", "bank") + process("paris/q", "news") + join + leave)
    expected = [["berlin/c.x"], ["berlin/c.x", "paris/q.x"], ["paris/q.x"]]
    for node in result.meta.nodes:
        assert views(result, node)[-3:] == expected, node


def test_a_view_follows_the_rules() -> None:
    """What does not leave can't be joined; what does not come in is not seen."""
    paris = PARIS + 'pass = { out = ["bank"], in = ["news"] }\n'
    groups = process("berlin/c", "bank", "news") + process("paris/q", "bank", "news")
    result = run(BERLIN + paris + groups)
    assert views(result, "berlin/a")[-1] == ["berlin/c.x", "paris/q.x"]
    assert views(result, "paris/p")[-1] == ["paris/q.x"]
    assert views(result, "berlin/a", "news")[-1] == views(result, "paris/p", "news")[-1] == ["berlin/c.x"]


def test_views_of_a_cluster_without_a_gateway_and_after_it_has_come_back() -> None:
    part = '[[at]]\ntime = "1s"\npartition = [["berlin/a", "berlin/b", "paris/p", "paris/q"], ["berlin/c"]]\n'
    result = run(BERLIN + PARIS + process("berlin/c", "bank") + process("paris/q", "bank") + part)
    seen = views(result, "berlin/c")
    assert seen[-1] == views(result, "paris/p")[-1] == ["berlin/c.x", "paris/q.x"]
    assert ["berlin/c.x"] in seen[1:]
    assert ["paris/q.x"] in views(result, "paris/p")


def test_a_site_that_its_majority_goes_on_without_is_lost_everywhere() -> None:
    part = '[[at]]\ntime = "1s"\ncrash = ["berlin/c"]\n'
    result = run(BERLIN + PARIS + part, top='final_down = ["berlin/c"]\n')
    for node in ("berlin/a", "paris/q"):
        (lost,) = rows(result, node, "lost")
        assert lost.sender == "berlin/c"
        assert not rows(result, node, "unreachable")


def test_what_is_out_of_reach_is_not_lost() -> None:
    part = '[[at]]\ntime = "1s"\nsplit = [["berlin"], ["paris"]]\n'
    result = run(BERLIN + PARIS + part)
    assert [row.sender for row in rows(result, "berlin/c", "unreachable")] == ["paris"]
    assert not rows(result, "berlin/c", "lost")


def test_the_trace(tmp_path: Path) -> None:
    result = run(BERLIN + PARIS + send("berlin/c"))
    assert result.levels is not None
    write_wide_trace(tmp_path, result.levels.domains, result.levels.traces, (result.meta, result.rows))
    assert verify(load_domains(tmp_path)).violated() == []
    assert (tmp_path / "wide" / "berlin" / "a.jsonl").exists()
    assert (tmp_path / "upper" / "berlin.a.jsonl").exists()
    numbers = [row.n for row in (*result.rows["berlin/a"], *result.levels.traces["berlin"][1]["a"])]
    assert sorted(numbers) == list(range(len(numbers))), "one numbering over both files"


def test_the_same_seed_is_the_same_run() -> None:
    assert run(BERLIN + PARIS + send("berlin/c"), 4).rows == run(BERLIN + PARIS + send("berlin/c"), 4).rows


@pytest.mark.parametrize("name", ["wide-three-clusters", "wide-parted-cluster", "wide-isis", "wide-storm"])
def test_shipped(name: str, once: Once) -> None:
    result = play(once, name)
    if name != "wide-storm":
        assert result.skipped == 0
    finals = {node: rows(result, node, "conf")[-1] for node in result.meta.nodes}
    assert len({final.conf for final in finals.values()}) == 1
    assert all(row.sender is not UNSET for row in rows(result, "berlin/b", "rep"))
    assert (FOLDER / f"{name}.toml").exists()


@pytest.mark.parametrize("seed", few([5, 11, 28, 4, 103, 115], 1))
def test_seeds_of_the_profile(seed: int) -> None:
    """28: a message for the cluster alone waited behind one that crosses, when the configuration changed. 4, 5: what
    one cluster had seen came again in another configuration above. 103: a site learned of a loss in a configuration
    that it never entered. 115: a gateway was paused while it went on after a pause."""
    found = run_seed("wide", seed)
    assert found.ok, found


@pytest.mark.long("tens of seeds")
@pytest.mark.parametrize("seed", range(40))
def test_many_seeds_of_the_profile(seed: int) -> None:
    found = run_seed("wide", seed)
    assert found.ok, found
