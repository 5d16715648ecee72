"""bench hostile: its rows, the kinds of datagrams in the flood, and a short run of real sites."""

import random
from dataclasses import replace

import pytest

from reconvene.lab.bench import Settings, hostile
from reconvene.lab.bench.hostile import ALONE, AT_SITE, BESIDE, READ, Figure
from reconvene.lab.bench.sites import Throughput
from reconvene.lab.load import flood
from reconvene.wire.seal import ClusterKey


def figure(per_second: float, counted: dict[str, int], sent: dict[str, int], read: int = 0) -> Figure:
    return Figure(Throughput(per_second, (0.5,) * 3, (0.1,) * 3, (counted, {}, {}), 0.0), sent, read)


@pytest.mark.parametrize(("at_site", "verdict"), [(700, "met"), (500, "missed")])
def test_rows(monkeypatch: pytest.MonkeyPatch, at_site: float, verdict: str) -> None:
    def measure(rate: int, settings: Settings) -> object:
        sent = dict.fromkeys(set(flood.KINDS) - {"replayed"}, 100)
        return lambda: {
            (ALONE, rate): figure(1_000, {}, {}),
            (BESIDE, rate): figure(800, {}, sent, 500),
            (READ, rate): replace(figure(700, {}, sent), cost_us=4.0),
            (AT_SITE, rate): replace(
                figure(at_site, {"dropped_malformed": 300, "dropped_replay": 200, "turns": 9}, sent), cost_us=6.0
            ),
        }

    monkeypatch.setattr(hostile, "_measure", measure)
    sheet = hostile.run(Settings(quick=True))
    rows = {(row.work, row.system): row for row in sheet.rows}
    row = rows["agreed 100 B under 20,000 hostile datagrams/s", AT_SITE]
    assert (row.value, row.against) == (at_site, READ)
    assert row.ratio == pytest.approx(at_site / 700, rel=1e-3)
    cost = rows["a hostile datagram, 20,000/s", AT_SITE]
    assert (cost.value, cost.against, cost.ratio) == (6.0, READ, 1.5)
    assert rows["hostile datagrams counted, 20,000/s", "malformed"].value == 300
    assert {line[1]: line[5] for line in sheet.tables[0].lines}[AT_SITE] == "500"
    assert verdict in sheet.notes[0]
    assert sheet.notes[1] == "not in the flood, since recording needs root: replayed"


def test_what_needs_no_recording() -> None:
    kinds = flood.forged("c", ClusterKey(b"k" * 32), 3, random.Random(1))
    assert set(kinds) == set(flood.KINDS) - {"replayed", "truncated"}
    for packets in kinds.values():
        assert len(packets) == flood.EACH
        assert all(len(packet) <= flood.MOST_BYTES for packet in packets)


@pytest.mark.long("a bench of real sites")
def test_real_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "QUICK_RATES", (2_000,))
    monkeypatch.setattr(hostile, "QUICK_SECONDS", 0.3)
    sheet = hostile.run(Settings(quick=True))
    values = {row.system: row.value for row in sheet.rows if row.work.startswith("agreed")}
    assert set(values) == {ALONE, BESIDE, READ, AT_SITE}
    assert all(value > 0 for value in values.values())
    reasons = {row.system for row in sheet.rows if row.work.startswith("hostile datagrams counted")}
    assert reasons >= {"malformed", "foreign_cluster", "unknown_key"}
