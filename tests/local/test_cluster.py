"""Clusters of real processes: started, partitioned, healed, stopped, and their traces judged."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconvene.errors import Rejected, Unavailable
from reconvene.local import LocalCluster, ports, steady
from reconvene.local.processes import wait_ended
from reconvene.trace.reader import read_run
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

EAGER = {"timing": {"suspect_base": "350ms"}}
"""Silent sites are suspected sooner, so that tests take less time."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster.create(tmp_path / "c", nodes=3, settings=EAGER) as made:
        yield made


def judge(trace: Path) -> Report:
    report = verify([History.load(trace)])
    assert report.ok, report.violated()
    return report


def cases(report: Report, check: str) -> int:
    return next(found.cases for found in report.checks if found.id == check)


@pytest.mark.long("starts a cluster; tests/cli/test_operations.py has one from up to down")
def test_a_life(cluster: LocalCluster) -> None:
    cluster.start()
    assert cluster.states() == {"a": "up", "b": "up", "c": "up"}
    assert sorted(cluster.pids) == ["a", "b", "c"]
    assert {status["health"] for status in cluster.statuses().values()} == {"primary"}
    assert read_run(cluster.trace_dir).settled is False
    with pytest.raises(Rejected, match="holds a running cluster"):
        cluster.start()

    cluster.partition([["a"], ["b", "c"]])
    found = cluster.wait_for()
    assert found["a"]["members"] == ["a"]
    assert found["a"]["health"] == "minority"
    assert found["b"]["members"] == ["b", "c"]
    assert read_run(cluster.trace_dir).components == [["a"], ["b", "c"]]

    cluster.crash("c")
    assert cluster.state("c") == "down"
    assert read_run(cluster.trace_dir).down == ["c"]
    cluster.restart("c")
    found = cluster.wait_for()
    assert found["c"]["incarnation"] == 2
    assert found["c"]["blocked"] == {"incoming": ["a"], "outgoing": ["a"]}, "it starts into the partition"
    assert found["c"]["members"] == ["b", "c"]

    cluster.pause("b")
    assert [view.state for view in cluster.sites()] == ["up", "paused", "up"]
    cluster.partition([["a", "b"], ["c"]])
    cluster.wait_for([["a"], ["c"]])
    cluster.resume("b")
    found = cluster.wait_for()
    assert found["b"]["blocked"] == {"incoming": ["c"], "outgoing": ["c"]}, "it applies the partition when it resumes"
    assert found["b"]["members"] == ["a", "b"]

    cluster.heal()
    cluster.wait_for([["a", "b", "c"]])
    with steady(cluster.trace_dir) as still:
        assert still != cluster.trace_dir
        judge(still)
    assert set(cluster.states().values()) == {"up"}
    report = judge(cluster.finish_trace(quiet_s=1.5))
    assert read_run(cluster.trace_dir).settled
    assert cases(report, "live.membership") == 3
    assert not cluster.running()
    assert cluster.stop() == []
    assert read_run(cluster.trace_dir).settled, "an end that is known is not forgotten"


@pytest.mark.long("starts a cluster")
def test_killed_by_someone_else(tmp_path: Path) -> None:
    with LocalCluster.create(tmp_path / "c", nodes=2) as cluster:
        _killed_by_someone_else(cluster)


def _killed_by_someone_else(cluster: LocalCluster) -> None:
    cluster.start()
    before = cluster._fleet.processes()
    for process in before.values():
        os.kill(process.pid, signal.SIGKILL)
    assert wait_ended(before.values(), 5) == []
    assert set(cluster.states().values()) == {"down"}
    assert all(view.status is None for view in cluster.sites())
    judge(cluster.trace_dir)
    with pytest.raises(Rejected, match="no site is up"):
        cluster.heal()
    cluster.start()
    assert {status["incarnation"] for status in cluster.statuses().values()} == {2}
    assert cluster.stop() == []
    assert read_run(cluster.trace_dir).down == ["a", "b"]
    assert read_run(cluster.trace_dir).settled is False, "no tool has seen the cluster at rest"
    judge(cluster.trace_dir)


@pytest.mark.long("starts a cluster")
def test_rest_is_claimed_where_it_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconvene.local.traces.QUIET_S", 0.5)
    with LocalCluster.create(tmp_path / "c", nodes=1) as alone:
        alone.start()
        alone.settle(quiet_s=0.5)
        assert alone.stop() == []
        assert read_run(alone.trace_dir).settled
        judge(alone.trace_dir)
        alone.start()
        assert alone.stop(timeout_s=0.0) == ["a"], "no time to leave"
        assert not read_run(alone.trace_dir).settled


def test_a_site_that_dies_at_once(tmp_path: Path) -> None:
    with LocalCluster.create(tmp_path / "c", nodes=1, settings={"limits": {"processes": "many"}}) as cluster:
        with pytest.raises(Unavailable, match=r"site a has ended; .*\n.*limits.processes: expected"):
            cluster.start()
        assert not cluster.running()


@pytest.mark.long("starts a cluster")
def test_ports_that_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = ports.choose(2)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken,
        LocalCluster.create(tmp_path / "c", nodes=1, trace=False) as cluster,
    ):
        taken.bind((ports.LOOPBACK, 0))
        answers = [[taken.getsockname()[1], free[0]], free]
        monkeypatch.setattr("reconvene.local.ports.choose", lambda count: answers.pop(0))
        cluster.start()
        assert answers == []
        assert cluster.choices.sites["a"].datagrams == free[0]
        cluster.crash("a")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thief:
            thief.bind((ports.LOOPBACK, free[0]))
            with pytest.raises(Unavailable, match=f"port {free[0]} on 127.0.0.1 is in use by another program"):
                cluster.restart("a")
        cluster.restart("a")
        with pytest.raises(Rejected, match="writes no trace"):
            cluster.settle()
        assert not cluster.trace_dir.exists()


def test_what_can_not_be_asked(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "c")
    for problem, ask in (
        ("there is no site 'x'; expected some of a, b, c", lambda: cluster.crash("x")),
        ("site a is not up", lambda: cluster.crash("a")),
        ("a site is named twice", lambda: cluster.restart("a", "a")),
        ("site b is not paused", lambda: cluster.resume("b")),
        ("expected at least one site", lambda: cluster.pause()),
        ("there is no site 'y'", lambda: cluster.wait_for([["y"]])),
        ("no site is up", lambda: cluster.partition([["a"]])),
    ):
        with pytest.raises(Rejected, match=problem):
            ask()


def test_who_does_not_come_in_time(tmp_path: Path) -> None:
    with LocalCluster.create(tmp_path / "c", nodes=2, settings=EAGER) as cluster:
        cluster.start()
        cluster.partition([["a"], ["b"]])
        cluster.wait_for()
        started = time.monotonic()
        with pytest.raises(Unavailable, match=r"not in the configurations a,b after 0.1 s: a is in \d+ of"):
            cluster.wait_for([["a", "b"]], timeout_s=0.1)
        assert time.monotonic() - started < 5
        cluster.crash("b")
        with pytest.raises(Unavailable, match="site b has ended"):
            cluster.wait_for([["a"], ["b"]])
