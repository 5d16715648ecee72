"""Asks promtool which alarms of contrib/prometheus ring. Skips a test if promtool is missing."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

__all__ = ["ALARMS", "RULES", "STEP_S", "check_rules", "ringing"]

RULES = Path(__file__).parent.parent / "contrib" / "prometheus" / "reconvene.rules.yml"
ALARMS = re.findall(r"^ +- alert: (\w+)$", RULES.read_text(), re.MULTILINE)
STEP_S = 15
"""Time between two samples of a series."""
_PATIENCE_S = 60


def ringing(directory: Path, series: Mapping[str, str], at: str, rules: Path = RULES) -> dict[str, list[str]]:
    """By alarm that rings at this time: the labels of each of its alerts, as promtool shows them. `series`: by metric
    with labels, its values in promtool's notation, `STEP_S` apart."""
    test = directory / "alarms.test.yml"
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": f"{STEP_S}s",
        "tests": [
            {
                "interval": f"{STEP_S}s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                # None is expected, so that promtool reports each that rings.
                "alert_rule_test": [{"eval_time": at, "alertname": alarm, "exp_alerts": []} for alarm in ALARMS],
            }
        ],
    }
    test.write_text(json.dumps(document, indent=1))  # JSON is YAML too
    done = _promtool("test", "rules", test)
    text = done.stdout + done.stderr
    found = {}
    for part in text.split("alertname: ")[1:]:
        found[part.partition(",")[0]] = re.findall(r"Labels:\{(.*)\}", part)
    assert bool(found) is bool(done.returncode), text
    return found


def check_rules(rules: Path) -> None:
    done = _promtool("check", "rules", rules)
    assert done.returncode == 0, done.stdout + done.stderr


def _promtool(*arguments: object) -> "subprocess.CompletedProcess[str]":
    if shutil.which("promtool") is None:
        pytest.skip("no promtool here: it is part of Prometheus, Debian's package prometheus")
    return subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=_PATIENCE_S
    )
