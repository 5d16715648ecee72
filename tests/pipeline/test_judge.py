"""Traces judged as they grow, on Spark: the verdict is that of `reconvene verify`, through torn lines and kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconvene.errors import Malformed
from reconvene.pipeline.judge.query import follow_traces, wait_for
from reconvene.pipeline.judge.verdict import Found, OnlineReport, Verdict
from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import run_scenario
from reconvene.trace.reader import read_run, read_trace
from reconvene.trace.writer import RUN_FILE, node_file, write_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.online.run import JUDGED

pytestmark = pytest.mark.long("half a minute of Spark")

ROOT = Path(__file__).parent.parent
SPARK_S = 300.0


class Growing:
    """A copy of a trace whose files grow by random pieces, that end anywhere in a line."""

    def __init__(self, source: Path, to: Path) -> None:
        self.to = to
        to.mkdir()
        (to / RUN_FILE).write_bytes((source / RUN_FILE).read_bytes())
        self._left = {node: node_file(source, node).read_bytes() for node in read_run(source).recorded}
        for node in self._left:
            node_file(to, node).touch()

    def grow(self, chance: random.Random, *, whole: bool = False) -> None:
        for node, data in self._left.items():
            size = len(data) if whole else chance.randrange(len(data) // 2 + 2)
            with node_file(self.to, node).open("ab") as file:
                file.write(data[:size])
            self._left[node] = data[size:]


def judged(spark: SparkSession, traces: Iterable[Path], checkpoint: Path, verdict: Verdict) -> OnlineReport:
    query = follow_traces(spark, list(traces), checkpoint, verdict.take, final=True)
    assert wait_for(query, SPARK_S)
    return verdict.report()


def is_that_of_verify(report: OnlineReport, traces: Iterable[Path]) -> None:
    batch = verify(History.load(trace) for trace in traces)
    assert (report.runs, report.events) == (batch.runs, batch.events)
    assert report.checks == [check for check in batch.checks if check.id in JUDGED]
    assert {check.id for check in batch.checks} - set(JUDGED) == set(report.not_judged)


def ignore(found: Found) -> None:
    pass


@pytest.mark.parametrize("seed", [1, 2])
def test_golden_traces_that_grow_by_pieces(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    golden = [each for kind in ("good", "bad") for each in sorted((ROOT / "golden" / kind).iterdir())]
    growing = [Growing(each, tmp_path / each.name) for each in chance.sample(golden, 40)]
    traces = [each.to for each in growing]
    for turn in range(3):
        for each in growing:
            each.grow(chance, whole=turn == 2)
        verdict = Verdict(ignore)
        query = follow_traces(spark, traces, tmp_path / "checkpoint", verdict.take, every="100 milliseconds")
        deadline = time.monotonic() + SPARK_S
        while len(verdict.told()) < len(traces) and time.monotonic() < deadline:
            assert not wait_for(query, 0.2)
        query.stop()
    verdict = Verdict(ignore)
    is_that_of_verify(judged(spark, traces, tmp_path / "checkpoint", verdict), traces)


def simulated(directory: Path) -> Path:
    made = run_scenario(load_scenario(ROOT.parent / "scenarios" / "log-minority.toml"), seed=5)
    write_trace(directory, made.meta, made.rows)
    return directory


def test_a_violation_is_found_while_the_run_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    trace = simulated(tmp_path / "trace")
    found: list[Found] = []
    verdict = Verdict(found.append)
    query = follow_traces(spark, [trace], tmp_path / "checkpoint", verdict.take, every="200 milliseconds")
    wait_until(query, lambda: any(told.rows for told in verdict.told()))
    node = read_run(trace).nodes[0]
    last = read_trace(trace).rows[node][-1]
    row = {"node": node, "inc": last.inc, "n": last.n + 1, "t": last.t, "layer": "corel", "kind": "log"}
    with node_file(trace, node).open("ab") as file:
        file.write(json.dumps({**row, "msg": f"{node}:1:99999", "ts": [1]}).encode() + b"\n")
    wait_until(query, lambda: bool(found))
    query.stop()
    assert [(each.check, each.witness.node, each.witness.n) for each in found] == [("corel.3.1", node, last.n + 1)]
    report = judged(spark, [trace], tmp_path / "checkpoint", verdict)
    assert not report.ok
    is_that_of_verify(report, [trace])


def wait_until(query: object, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SPARK_S
    while not done():
        assert time.monotonic() < deadline
        assert not wait_for(query, 0.2)  # type: ignore[arg-type]


def test_a_file_that_became_shorter_is_refused_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    trace = simulated(tmp_path / "trace")
    judged(spark, [trace], tmp_path / "checkpoint", Verdict(ignore))
    path = node_file(trace, read_run(trace).nodes[1])
    whole = path.stat().st_size
    os.truncate(path, whole - 100)
    with pytest.raises(Malformed) as refused:
        judged(spark, [trace], tmp_path / "checkpoint", Verdict(ignore))
    assert str(refused.value) == (
        f"{path}: has {whole - 100} bytes, and {whole} were read before; expected a trace that only grows"
    )


def test_a_line_that_is_no_event_is_refused_with_its_number(spark: SparkSession, tmp_path: Path) -> None:
    trace = simulated(tmp_path / "trace")
    path = node_file(trace, read_run(trace).nodes[0])
    lines = path.read_bytes().count(b"\n")
    judged(spark, [trace], tmp_path / "checkpoint", Verdict(ignore))
    with path.open("ab") as file:
        file.write(b'{"node": 7}\n')
    with pytest.raises(Malformed, match=f"{path.name}:{lines + 1}: expected an event"):
        judged(spark, [trace], tmp_path / "checkpoint", Verdict(ignore))


def test_a_judge_that_is_killed_goes_on_where_its_checkpoint_is(tmp_path: Path) -> None:
    chance = random.Random(7)
    growing = Growing(simulated(tmp_path / "whole"), tmp_path / "trace")
    command = [sys.executable, "-m", "reconvene", "judge", str(growing.to), "--checkpoint", str(tmp_path / "kept")]
    status = growing.to / "judge.json"
    for _ in range(2):
        growing.grow(chance)
        size = sum(file.stat().st_size for file in growing.to.glob("*.jsonl"))
        status.unlink(missing_ok=True)
        process = subprocess.Popen([*command, "--follow"], start_new_session=True, stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + SPARK_S
            while not status.exists():
                assert process.poll() is None
                assert time.monotonic() < deadline, size
                time.sleep(0.1)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    growing.grow(chance, whole=True)
    ended = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=SPARK_S, check=False)
    report = json.loads(ended.stdout)
    batch = subprocess.run(
        [sys.executable, "-m", "reconvene", "verify", str(growing.to), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    wanted = json.loads(batch.stdout)
    assert ended.returncode == 0
    assert report["checks"] == [check for check in wanted["checks"] if check["id"] in JUDGED]
    assert {*wanted, "not_judged"} == set(report)
    assert (report["events"], report["engine"]) == (wanted["events"], "online")


def test_what_can_not_be_judged_is_refused_before_spark_starts(tmp_path: Path) -> None:
    for arguments, says in (
        ([], "expected either --dir DIR or TRACE"),
        ([str(tmp_path / "none")], "expected a trace directory"),
        ([str(ROOT / "golden" / "good-domains" / "casts")], "is a trace of domains"),
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "reconvene", "judge", *arguments], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 2
        assert says in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
