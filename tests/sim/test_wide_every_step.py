"""A fault at every step of a gateway, in its cluster and in the cluster above: what follows has to hold."""

from pathlib import Path

import pytest

from reconvene.lab.campaign.seeds import histories
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.wide_process import WideProcess
from reconvene.sim.wide_world import WideWorld
from reconvene.verify.engine import verify

STEPS = (
    *("gathering", "forming: sync", "forming: states", "recovering: exchange", "recovering: wait"),
    *("wide: meeting", "wide: catching up", "wide: open"),
)
FAULTS = ("crash", "amid sending", "pause", "partition", "split")
SCENARIO = """
name = "step"
stack = "wide"
duration = "4s"
settle = "4s"
[network]
loss = 0.02
[between]
latency = "5ms"
[[domain]]
name = "berlin"
nodes = ["a", "b", "c"]
gateways = ["a", "b"]
[[domain]]
name = "paris"
nodes = ["p", "q"]
gateways = ["p", "q"]
[[load]]
nodes = ["berlin/c", "paris/q"]
service = "agreed"
rate = 20
[[load]]
nodes = ["berlin/b"]
service = "causal"
rate = 20
[[at]]
time = "1s"
partition = [["berlin/a", "paris/p"], ["berlin/b", "berlin/c", "paris/q"]]
[[at]]
time = "2s"
heal = true
[chaos]
from = "4s"
"""
_RARE = ("recovering: exchange",)
"""Only where frames were lost: not every run enters it."""


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param(
            step,
            fault,
            marks=[] if (step, fault) == ("wide: catching up", "crash") else [pytest.mark.long("seconds together")],
        )
        for step in STEPS
        for fault in FAULTS
    ],
)
def test_a_fault_at(step: str, fault: str) -> None:
    runner = Runner(parse_scenario(SCENARIO, Path("step.toml")), 3, check_every=10)
    world = runner.world
    assert isinstance(world, WideWorld)
    struck: list[str] = []

    def watch(process: WideProcess, before: str, now: str) -> None:
        if struck or process.name != "berlin/a" or now != step or world.now < 1_010_000_000:
            return
        struck.append(now)
        match fault:
            case "crash":
                world.crash(process.name)
            case "amid sending":
                world.doom(process.name, 2)
            case "pause":
                world.pause(process.name)
            case "partition":
                world.partition([["berlin/a", "berlin/c", "paris/p", "paris/q"], ["berlin/b"]])
            case _:
                world.split([["berlin"], ["paris"]])

    world.on_step(watch)
    result = runner.run()
    assert struck or step in _RARE
    report = verify(histories(result))
    assert report.violated() == []
    assert report.check("wide.once").cases > 0
