"""bench agreed: its rows and targets, the bare loop, and a short run of real sites."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from reconvene.cli import main
from reconvene.errors import Unavailable
from reconvene.lab import namespaces
from reconvene.lab.bench import Settings, agreed, sites
from reconvene.lab.bench.agreed import DEFAULT, NOT_RR, TUNED, Figure
from reconvene.lab.bench.limit import Limit, bare
from reconvene.lab.bench.peers.corosync import Options
from reconvene.lab.bench.rounds import OwnSitesFailed, in_turns, spread
from reconvene.lab.bench.sheet import Sheet
from reconvene.lab.bench.sites import Setup, Throughput
from reconvene.local.ports import choose

COUNTED = {"sent_datagrams": 400, "sent_bytes": 400_000, "sent_messages": 2_000}


def ours(per_second: float) -> Throughput:
    return Throughput(per_second, (0.5,) * 3, (0.1,) * 3, (COUNTED,) * 3, 0.25)


def canned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our figure is 500,000, Corosync's 100,000, for any size; namespaces work."""
    monkeypatch.setattr(namespaces, "available", lambda: None)

    def measure_ours(setup: Setup, sizes: tuple[int, ...], settings: Settings) -> object:
        return lambda: {(setup.system, size): Figure(500_000, 0.25, ours(500_000)) for size in sizes}

    def measure_theirs(system: str, settings: Settings) -> object:
        return lambda: {
            (system, size): Figure(100_000, 0.5) for size in agreed.SIZES if (system, size) not in agreed.STALLS
        }

    monkeypatch.setattr(agreed, "_ours", measure_ours)
    monkeypatch.setattr(agreed, "_theirs", measure_theirs)
    monkeypatch.setattr(agreed, "bare", lambda setup, size, count: Limit(1_000, 0.4))


def test_rows_and_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    canned(monkeypatch)
    sheet = agreed.run(Settings(peers=("corosync",)))
    by_key = {(row.work, row.system): row for row in sheet.rows}
    row = by_key["agreed 100 B", "reconvene, MTU 1500"]
    assert (row.value, row.unit, row.against, row.ratio) == (500_000, "messages/s", DEFAULT, 5.0)
    assert by_key["agreed 1 KiB", "reconvene not sealed, MTU 9000"].against == TUNED
    assert by_key["agreed 10 KiB", "reconvene, MTU 1500"].ratio is None, "Corosync has no such figure"
    assert by_key["agreed 100 B", "reconvene, loopback"].ratio is None, "another path"
    assert ("agreed 1 KiB", "reconvene, MTU 1500, frames of 60,000 B") in by_key
    assert ("agreed 100 B", NOT_RR) in by_key
    bars = next(table for table in sheet.tables if table.title.startswith("bars"))
    assert {line[-1] for line in bars.lines} == {"met"}
    assert {line[0] for line in bars.lines} == {
        "agreed 100 B, MTU 1500: at least 4 times its default",
        "agreed 1 KiB, MTU 1500: at least 2 times its default at MTU 1500",
        "agreed 1 KiB, MTU 9000: at least 2 times its best",
        "agreed 10 KiB, MTU 9000: at least 1.5 times its best",
    }
    # 400 datagrams of each site in 2 s; a bare loop does 1,000 a second.
    datagrams = by_key["agreed 100 B: datagrams that a site sends", "reconvene, loopback"]
    assert (datagrams.value, datagrams.ratio) == (200, 0.2)


def test_a_bar_that_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    canned(monkeypatch)
    monkeypatch.setattr(agreed, "BARS", (replace(agreed.BARS[0], times=6.0),))
    sheet = agreed.run(Settings(quick=True, peers=("corosync",)))
    bars = next(table for table in sheet.tables if table.title.startswith("bars"))
    assert {line[-1] for line in bars.lines} == {"missed"}
    assert "missed: agreed 100 B, MTU 1500: at least 6 times its default: 5.00" in sheet.notes


def test_without_a_peer_and_without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    canned(monkeypatch)
    monkeypatch.setattr(namespaces, "available", lambda: "network namespaces need root")
    sheet = agreed.run(Settings(quick=True))
    assert {row.system for row in sheet.rows} == {"reconvene, loopback", "bare loop, loopback, 1,000 B"}
    assert sheet.notes[0] == "on loopback only: network namespaces need root"


