"""The Corosync peer: its configuration, and that each measurement runs and leaves no daemon behind."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconvene.errors import Unavailable
from reconvene.lab.bench import foreign
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.peers import corosync, cpg
from reconvene.lab.bench.peers.corosync import Corosync, Options, configuration

REASON = corosync.available()
needs_corosync = pytest.mark.skipif(REASON is not None, reason=REASON or "")

QUICK = Options(sched_rr=False, token_ms=400, token_coefficient_ms=0, consensus_ms=480, join_ms=30)
"""Not real-time, so that tests do not disturb other programs."""


@pytest.fixture(autouse=True)
def _no_daemon_outlives_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    started: list[subprocess.Popen[bytes]] = []
    start = Corosync._start

    def noted(self: Corosync, index: int) -> subprocess.Popen[bytes]:
        started.append(start(self, index))
        return started[-1]

    monkeypatch.setattr(Corosync, "_start", noted)
    yield
    assert [daemon.pid for daemon in started if daemon.poll() is None] == []


def test_configuration_by_default() -> None:
    text = configuration(Options(), ["10.0.0.1", "10.0.0.2"], Path("/x"))
    assert "transport: udpu" in text
    assert "sched_rr: yes" in text
    assert "crypto_cipher: none" in text
    assert text.count("ring0_addr") == 2
    assert "state_dir: /x" in text
    assert not {"token:", "window_size:", "netmtu:", "consensus:"} & set(text.split())


def test_configuration_with_all() -> None:
    options = Options(
        mtu=9000, netmtu=8900, sched_rr=False, token_ms=200, token_coefficient_ms=0, consensus_ms=240, join_ms=30,
        window_size=256, max_messages=64,
    )  # fmt: skip
    lines = {line.strip() for line in configuration(options, ["10.0.0.1"], Path("/x")).splitlines()}
    assert lines >= {
        *("netmtu: 8900", "sched_rr: no", "token: 200", "token_coefficient: 0", "consensus: 240", "join: 30"),
        *("window_size: 256", "max_messages: 64"),
    }


def test_why_it_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None)
    assert corosync.available() == "no corosync (package corosync)"


@needs_corosync
def test_daemons_form_and_end() -> None:
    with Corosync(QUICK) as ring:
        folder = ring.folder
        for daemon in ring.daemons:
            assert Path(f"/proc/{daemon.pid}/comm").read_text() == "corosync\n", "what we end is the daemon itself"
        assert not ring.real_time()
        assert "Corosync Cluster Engine" in ring.log(0)
    assert not folder.exists()


@needs_corosync
def test_a_bad_configuration_is_reported() -> None:
    with pytest.raises(Unavailable, match="corosync ended"), Corosync(replace(QUICK, transport="pigeons")):
        pass


@needs_corosync
def test_throughput() -> None:
    result = cpg.throughput(100, 0.5, QUICK)
    assert result.per_second > 0
    assert not result.real_time
    assert result.foreign_cores >= 0


@needs_corosync
def test_latency() -> None:
    result = cpg.latency(100, QUICK)
    assert 0 < result.self_p50 <= result.self_p99
    assert result.slowest_p50 >= result.self_p50
    assert result.slowest_p99 >= result.self_p99


@needs_corosync
def test_reconfiguration() -> None:
    result = cpg.reconfiguration(QUICK, heals=1)
    # The wait for a token takes that long; the rest depends on the machine.
    assert result.crash_ms >= 400
    assert result.cut_ms >= 400
    assert result.heal_ms > 0


@needs_corosync
def test_a_load_that_dies_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text('#include <stdio.h>\nint main(void) { fputs("out of cheese\\n", stderr); return 1; }\n')
    monkeypatch.setattr(cpg, "SOURCE", broken)
    with pytest.raises(Unavailable, match="out of cheese"):
        cpg.throughput(100, 0.5, QUICK)


def test_foreign_load_is_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.times_result((0.0, 0.0, 0.0, 0.0, 0.0))
    # 2 s pass, in which the machine is busy for 3 s, of which 1.2 s are those of a process of ours.
    moments, busy, spent = iter([100.0, 102.0]), iter([50.0, 53.0]), iter([7.0, 8.2])
    monkeypatch.setattr(foreign, "monotonic", lambda: next(moments))
    monkeypatch.setattr(foreign, "_busy_s", lambda: next(busy))
    monkeypatch.setattr(foreign, "spent_s", lambda pid: next(spent))
    monkeypatch.setattr(os, "times", lambda: own)
    with Foreign(lambda: [4321]) as load:
        pass
    assert load.cores == pytest.approx(0.9)


def test_foreign_load_of_this_machine() -> None:
    with Foreign() as load:
        pass
    assert load.cores >= 0
