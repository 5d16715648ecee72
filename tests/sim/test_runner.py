"""How a scenario is run: steps, loads, chaos and settle."""

from itertools import pairwise
from pathlib import Path

import pytest

from reconvene.sim.core import Core, EvsSite
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Result, Runner, run_scenario
from reconvene.sim.scenario import FAULTS

HEAD = 'name = "x"\nnodes = ["a", "b", "c"]\nduration = "4s"\nsettle = "1s"\n'
MS = 1_000_000


def run(core: Core, text: str, head: str = HEAD, seed: int | None = None) -> Result:
    return run_scenario(parse_scenario(head + text, Path("x.toml")), seed, core=core, check_every=1)


def rows(result: Result, node: str, kind: str) -> list[int]:
    return [row.t for row in result.rows[node] if row.kind == kind]


def test_a_load_sends_evenly_and_not_in_settle(fake_core: Core) -> None:
    result = run(fake_core, '[[load]]\nnodes = ["a", "b"]\nrate = 100\nfrom = "1s"\nuntil = "9s"')
    assert result.messages == 600
    sent = rows(result, "a", "send")
    assert min(sent) >= 1000 * MS
    assert max(sent) < 4000 * MS
    assert {round((later - earlier) / MS) for earlier, later in pairwise(sent)} == {10}


def test_a_load_pauses_with_its_node(fake_core: Core) -> None:
    result = run(
        fake_core,
        '[[load]]\nnodes = ["a", "b"]\nrate = 100\n'
        '[[at]]\ntime = "1s"\ncrash = ["a"]\n[[at]]\ntime = "2s"\nrestart = ["a"]\n'
        '[[at]]\ntime = "1s"\npause = ["b"]\n[[at]]\ntime = "2s"\nresume = ["b"]\n',
    )
    for node in "ab":
        assert not [at for at in rows(result, node, "send") if 1000 * MS <= at < 2000 * MS]
        assert len(rows(result, node, "send")) == 300


def test_a_send_happens_before_a_crash_that_follows_it_at_the_same_time(fake_core: Core) -> None:
    result = run(
        fake_core, 'at = [{ time = "1s", send = { node = "a", count = 3 } }, { time = "1s", crash = ["a"] }]'
    )
    assert [row.kind for row in result.rows["a"]] == ["conf", "send", "deliver"] + ["send", "deliver"] * 2 + [
        "fail",
        "conf",
    ]
    assert result.messages == 3


def test_a_node_crashed_at_0s_starts_with_its_restart(fake_core: Core) -> None:
    result = run(
        fake_core,
        'final_down = ["b"]\nat = [{ time = "0s", crash = ["a", "b"] }, { time = "1s", restart = ["a"] }]',
    )
    assert [(row.kind, row.inc, row.t) for row in result.rows["a"]] == [("conf", 1, 1000 * MS)]
    assert result.rows["b"] == []
    assert result.meta.down == ["b"]
    assert (result.faults, result.skipped) == (0, 0)


def test_settle_repairs_everything(fake_core: Core) -> None:
    scenario = parse_scenario(
        HEAD
        + 'final = [["a", "b"]]\nfinal_down = ["c"]\nat = [{ time = "1s", crash = ["a"] },'
        + ' { time = "1s", pause = ["b"] }, { time = "4s", cut = [["a", "b"]] },'
        + ' { time = "2s", network = { loss = 1.0 } }]',
        Path("x.toml"),
    )
    runner = Runner(scenario, core=fake_core)
    result = runner.run()
    assert result.settled
    assert result.virtual_ns == 5000 * MS
    assert result.meta.components == [["a", "b"], ["c"]]
    assert result.meta.down == ["c"]
    assert [row.kind for row in result.rows["c"]] == ["conf", "fail"]
    a, b = runner.cluster.nodes[:2]
    assert a.up
    assert b.up
    assert not b.paused
    assert runner.cluster.network.connected(0, 1)
    assert runner.cluster.network.traffic.lost < 200


def test_without_settle_nothing_is_settled(fake_core: Core) -> None:
    result = run(fake_core, "", head='nodes = ["a"]\nduration = "1s"\nsettle = "0s"\n')
    assert not result.settled
    assert not result.meta.settled


def test_with_chaos_steps_that_cannot_apply_are_counted(fake_core: Core) -> None:
    result = run(
        fake_core,
        'at = [{ time = "1s", restart = ["a"] }, { time = "1s", resume = ["a", "b"] },'
        ' { time = "2s", crash = ["c"] }, { time = "2s", send = { node = "c" } }, { time = "2s", pause = ["c"] }]\n'
        '[chaos]\nfaults = ["loss"]\nfrom = "3s"',
    )
    assert result.skipped == 5


@pytest.mark.parametrize("fault", FAULTS)
def test_each_kind_of_chaos(fake_core: Core, fault: str) -> None:
    text = f'[chaos]\nfaults = ["{fault}"]\nmean_gap = "50ms"'
    if fault == "sync":
        text += '\n[[load]]\nnodes = ["a", "b", "c"]\nrate = 20'  # a site that writes nothing has nothing to sync
    result = run(fake_core, text)
    assert result.faults > 5
    assert {kind for _, kind in result.coverage} == {fault}
    assert result.meta.down == []
    if fault in ("crash", "sync"):
        assert len(rows(result, "a", "fail")) > 2, "what crashed came back, and crashed again"


def test_chaos_with_one_node(fake_core: Core) -> None:
    faults = ", ".join(f'"{fault}"' for fault in FAULTS)
    text = f'[chaos]\nmean_gap = "20ms"\nfaults = [{faults}]'
    assert run(fake_core, text, head='nodes = ["a"]\nduration = "2s"\nsettle = "1s"\n').faults > 10


def test_the_seed_decides(fake_core: Core) -> None:
    text = '[[load]]\nnodes = ["a"]\nrate = 10\n[chaos]\nmean_gap = "100ms"'
    assert run(fake_core, text, seed=1).rows == run(fake_core, text, seed=1).rows
    assert run(fake_core, text, seed=1).rows != run(fake_core, text, seed=2).rows


def test_loads_do_not_disturb_chaos(fake_core: Core) -> None:
    chaos = '[chaos]\nfaults = ["crash", "pause"]\nmean_gap = "100ms"'
    quiet = run(fake_core, chaos)
    busy = run(fake_core, f'[[load]]\nnodes = ["a"]\nrate = 500\n{chaos}')
    crashes = {node: rows(quiet, node, "fail") for node in "bc"}
    assert crashes == {node: rows(busy, node, "fail") for node in "bc"}


def test_progress_is_told(fake_core: Core) -> None:
    told: list[int] = []
    scenario = parse_scenario(HEAD, Path("x.toml"))
    with_progress = run_scenario(scenario, core=fake_core, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 5000 * MS
    assert len(told) > 100
    assert with_progress.rows == run_scenario(scenario, core=fake_core).rows


def test_the_simulator_fits_the_real_site() -> None:
    scenario = parse_scenario(HEAD + '[[load]]\nnodes = ["a"]\nrate = 10', Path("x.toml"))
    runner = Runner(scenario, check_every=1)
    result = runner.run()
    assert result.messages == 40
    for node in runner.cluster.nodes:
        assert isinstance(node.site, EvsSite)
        assert node.site.members == (0, 1, 2)
