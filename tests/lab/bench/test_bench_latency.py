"""bench latency: its rows and targets, and a short run of real sites."""

import pytest

from reconvene.lab import namespaces
from reconvene.lab.bench import Settings, latency, sites
from reconvene.lab.bench.figures import Latency
from reconvene.lab.bench.sites import Setup


def canned(monkeypatch: pytest.MonkeyPatch, ours: Latency, theirs: Latency) -> None:
    monkeypatch.setattr(namespaces, "available", lambda: None)

    def measure_ours(setup: Setup, settings: Settings) -> object:
        return lambda: {
            (setup.system, service, pause): ours for service in ("agreed", "safe") for pause in (0, 1_000)
        }

    def measure_theirs(system: str, settings: Settings) -> object:
        return lambda: {(system, "agreed", pause): theirs for pause in (0, 1_000)}

    monkeypatch.setattr(latency, "_ours", measure_ours)
    monkeypatch.setattr(latency, "_theirs", measure_theirs)


def test_rows_and_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    canned(monkeypatch, Latency(150, 400, 300, 450, 0), Latency(200, 300, 250, 350, 0))
    sheet = latency.run(Settings(peers=("corosync",)))
    by_key = {(row.work, row.system): row for row in sheet.rows}
    row = by_key["safe 100 B to slowest, p50, no pause", "reconvene, MTU 1500"]
    assert (row.value, row.unit, row.ratio) == (300, "µs", 1.2)
    assert row.against == "corosync udpu, MTU 1500, agreed to slowest"
    assert by_key["agreed 100 B to self, p99, pause 1 ms", "reconvene, loopback"].ratio is None
    (bars,) = (table for table in sheet.tables if table.title.startswith("bars"))
    shown = {line[1]: line[3:] for line in bars.lines if line[2] == "reconvene, MTU 1500"}
    assert shown == {
        "agreed to self: within 1 times Corosync's agreed to self": ("0.75 met", "1.33 missed"),
        "agreed to slowest: within 1.5 times Corosync's agreed to self": ("1.50 met", "1.50 met"),
        "safe to slowest: within 2 times Corosync's agreed to self": ("1.50 met", "1.50 met"),
    }


def test_without_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    canned(monkeypatch, Latency(150, 400, 300, 450, 0), Latency(200, 300, 250, 350, 0))
    sheet = latency.run(Settings(quick=True))
    assert {row.system for row in sheet.rows} == {"reconvene, loopback", "reconvene, MTU 1500"}
    assert all(row.ratio is None for row in sheet.rows)
    assert len(sheet.tables) == 1


def test_real_sites() -> None:
    with sites.running(Setup(2), "latency") as running:
        for service in ("agreed", "safe"):
            got = running.latency(20, service, 0)
            assert 0 < got.self_p50 <= got.self_p99
            assert got.slowest_p50 >= got.self_p50
