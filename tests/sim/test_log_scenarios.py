"""Scenarios of the durable log, from the file to the verdict, and what each of the shipped ones shows. Those are
verified in test_scenarios.py."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from msgspec import UNSET
from tests.once import Once
from tests.sim.chunks import in_chunks
from tests.sim.shipped import FOLDER, play
from typer.testing import CliRunner

from reconvene.cli.sim import sim_command
from reconvene.cli.verify import verify_command
from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.parse import load_scenario, parse_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.verify.engine import verify
from reconvene.verify.history import History

HEAD = 'name = "x"\nnodes = ["a", "b", "c"]\nstack = "corel"\nduration = "3s"\nsettle = "3s"\n'
SECOND = 10**9


def judged(runner: Runner) -> Result:
    """Runs it. No check is violated, and every replica has what was appended."""
    ledger = ReplicaLedger(runner.cluster)
    result = runner.run()
    assert verify([History.of(result.meta, result.rows)]).violated() == []
    assert ledger.problems(runner.scenario.quorum) == []
    return result


def run(text: str) -> Result:
    return judged(Runner(parse_scenario(HEAD + text, Path("x.toml")), check_every=1))


def happened(result: Result, node: str, kind: str, author: str = "") -> list[tuple[float, str]]:
    """(seconds, message) of a node's events."""
    return [
        (row.t / SECOND, row.msg)
        for row in result.rows[node]
        if row.kind == kind and row.msg is not UNSET and row.msg.startswith(author)
    ]


def command(function: Callable[..., None], *arguments: object) -> dict[str, Any]:
    app = typer.Typer()
    app.command()(function)
    told = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert told.exit_code == 0
    document: dict[str, Any] = json.loads(told.stdout)
    return document


def test_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(HEAD + '[[load]]\nnodes = ["a"]\nappend = true\nrate = 10\n')
    summary = command(sim_command, file, "--trace", tmp_path / "trace")
    assert (summary["stack"], summary["messages"], summary["settled"]) == ("corel", 30, True)
    meta = json.loads((tmp_path / "trace" / "run.json").read_text())
    assert (meta["stack"], meta["quorum"]) == ("corel", {"kind": "majority"})
    verdict = command(verify_command, tmp_path / "trace")
    cases = {check["id"]: check["cases"] for check in verdict["checks"]}
    assert cases["corel.3.8"] > 0


def test_messages_are_what_applications_said() -> None:
    result = run(
        'at = [{ time = "1s", append = { node = "a", count = 5 } },'
        ' { time = "1s", send = { node = "b", count = 3 } }]'
    )
    assert result.messages == 8
    assert len(happened(result, "c", "green")) == 5
    assert sum(row.kind == "send" for rows in result.rows.values() for row in rows) > 8, "the log's own are more"


def test_an_append_and_a_crash_at_the_same_time() -> None:
    result = run('at = [{ time = "1s", append = { node = "a" } }, { time = "1s", crash = ["a"] }]')
    assert result.messages == 0, "no sync had ended by then"


def test_with_chaos_an_append_at_a_node_that_is_down_is_skipped() -> None:
    result = run(
        'at = [{ time = "1s", crash = ["a"] }, { time = "2s", append = { node = "a" } }]\n'
        '[chaos]\nfaults = ["loss"]\nfrom = "3s"'
    )
    assert (result.skipped, result.messages) == (1, 0)


def test_a_paused_node_appends_when_it_goes_on() -> None:
    result = run(
        'at = [{ time = "1s", pause = ["a"] }, { time = "1s", append = { node = "a" } },'
        ' { time = "2s", resume = ["a"] }]'
    )
    assert [round(t, 1) for t, _ in happened(result, "a", "accept")] == [2.0]


def test_nothing_is_appended_in_settle_and_what_was_accepted_goes_on() -> None:
    result = run(
        'at = [{ time = "0s", partition = [["a"], ["b"], ["c"]] }]\n[[load]]\nnodes = ["a"]\nappend = true\nrate = 20'
    )
    accepted, green = happened(result, "a", "accept"), happened(result, "a", "green")
    assert max(accepted)[0] <= 3.1
    assert min(green)[0] > 3.0
    assert [message for _, message in green] == [message for _, message in accepted]


def test_plain_messages_beside_the_log_survive_changes() -> None:
    result = run(
        '[[load]]\nnodes = ["a", "b"]\nservice = "safe"\nrate = 50\n'
        '[[load]]\nnodes = ["c"]\nappend = true\nrate = 50\n'
        '[[at]]\ntime = "1s"\npartition = [["a"], ["b", "c"]]\n[[at]]\ntime = "2s"\nheal = true'
    )
    assert result.messages >= 440, "no site was down, so all of the 450 but the last ones were taken"


def test_the_same_seed_gives_the_same_trace(once: Once) -> None:
    one = play(once, "log-storm", 1)
    two = Runner(load_scenario(FOLDER / "log-storm.toml"), 1).run()
    assert one.rows == two.rows
    assert one.meta == two.meta
    assert one.meta.quorum == {"kind": "majority"}, "nothing changes the replicas"


def test_a_majority_orders_and_a_minority_accepts(once: Once) -> None:
    result = play(once, "log-minority")
    parted = [t for t, _ in happened(result, "a", "green") if 2.5 < t < 5]
    assert parted == [], "a is in a minority"
    assert len([t for t, _ in happened(result, "a", "accept") if 2.5 < t < 5]) > 20
    assert len([t for t, _ in happened(result, "c", "green") if 2.5 < t < 5]) > 50
    assert len(happened(result, "a", "green")) == result.messages


def test_an_author_that_is_never_in_a_majority(once: Once) -> None:
    result = play(once, "log-traveller")
    assert {len(row.members) for row in result.rows["a"] if row.members is not UNSET} <= {1, 2}
    assert len(happened(result, "b", "green", "a:")) == 10


def test_two_sites_evenly_split(once: Once) -> None:
    result = play(once, "log-two-sites")
    for node in "ab":
        green = happened(result, node, "green")
        assert len(green) == result.messages == 150
        assert min(green)[0] > 4, "neither orders alone"


def test_all_crash(once: Once) -> None:
    result = play(once, "log-all-crash")
    accepted = {message for node in "abcde" for _, message in happened(result, node, "accept")}
    for node in "abcde":
        assert {message for _, message in happened(result, node, "green")} == accepted


def test_a_grid_is_not_a_majority(once: Once) -> None:
    result = play(once, "log-grid")
    assert result.meta.quorum["kind"] == "grid"
    established = [row.members for row in result.rows["e"] if row.kind == "establish"]
    assert list("adef") in established
    assert list("bcef") not in established


def test_dynamic_voting_goes_on_from_the_last_primary_component(once: Once) -> None:
    result = play(once, "log-dynamic")
    assert result.meta.quorum == {"kind": "dynamic", "minimum": 2}

    def established(node: str) -> list[object]:
        return [row.members for row in result.rows[node] if row.kind == "establish"]

    assert established("a") == [list("abcde"), list("abc"), list("ab"), list("ade")]
    assert established("c") == [list("abcde"), list("abc")]
    assert verify([History.of(result.meta, result.rows)]).violated() == []


@pytest.mark.parametrize("seed", in_chunks(2, 1))
def test_a_storm(seed: int, once: Once) -> None:
    result = play(once, "log-storm", seed + 1)
    assert verify([History.of(result.meta, result.rows)]).violated() == []
    assert result.faults > 10
