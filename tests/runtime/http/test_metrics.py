"""A site's metrics, as Prometheus reads them."""

import logging
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.runtime.http.fake_engine import FakeEngine

from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.runtime.diagnostics.loop_lag import LoopLag
from reconvene.runtime.http.metrics import COUNTERS, GAUGES, HISTOGRAMS, LABELLED, SiteMetrics

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"


def samples(metrics: SiteMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def value(metrics: SiteMetrics, name: str, **labels: str) -> float:
    return samples(metrics)[f"reconvene_{name}", tuple(sorted(labels.items()))]


def test_counters() -> None:
    metrics = SiteMetrics(FakeEngine(), more=lambda: {"clients": 9})
    assert value(metrics, "turns_total") == 5
    assert value(metrics, "sent_messages_total") == 3
    assert value(metrics, "clients_total") == 9
    assert value(metrics, "dropped_datagrams_total", reason="replay") == 2
    assert value(metrics, "dropped_datagrams_total", reason="bad_seal") == 1


def test_gauges() -> None:
    engine = FakeEngine()
    metrics = SiteMetrics(engine)
    assert value(metrics, "health", health="primary") == 1
    assert value(metrics, "health", health="minority") == 0
    assert value(metrics, "health", health="forming") == 0
    assert value(metrics, "phase", phase="operational") == 1
    assert value(metrics, "configuration_members") == 2
    assert value(metrics, "sites") == 3
    assert value(metrics, "processes") == 4
    assert value(metrics, "groups") == 6
    assert value(metrics, "waiting_messages") == 8
    assert value(metrics, "waiting_bytes") == 900
    assert value(metrics, "incarnation") == 7
    assert value(metrics, "uptime_seconds") == 1.5
    assert value(metrics, "round_trip_seconds", site="b") == pytest.approx(0.00015)
    assert value(metrics, "blocked_sites", direction="incoming") == 1
    assert value(metrics, "blocked_sites", direction="outgoing") == 0
    assert value(metrics, "trace_bytes") == 1000
    assert value(metrics, "trace_stopped") == 0
    assert value(metrics, "storage_ok") == 1
    assert not [name for name, _ in samples(metrics) if name.startswith("reconvene_log")]
    engine.told.update(trace={"bytes": 1, "stopped": True}, storage="No space left on device", health="forming")
    assert value(metrics, "trace_stopped") == 1
    assert value(metrics, "storage_ok") == 0
    assert value(metrics, "health", health="forming") == 1
    engine.told.update(trace=None)
    assert not [name for name, _ in samples(metrics) if name.startswith("reconvene_trace")]


def test_the_log_is_in_it() -> None:
    engine = FakeEngine()
    engine.told["log"] = {
        "primary": 7, "base": 10, "green": 1000, "yellow": 3, "red": 2, "unlogged": 1,
        "own": {"messages": 4, "bytes": 400}, "replicas": {"a": {"lag": 0}, "b": {"lag": 12}},
    }  # fmt: skip
    metrics = SiteMetrics(engine)
    assert value(metrics, "log_primary") == 7
    assert value(metrics, "log_base") == 10
    assert value(metrics, "log_green") == 1000
    assert value(metrics, "log_yellow_messages") == 3
    assert value(metrics, "log_red_messages") == 2
    assert value(metrics, "log_unlogged_messages") == 1
    assert value(metrics, "log_own_messages") == 4
    assert value(metrics, "log_own_bytes") == 400
    assert value(metrics, "log_lag_messages", replica="b") == 12


def test_isis_is_in_it() -> None:
    engine = FakeEngine()
    assert not [name for name, _ in samples(SiteMetrics(engine)) if name.startswith("reconvene_isis")]
    engine.told["isis"] = {
        "blocked": True, "refused": [], "view": 131072, "members": {"a": 1, "b": 1}, "processes": 3, "groups": [],
        "group_count": 12, "open_casts": 4, "open_bytes": 500, "waiting_casts": 6, "pool": 7, "pool_bytes": 800,
        "open_gbcasts": 9, "open_calls": 10,
    }  # fmt: skip
    engine.counts = {"isis_casts": 11, "isis_channel_packets": 2, "isis_channel_records": 6, "isis_kills": 1}
    metrics = SiteMetrics(engine)
    assert value(metrics, "isis_blocked") == 1
    assert value(metrics, "isis_site_view_members") == 2
    assert value(metrics, "isis_processes") == 3
    assert value(metrics, "isis_groups") == 12
    assert value(metrics, "isis_open_casts") == 4
    assert value(metrics, "isis_open_bytes") == 500
    assert value(metrics, "isis_waiting_casts") == 6
    assert value(metrics, "isis_pool_casts") == 7
    assert value(metrics, "isis_pool_bytes") == 800
    assert value(metrics, "isis_open_gbcasts") == 9
    assert value(metrics, "isis_open_calls") == 10
    assert value(metrics, "isis_casts_total") == 11
    assert value(metrics, "isis_channel_records_total") == 6
    assert value(metrics, "isis_kills_total") == 1


def test_sites_that_were_removed_do_not_count() -> None:
    engine = FakeEngine()
    engine.told["list"] = {"sites": ["a", "c"]}
    metrics = SiteMetrics(engine)
    assert value(metrics, "sites") == 2
    assert value(metrics, "member", site="a") == 1
    assert value(metrics, "member", site="c") == 0
    assert ("reconvene_member", (("site", "b"),)) not in samples(metrics)


def test_the_store_is_in_it() -> None:
    engine = FakeEngine()
    engine.told["store"] = {
        "used_bytes": 5, "limit_bytes": 10, "free_bytes": None, "disk_bytes": None, "writing_s": 1.5
    }  # fmt: skip
    metrics = SiteMetrics(engine)
    assert value(metrics, "store_used_bytes") == 5
    assert value(metrics, "store_limit_bytes") == 10
    assert value(metrics, "store_writing_seconds") == 1.5
    assert ("reconvene_disk_free_bytes", ()) not in samples(metrics), "what is not known is left out"
    engine.told["store"] = {"free_bytes": 3, "disk_bytes": 4}
    assert (value(metrics, "disk_free_bytes"), value(metrics, "disk_size_bytes")) == (3, 4)


def test_refusals_have_their_reason() -> None:
    metrics = SiteMetrics(FakeEngine(), more=lambda: {"clients_refused_key": 2, "http_refused_401": 3})
    assert value(metrics, "clients_refused_total", reason="key") == 2
    assert value(metrics, "http_refused_total", reason="401") == 3


def test_the_ends_of_certificates_and_the_time_are_in_it() -> None:
    metrics = SiteMetrics(FakeEngine(), ends=lambda: {"http.tls.certificate": 1.8e9})
    assert value(metrics, "certificate_end_seconds", key="http.tls.certificate") == 1.8e9
    assert abs(value(metrics, "time_seconds") - time.time()) < 60


def test_histograms() -> None:
    engine, times = FakeEngine(), Histogram()
    engine.times = {"commit_seconds": times}
    for seconds in (0.0004, 0.0005, 0.02, 60.0):
        times.note(seconds)
    metrics = SiteMetrics(engine)
    assert value(metrics, "commit_seconds_bucket", le="0.0005") == 2, "a bound belongs to its bucket"
    assert value(metrics, "commit_seconds_bucket", le="0.01") == 2
    assert value(metrics, "commit_seconds_bucket", le="0.025") == 3
    assert value(metrics, "commit_seconds_bucket", le="10.0") == 3
    assert value(metrics, "commit_seconds_bucket", le="+Inf") == 4
    assert value(metrics, "commit_seconds_count") == 4
    assert value(metrics, "commit_seconds_sum") == pytest.approx(60.0209)


def test_the_process_is_in_it() -> None:
    assert samples(SiteMetrics(FakeEngine()))["process_resident_memory_bytes", ()] > 1 << 20


def test_the_loops_lag_is_in_it() -> None:
    lag = LoopLag(logging.getLogger("reconvene.test"))
    lag.note(0.25, 0.0)
    lag.note(0.125, 1.0)
    metrics = SiteMetrics(FakeEngine(), lag)
    assert value(metrics, "loop_lag_seconds") == 0.125
    assert value(metrics, "loop_lag_worst_seconds") == 0.25


def test_the_worst_lag_is_forgotten_after_a_minute() -> None:
    lag = LoopLag(logging.getLogger("reconvene.test"))
    assert lag.worst_s == 0
    for at, late in ((0.0, 0.1), (10.0, 0.4), (20.0, 0.2), (30.0, 0.3)):
        lag.note(late, at)
    assert lag.worst_s == 0.4
    lag.note(0.01, 71.0)
    assert lag.worst_s == 0.3
    lag.note(0.01, 91.0)
    assert lag.worst_s == 0.01


def test_an_engine_that_says_little_breaks_nothing() -> None:
    engine = FakeEngine()
    engine.told = {}
    engine.counts = {}
    assert value(SiteMetrics(engine), "configuration_members") == 0


def test_two_sites_in_one_program_do_not_mix() -> None:
    one, two = FakeEngine(), FakeEngine()
    two.counts = {"turns": 99}
    assert value(SiteMetrics(one), "turns_total") == 5
    assert value(SiteMetrics(two), "turns_total") == 99


def test_every_metric_is_documented() -> None:
    page = OPERATIONS.read_text(encoding="utf-8")
    labelled = [name for name, _ in LABELLED.values()]
    names = [f"reconvene_{name}_total" for name in (*COUNTERS, *labelled)]
    names += [f"reconvene_{name}" for name in (*GAUGES, *HISTOGRAMS)]
    missing = [name for name in names if f"`{name}`" not in page]
    assert not missing
