"""ISIS on real sites: one short run without a peer, and the distributed load in virtual time."""

import pytest

from reconvene.lab.bench import Settings, isis_distributed_load, isis_real, missing
from reconvene.lab.bench.isis_distributed_load import SERVE_NS, mean_delay_ns
from reconvene.lab.bench.isis_locks import measures
from reconvene.lab.bench.results import Bar, Results


def test_a_load_that_is_shared() -> None:
    light = mean_delay_ns(1, 0.5, 30, seed=1)
    assert SERVE_NS <= light < 1.2 * SERVE_NS
    alone, shared = (mean_delay_ns(copies, 7.0, 300, seed=1) for copies in (1, 3))
    assert shared < 1.4 * light
    assert alone > 1.5 * shared
    assert mean_delay_ns(3, 7.0, 50, seed=2) == mean_delay_ns(3, 7.0, 50, seed=2)


def test_bars() -> None:
    results = Results("isis-real", Settings(), 1)
    results.add("one", "reconvene", 2.0, "ms")
    results.add("other", "reconvene", 1.0, "ms", ("one", 2.0), Bar(0.5))
    results.add("more", "reconvene", 1.0, "1/s", ("one", 2.0), Bar(0.6, at_least=True))
    sheet = results.finish("all")
    assert [row.ratio for row in sheet.rows] == [None, 0.5, 0.5]
    assert [line[-2:] for line in sheet.tables[0].lines] == [("", ""), ("≤ 0.5", "met"), ("≥ 0.6", "missed")]


@pytest.mark.long("real sites for half a minute")
def test_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isis_distributed_load, "mean_delay_ns", lambda *_: 1e6)  # it has a test of its own
    sheet = isis_real.run(Settings(quick=True))
    by_work = {row.work: row for row in sheet.rows}
    assert by_work["CBCAST, 100 B, all send"].value > 1_000
    assert by_work["CBCAST alone, to one other site, p50"].ratio is not None
    assert 0 < by_work["lock, hand-over after kill -9; clients"].value < 10_000
    assert sum(work.startswith("5.4: ") for work in by_work) == 14
    assert sum(work.startswith("load: ") for work in by_work) == 6


@pytest.mark.long("etcd for some seconds, and a Go program that is compiled")
@pytest.mark.skipif(missing("etcd") is not None, reason="needs etcd and Go")
def test_locks_of_etcd() -> None:
    figures = measures(Settings(quick=True, peers=("etcd",)))["locks of etcd"]()
    assert 0 < figures["lock, etcd"] < 1_000
    assert figures["hand-over, etcd"] > 500, "a lease has to end"
