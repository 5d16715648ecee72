"""The same scenario and seed give the same trace, to the byte, whatever seeds Python's hashes."""

import os
import subprocess
import sys
from pathlib import Path

SCENARIO = """
name = "twice"
nodes = ["a", "b", "c", "d", "e"]
duration = "5s"
settle = "4s"
[network]
jitter = "1ms"
loss = 0.02
duplicate = 0.02
reorder = 0.02
bandwidth = "50Mbit"
[[load]]
nodes = ["a", "b", "c"]
service = "safe"
rate = 30
[[load]]
nodes = ["c", "d", "e"]
service = "causal"
rate = 30
[chaos]
from = "1s"
mean_gap = "200ms"
faults = ["partition", "crash", "cut", "pause", "loss", "duplicate", "reorder", "delay", "clock", "disk"]
"""


def simulate(scenario: Path, trace: Path, hash_seed: str) -> dict[str, bytes]:
    program = "from reconvene.cli import main; main()"
    command = [sys.executable, "-c", program, "sim", str(scenario), "--trace", str(trace), "--json"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    return {file.name: file.read_bytes() for file in sorted(trace.iterdir())}


def test_byte_for_byte(tmp_path: Path) -> None:
    scenario = tmp_path / "twice.toml"
    scenario.write_text(SCENARIO)
    one = simulate(scenario, tmp_path / "one", "1")
    two = simulate(scenario, tmp_path / "two", "4242")
    assert sorted(one) == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl", "e.jsonl", "run.json"]
    assert one == two
    assert min(len(content) for content in one.values()) > 100
