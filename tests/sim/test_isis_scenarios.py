"""Scenarios of stack isis, with the real layer: what steps, loads, kills and settle do, and that it is repeatable."""

from pathlib import Path

from msgspec import UNSET
from tests.sim.test_determinism import simulate

from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.trace.events import Row
from reconvene.verify.engine import verify
from reconvene.verify.history import History

HEAD = """
name = "x"
nodes = ["a", "b", "c"]
duration = "4s"
settle = "4s"
stack = "isis"
[[process]]
node = "a"
name = "x"
groups = ["bank"]
replies = true
state = true
[[process]]
node = "b"
name = "y"
groups = ["bank"]
state = true
[[process]]
node = "c"
name = "z"
"""


def run(text: str) -> Result:
    """Judged."""
    runner = Runner(parse_scenario(HEAD + text, Path("x.toml")), check_every=1)
    result = runner.run()
    assert verify([History.of(result.meta, result.rows)]).violated() == []
    assert runner.processes.ledger.problems == []
    return result


def rows(result: Result, node: str, *kinds: str) -> list[Row]:
    return [row for row in result.rows[node] if row.layer == "isis" and row.kind in kinds]


def last_view(result: Result, node: str) -> list[str]:
    members = rows(result, node, "view")[-1].dests
    assert members is not UNSET
    return members


def at(time: str, verb: str) -> str:
    return f'[[at]]\ntime = "{time}"\n{verb}\n'


def test_processes_begin_and_join() -> None:
    result = run("")
    assert result.stack == result.meta.stack == "isis"
    assert [(row.process, row.label) for row in rows(result, "a", "begin")] == [("a:1:1", "x")]
    assert sorted(last_view(result, "a")) == ["a:1:1", "b:1:1"]
    assert rows(result, "c", "join", "view") == []


def test_casts_are_received_answered_and_counted() -> None:
    result = run(
        at("1s", 'cbcast = { process = "a.x", to = "bank", label = "x", count = 10 }')
        + at("1s", 'abcast = { process = "c.z", to = "bank", label = "queue", replies = "all" }')
        + at("2s", 'gbcast = { process = "c.z", group = "bank" }')
        + at("3s", 'cbcast = { process = "b.y", to = ["c.z", "a.x"], replies = 2 }')
        + at("3s", 'flush = { process = "a.x" }')
    )
    assert (result.messages, result.skipped, result.unsent) == (13, 0, 0)
    assert len(rows(result, "b", "receive")) == 12
    assert sorted(str(row.sender) for row in rows(result, "c", "answer")) == ["a:1:1", "b:1:1"]
    assert len(rows(result, "b", "answer")) == 2
    assert len(rows(result, "a", "flush")) == 1
    assert [row.replies for row in rows(result, "c", "abcast")] == [-1]


def test_joins_leaves_ranks_and_state() -> None:
    result = run(
        at("1s", 'cbcast = { process = "a.x", to = "bank", count = 20 }')
        + at("2s", 'rank = { process = "a.x", group = "bank", order = ["b.y", "a.x"] }')
        + at("2.5s", 'join = { process = "c.z", group = "bank" }')
        + at("3s", 'leave = { process = "a.x", group = "bank" }')
        + at("3.5s", 'join = { process = "a.x", group = "bank" }')
    )
    assert last_view(result, "b") == ["b:1:1", "c:1:1", "a:1:1"]
    assert len(rows(result, "a", "leave")) == 1
    assert {row.process for row in rows(result, "a", "state")} == {"a:1:1"}
    assert rows(result, "c", "state") == [], "it takes no state"
    assert result.skipped == 0


def test_what_is_refused_is_skipped() -> None:
    result = run(
        at("1s", 'cbcast = { process = "c.z", to = "nobody", count = 3 }')
        + at("1s", 'rank = { process = "a.x", group = "bank", order = ["a.x"] }')
        + at("1s", 'leave = { process = "c.z", group = "bank" }')
        + at("2s", 'partition = [["a"], ["b", "c"]]')
        + at("3.9s", 'cbcast = { process = "a.x", to = "bank" }')
    )
    assert (result.skipped, result.messages) == (4, 0)


