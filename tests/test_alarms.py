"""The alarms in contrib/prometheus: each rings on series that show its fault, and on no others. Whether a real
fault makes such series: tests/real/test_alarms.py."""

import json
import re
from pathlib import Path

import pytest
from tests.promtool import ALARMS, RULES, check_rules, ringing

from reconvene.runtime.http.metrics import COUNTERS, GAUGES, HISTOGRAMS, LABELLED

ROOT = Path(__file__).parent.parent
DASHBOARD = ROOT / "contrib" / "grafana" / "reconvene.json"
OPERATIONS = ROOT / "docs" / "operations.md"
AT = "20m"


def of(metric: str, site: str = "a", labels: str = "") -> str:
    return f'{metric}{{job="reconvene",instance="{site}"{"," if labels else ""}{labels}}}'


def well(site: str) -> dict[str, str]:
    """The series of a site that is well, as far as rules look at them."""
    zeros = {
        "storage_ok": "1",
        "log_primary": "7",
        "log_green": "90000",
        "isis_blocked": "0",
        "isis_waiting_casts": "0",
    }
    zeros |= {"trace_stopped": "0", "loop_lag_worst_seconds": "0.01", "store_writing_seconds": "0"}
    zeros |= {"store_used_bytes": "5", "store_limit_bytes": "10", "disk_free_bytes": "5", "disk_size_bytes": "10"}
    series = {of(f"reconvene_{name}", site): f"{value}x100" for name, value in zeros.items()}
    series[of("up", site)] = "1x100"
    series[of("reconvene_info", site, f'cluster="shop",site="{site}"')] = "1x100"
    for health in ("primary", "minority", "outpost"):
        labels = f'health="{health}"'
        series[of("reconvene_health", site, labels)] = "1x100" if health == "primary" else "0x100"
    for other in "abc":
        series[of("reconvene_member", site, f'site="{other}"')] = "1x100"
        series[of("reconvene_log_lag_messages", site, f'replica="{other}"')] = "3x100"
    series[of("reconvene_configurations_total", site)] = "5x100"
    series[of("reconvene_clients_cut_off_total", site)] = "5x100"
    for metric, reason in (("dropped_datagrams", "bad_seal"), ("dropped_datagrams", "replay")):
        series[of(f"reconvene_{metric}_total", site, f'reason="{reason}"')] = "2x100"
    for metric, reason in (("clients_refused", "key"), ("http_refused", "401")):
        series[of(f"reconvene_{metric}_total", site, f'reason="{reason}"')] = "2x100"
    for name in HISTOGRAMS:
        for bound in ("0.01", "0.25", "1", "2.5", "+Inf"):
            series[of(f"reconvene_{name}_bucket", site, f'le="{bound}"')] = "100+15x100"
    series[of("reconvene_certificate_end_seconds", site, 'key="http.tls.certificate"')] = f"{90 * 86_400}x100"
    series[of("reconvene_time_seconds", site)] = "0.02+15x100"
    return series


def slow(name: str, bound: str) -> dict[str, str]:
    """Nothing is quicker than the bound."""
    bounds = ("0.01", "0.25", "1", "2.5")
    return {of(f"reconvene_{name}_bucket", labels=f'le="{le}"'): "0x100" for le in bounds if float(le) < float(bound)}


FAULTS: dict[str, dict[str, str]] = {
    "ReconveneDown": {of("up"): "1x20 0x80"},
    "ReconveneSiteLost": {of("reconvene_member", labels='site="b"'): "1x20 0x80"},
    "ReconveneMinority": {of("reconvene_health", labels='health="minority"'): "1x100"},
    "ReconveneNoMajority": {of("reconvene_health", site, 'health="primary"'): "1x20 0x80" for site in "abc"},
    "ReconveneNothingIsOrdered": {of("reconvene_log_primary", site): "7x20 0x80" for site in "abc"},
    "ReconveneUnstable": {of("reconvene_configurations_total"): "5+1x100"},
    "ReconveneReplicaLags": {
        of("reconvene_log_lag_messages", labels='replica="b"'): "0+100x100",
        of("reconvene_log_green", "b"): "80000x100",
    },
    "ReconveneStorageRefuses": {of("reconvene_storage_ok"): "1x20 0x80"},
    "ReconveneDiskSlow": slow("commit_seconds", "1"),
    "ReconveneAppendsSlow": slow("append_seconds", "2.5"),
    "ReconveneStoreNearlyFull": {of("reconvene_store_used_bytes"): "9x100"},
    "ReconveneDiskNearlyFull": {of("reconvene_disk_free_bytes"): "0.5x100"},
    "ReconveneStrangers": {of("reconvene_dropped_datagrams_total", labels='reason="bad_seal"'): "2+1x100"},
    "ReconveneClientsRefused": {of("reconvene_clients_refused_total", labels='reason="key"'): "2+1x100"},
    "ReconveneHttpRefused": {of("reconvene_http_refused_total", labels='reason="401"'): "2+1x100"},
    "ReconveneCertificateEnds": {
        of("reconvene_certificate_end_seconds", labels='key="http.tls.certificate"'): f"{13 * 86_400}x100"
    },
    "ReconveneClocksApart": {of("reconvene_time_seconds"): "3+15x100"},
    "ReconveneLoopLate": {of("reconvene_loop_lag_worst_seconds"): "0.5x100"},
    "ReconveneClientsCutOff": {of("reconvene_clients_cut_off_total"): "5x70 6x30"},
    "ReconveneTraceStopped": {of("reconvene_trace_stopped"): "1x100"},
    "ReconveneIsisBlocked": {of("reconvene_isis_blocked"): "1x100"},
    "ReconveneIsisWaits": {of("reconvene_isis_waiting_casts"): "4x100"},
}


