"""Outposts of the log under faults: what they accepted becomes green once, in their order.

Planted bugs in them are caught by name.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.sim.chunks import in_chunks

from reconvene.lab.campaign.seeds import run_seed
from reconvene.outpost.outpost import Outpost
from reconvene.outpost.queue import Batch
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.storage.tables import Reader
from reconvene.trace.events import Row
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.wire.client_log import Confirm, Forward

STORM = """
name = "outposts-storm"
nodes = ["a", "b", "c"]
outposts = ["o", "p"]
{more}
stack = "corel"
duration = "8s"
settle = "8s"
[[load]]
nodes = ["a", "o", "p"]
append = true
rate = 40
size = 64
until = "7s"
[chaos]
from = "500ms"
until = "7s"
faults = ["partition", "crash", "cut", "pause", "loss", "disk", "full", "sync", "clock"]
mean_gap = "300ms"
"""

CUT_OFF = """
name = "outposts-cut-off"
nodes = ["a", "b", "c"]
outposts = ["o"]
stack = "corel"
duration = "6s"
settle = "4s"
[[at]]
time = "500ms"
partition = [["a", "b", "c"], ["o"]]
[[at]]
time = "1s"
append = {{ node = "o", count = 200, size = 64 }}
[[at]]
time = "1500ms"
crash = ["o"]
[[at]]
time = "2s"
restart = ["o"]
[[at]]
time = "2500ms"
append = {{ node = "o", count = 100, size = 64 }}
[[at]]
time = "3s"
heal = true
[[at]]
time = "3050ms"
crash = ["a", "b"]
[[at]]
time = "4s"
restart = ["a", "b"]
"""


def run(text: str, seed: int, more: str = "", outpost: type[Outpost] = Outpost) -> tuple[Runner, Result]:
    scenario = parse_scenario(text.format(more=more), Path("outposts.toml"))
    runner = Runner(scenario, seed, check_every=20, outpost=outpost)
    return runner, runner.run()


def violated(result: Result) -> set[str]:
    report = verify([History.of(result.meta, result.rows)])
    return {check.id for check in report.checks if check.violations}


def accepts(rows: Sequence[Row]) -> list[str]:
    return [str(row.msg) for row in rows if row.kind == "accept"]


def greens(rows: Sequence[Row]) -> list[str]:
    return [str(row.msg) for row in rows if row.kind == "green"]


def test_a_cut_off_outpost_accepts_and_its_messages_are_ordered_after_the_heal() -> None:
    runner, result = run(CUT_OFF, 1)
    assert violated(result) == set()
    accepted = accepts(result.rows["o"])
    assert len(accepted) == 300
    assert accepted[0] == "o:1:1"
    assert accepted[-1] == "o:2:300", "the counter goes on, with the next incarnation"
    for name in "abc":
        assert [msg for msg in greens(result.rows[name]) if msg.startswith("o:")] == accepted
    (outpost,) = runner.cluster.outposts
    assert outpost.outpost is not None
    assert outpost.outpost.queue.messages == 0


@pytest.mark.parametrize("seed", in_chunks(6, 1))
def test_faults_lose_double_and_reorder_nothing(seed: int) -> None:
    _, result = run(STORM, seed)
    assert violated(result) == set()
    assert len(accepts(result.rows["o"])) > 50


@pytest.mark.parametrize("seed", in_chunks(2, 1))
def test_followers_see_the_outposts_ids_too(seed: int) -> None:
    _, result = run(STORM, seed, 'followers = ["f"]')
    assert violated(result) == set()
    assert any(msg.startswith("o:") for msg in greens(result.rows["f"]))


@pytest.mark.long("seconds; test_log_scenarios.py has it for the log")
def test_the_same_seed_makes_the_same_trace() -> None:
    _, one = run(STORM, 3)
    _, two = run(STORM, 3)
    assert one.rows == two.rows


def test_the_copy_that_counts_is_green_under_the_outposts_id() -> None:
    """Two replicas have a copy of an outpost's message, one of them crashed and logged its own under a later
    timestamp than others have for it: so it took the other copy for the first one, which it was not in the end."""
    assert run_seed("outposts", 19).violations == {}


# -- planted bugs


class AnswersBeforeTheSync(Outpost):
    def flush(self, now: int, time: int):  # type: ignore[no-untyped-def]
        turn = super().flush(now, time)
        if turn.token:
            turn.accepted += [
                (batch.first, batch.count, batch.incarnation)
                for batch in self.queue.batches
                if batch.last > self.queue.durable
            ]
        return turn

    def _report(self, batches: Sequence[Batch]) -> None:
        """It did so before."""


class ResendsOutOfOrder(Outpost):
    """What is sent after a lost connection begins with the newest."""

    def flush(self, now: int, time: int):  # type: ignore[no-untyped-def]
        turn = super().flush(now, time)
        forwards = [request for request in turn.requests if isinstance(request, Forward)]
        others = [request for request in turn.requests if isinstance(request, Confirm)]
        for request in forwards:
            request.after = request.number - 1  # so that the site does not notice
        turn.requests = [*reversed(forwards), *others]
        return turn


class NewSessionAfterARestart(Outpost):
    def __init__(self, name: str, sites: int, tables: Reader, limits: object = None) -> None:
        super().__init__(name, sites, tables, limits)  # type: ignore[arg-type]
        self.queue.record.identity = self.incarnation.to_bytes(16, "big")


@pytest.mark.parametrize("mutant", [AnswersBeforeTheSync, ResendsOutOfOrder, NewSessionAfterARestart])
def test_a_planted_bug_is_caught(mutant: type[Outpost]) -> None:
    for seed in range(20):
        _, result = run(STORM, seed, outpost=mutant)
        if "corel.follow" in violated(result):
            return
    raise AssertionError(f"{mutant.__name__} was not caught by corel.follow in 20 seeds")