def test_a_killed_process_is_gone_until_its_node_restarts() -> None:
    result = run(
        at("1s", 'kill = ["a.x"]')
        + at("2s", 'cbcast = { process = "b.y", to = "bank" }')
        + at("2.5s", 'crash = ["a"]')
        + at("3s", 'restart = ["a"]')
    )
    assert result.faults == 2
    assert [(row.kind, row.process) for row in rows(result, "a", "begin", "end")] == [
        ("begin", "a:1:1"),
        ("end", "a:1:1"),
        ("begin", "a:2:1"),
    ]
    assert [row.dests for row in rows(result, "b", "cbcast")] == [["b:1:1"]]
    assert last_view(result, "b") == ["b:1:1", "a:2:1"]


def test_a_site_that_was_cut_off_is_killed_and_its_process_joins_again() -> None:
    result = run(
        at("1s", 'join = { process = "c.z", group = "bank" }')
        + at("2s", 'partition = [["a"], ["b", "c"]]')
        + at("3.5s", "heal = true")
    )
    ended = [(row.kind, row.process) for row in rows(result, "a", "begin", "end")]
    assert ended == [("begin", "a:1:1"), ("end", "a:1:1"), ("begin", "a:1:2")]
    assert last_view(result, "b") == ["b:1:1", "c:1:1", "a:1:2"]


def test_steps_of_a_paused_node_wait_and_are_dropped_in_settle() -> None:
    result = run(
        at("1s", 'pause = ["a"]')
        + at("1.1s", 'cbcast = { process = "a.x", to = "bank" }')
        + at("1.2s", 'resume = ["a"]')
        + at("3.9s", 'pause = ["a"]')
        + at("3.9s", 'cbcast = { process = "a.x", to = "bank" }')
    )
    assert (result.messages, result.unsent) == (1, 1)


def test_a_load_casts_and_pauses_with_its_process() -> None:
    load = (
        '[[load]]\nprocesses = ["a.x", "b.y"]\ncast = "cbcast"\nto = "bank"\nrate = 10\nfrom = "1s"\nuntil = "3s"\n'
    )
    result = run(load + at("2s", 'kill = ["a.x"]'))
    assert (len(rows(result, "a", "cbcast")), len(rows(result, "b", "cbcast"))) == (10, 20)
    assert result.skipped == 0


def test_chaos_kills() -> None:
    text = '[chaos]\nfrom = "1s"\nfaults = ["kill"]\nmean_gap = "200ms"\n'
    scenario = parse_scenario(HEAD + text, Path("x.toml"))
    runner = Runner(scenario, check_every=1)
    result = runner.run()
    over = [row for node in "abc" for row in rows(result, node, "end")]
    assert len(over) == result.faults == 3, "none comes back, and then nobody is left"
    assert {kind for _, kind in result.coverage} == {"kill"}


def test_byte_for_byte(tmp_path: Path) -> None:
    scenario = tmp_path / "twice.toml"
    scenario.write_text(
        HEAD
        + '[[load]]\nprocesses = ["a.x", "c.z"]\ncast = "cbcast"\nto = "bank"\nrate = 20\n'
        + '[[load]]\nprocesses = ["b.y", "c.z"]\ncast = "abcast"\nto = "bank"\nreplies = "all"\nrate = 20\n'
        + at("2s", 'partition = [["a"], ["b", "c"]]')
        + at("3s", "heal = true")
    )
    one = simulate(scenario, tmp_path / "one", "1")
    two = simulate(scenario, tmp_path / "two", "4242")
    assert one == two
    assert b'"layer":"isis"' in one["a.jsonl"]


def test_a_restarted_site_that_meets_one_other_first_kills_nobody_there() -> None:
    """c comes back and meets a while b is cut off. Only a remembers: it was killed, and the group was gone."""
    result = run(
        at("1s", 'crash = ["c"]')
        + at("2s", 'partition = [["a", "c"], ["b"]]')
        + at("2s", 'restart = ["c"]')
        + at("3s", 'cbcast = { process = "a.x", to = "bank", count = 3 }')
        + at("3.2s", 'join = { process = "c.z", group = "bank" }')
    )
    assert rows(result, "a", "end") == []
    assert [view.view for view in rows(result, "a", "view")] == [1, 2, 3, 4, 5]
    assert {row.process for row in rows(result, "a", "cbcast")} == {"a:1:1"}
    assert len(rows(result, "b", "end")) == 1, "it was outside"
    for node in "abc":
        assert last_view(result, node) == ["a:1:1", "c:2:1", "b:1:2"]