def test_rounds_go_in_turns_and_outlive_a_failure() -> None:
    done = []

    def measure(name: str) -> dict[str, int]:
        done.append(name)
        if done.count(name) == 2 and name == "b":
            raise Unavailable("it stalled")
        return {name: len(done)}

    sheet = Sheet("agreed")
    found = in_turns(sheet, Settings(), {"a": lambda: measure("a"), "b": lambda: measure("b")})
    assert done == ["a", "b"] * 3
    assert found == {"a": [1, 3, 5], "b": [2, 6]}
    assert sheet.notes == ["b: no figure in round 2: it stalled"]


def test_rounds_in_which_all_fail() -> None:
    def fail() -> dict[str, int]:
        raise Unavailable("no")

    with pytest.raises(Unavailable, match="a: no figure in round 1: no"):
        in_turns(Sheet("agreed"), Settings(quick=True), {"a": fail})


def test_rounds_end_where_our_own_sites_fail() -> None:
    done = []

    def fail() -> dict[str, int]:
        done.append("ours")
        raise OwnSitesFailed("the disk is full")

    def go_on() -> dict[str, int]:
        done.append("theirs")
        return {"theirs": 1}

    with pytest.raises(OwnSitesFailed, match="ours: round 1: our own sites failed: the disk is full"):
        in_turns(Sheet("agreed"), Settings(), {"ours": fail, "theirs": go_on})
    assert done == ["ours"]


def test_a_bench_whose_sites_do_not_start_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of three sites can't start; the other two would wait for it."""
    configure = sites._configure

    def spoil(*arguments: Any) -> list[Path]:
        files = configure(*arguments)
        files[-1].write_text(files[-1].read_text() + "nonsense = 1\n")
        return files

    monkeypatch.setattr(sites, "_configure", spoil)
    monkeypatch.setattr(namespaces, "available", lambda: "not here")
    began = monotonic()
    with pytest.raises(SystemExit) as exit_:
        main(["bench", "agreed", "--quick"])
    assert exit_.value.code == 1
    assert monotonic() - began < sites.JOIN_TIMEOUT_S / 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("reconvene: reconvene, loopback: round 1: our own sites failed: reconvene: ")
    assert "nonsense" in line


def test_spread() -> None:
    assert spread([3.0, 1.0], lambda value: f"{value:.0f}") == "1–3"
    assert spread([1.1, 1.2], lambda value: f"{value:.0f}") == "1"


def test_peers_run_with_their_options() -> None:
    assert agreed.COROSYNC[DEFAULT] == Options()
    assert agreed.COROSYNC[TUNED] == Options(mtu=9000, netmtu=8900, window_size=256, max_messages=64)


@pytest.mark.long("a bench of real sites")
def test_real_sites() -> None:
    with sites.running(Setup(), "throughput") as running:
        first = running.throughput(100, 0.2)
        second = running.throughput(3_000, 0.2, profile=True)
        pids = running.pids
    for got in (first, second):
        assert got.per_second > 0
        assert len(got.cpu) == 3
        assert got.total("sent_datagrams") > 0
    assert first.profile.total() == 0
    assert all(not _runs(pid) for pid in pids)


def test_a_site_that_dies_is_reported() -> None:
    with sites.running(Setup(2), "throughput") as running:
        os.kill(running.pids[0], signal.SIGKILL)
        running.loads[0].process.wait(10)
        with pytest.raises(Unavailable, match="reconvene"):
            running.throughput(100, 0.1)


def test_a_bare_loop() -> None:
    found = bare(Setup(), 1_000, 500)
    assert found.per_second > 0
    assert found.cpu > 0


def test_a_bare_loop_that_hears_nothing() -> None:
    program = "import reconvene.lab.bench.limit as limit; limit._SILENCE_S = 0.05; limit.main()"
    addresses = [f"127.0.0.1:{port}" for port in choose(2)]
    done = subprocess.run(
        [sys.executable, "-c", program, "0", "100", "10", *addresses],
        input="go\n", capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout == '{"ready":true}\n'
    assert done.stderr == "nothing came for 0.05 s, 10 of 10 are missing\n"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