def cluster(*changes: dict[str, str]) -> dict[str, str]:
    series = {name: values for site in "abc" for name, values in well(site).items()}
    for change in changes:
        unknown = change.keys() - series.keys()
        assert not unknown
        series |= change
    return series


def test_promtool_accepts_the_rules() -> None:
    check_rules(RULES)


def test_a_cluster_that_is_well_is_silent(tmp_path: Path) -> None:
    assert ringing(tmp_path, cluster(), AT) == {}


def test_every_alarm_has_a_fault() -> None:
    assert list(FAULTS) == ALARMS


@pytest.mark.parametrize("alarm", FAULTS)
def test_it_rings(tmp_path: Path, alarm: str) -> None:
    found = ringing(tmp_path, cluster(FAULTS[alarm]), AT)
    assert list(found) == [alarm], "it, and no other one"
    assert len(found[alarm]) == 1, "once for a fault"


def test_what_passes_by_does_not_ring(tmp_path: Path) -> None:
    """A restart, a short partition and a burst: each is over before anyone could do something about it."""
    passing = {
        of("up"): "1x76 0x2 1x30",
        of("reconvene_health", labels='health="minority"'): "0x76 1x2 0x30",
        of("reconvene_member", labels='site="b"'): "1x76 0x2 1x30",
        of("reconvene_dropped_datagrams_total", labels='reason="bad_seal"'): "2x76 9x30",
        of("reconvene_dropped_datagrams_total", labels='reason="replay"'): "2+9x100",
        of("reconvene_log_lag_messages", labels='replica="b"'): "3x70 5000x8 3x30",
        of("reconvene_log_lag_messages", labels='replica="c"'): "5000x100",  # it has caught up, and all is idle
        of("reconvene_time_seconds"): "0.4+15x100",
    }
    assert ringing(tmp_path, cluster(passing), AT) == {}


def test_a_write_that_never_ends_is_a_slow_disk(tmp_path: Path) -> None:
    assert list(ringing(tmp_path, cluster({of("reconvene_store_writing_seconds"): "0+15x100"}), AT)) == [
        "ReconveneDiskSlow"
    ]


def test_a_rule_that_is_broken_is_noticed(tmp_path: Path) -> None:
    """The plan of these tests: a threshold that nothing reaches is found by them."""
    broken = tmp_path / "rules.yml"
    broken.write_text(RULES.read_text().replace("reconvene_storage_ok == 0", "reconvene_storage_ok == 2"))
    assert ringing(tmp_path, cluster(FAULTS["ReconveneStorageRefuses"]), AT, broken) == {}


METRIC = re.compile(r"\breconvene_[a-z_]+")


def known() -> set[str]:
    found = {f"reconvene_{name}" for name in GAUGES}
    found |= {f"reconvene_{name}_total" for name in (*COUNTERS, *(name for name, _ in LABELLED.values()))}
    return found | {f"reconvene_{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum", "count")}


def test_rules_and_dashboard_use_metrics_that_exist() -> None:
    for file in (RULES, DASHBOARD):
        used = set(METRIC.findall(file.read_text()))
        assert used
        assert not used - known()


def test_promtool_understands_the_dashboard(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(expressions) > len(panels) > 10
    rules = [{"record": f"r{number}", "expr": text} for number, text in enumerate(expressions)]
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    check_rules(file)


def test_the_manual_says_what_to_do_about_each_alarm() -> None:
    page = OPERATIONS.read_text()
    section = page.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(Reconvene\w+)` \|", section, re.MULTILINE)
    assert rows == ALARMS
