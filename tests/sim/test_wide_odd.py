"""Odd scenarios of several clusters: every check of every level holds, and everyone is together in the end."""

from pathlib import Path

import pytest

from reconvene.lab.campaign.seeds import histories
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.verify.engine import verify

HEAD = """
name = "odd"
stack = "wide"
duration = "5s"
settle = "6s"
[between]
latency = "10ms"
"""
THREE = """
[[domain]]
name = "berlin"
nodes = ["a", "b", "c", "d"]
gateways = ["a", "b"]
[[domain]]
name = "paris"
nodes = ["p", "q"]
gateways = ["p", "q"]
[[domain]]
name = "rome"
nodes = ["r"]
gateways = ["r"]
"""
LOAD = """
[[load]]
nodes = ["berlin/d", "paris/q", "rome/r"]
service = "agreed"
rate = 20
[[load]]
nodes = ["berlin/b", "berlin/c", "paris/p"]
service = "causal"
rate = 20
[[load]]
nodes = ["berlin/a", "rome/r"]
service = "safe"
rate = 10
[[load]]
nodes = ["berlin/d", "paris/q"]
service = "fifo"
rate = 10
group = "news"
"""


def at(time: str, verb: str) -> str:
    return f'[[at]]\ntime = "{time}"\n{verb}\n'


def cuts(*pairs: str) -> str:
    both = [pair.split() for pair in pairs]
    return "cut = [" + ", ".join(f'["{one}", "{two}"], ["{two}", "{one}"]' for one, two in both) + "]"


def chaos(*faults: str) -> str:
    return f'[chaos]\nfrom = "1s"\nuntil = "4.5s"\nmean_gap = "150ms"\nfaults = {list(faults)}\n'.replace("'", '"')


ODD = {
    "the only gateway comes and goes": at("1s", 'crash = ["rome/r"]')
    + at("1.7s", 'restart = ["rome/r"]')
    + at("2.5s", 'crash = ["rome/r"]')
    + at("2.52s", 'restart = ["rome/r"]'),
    "all gateways at once": at("2s", 'crash = ["berlin/a", "berlin/b", "paris/p", "paris/q", "rome/r"]'),
    "a whole cluster": at("2s", 'crash = ["berlin/a", "berlin/b", "berlin/c", "berlin/d"]')
    + at("3s", 'restart = ["berlin/c", "berlin/d"]'),
    "not started yet": at("0s", 'crash = ["berlin/a", "paris/p", "paris/q"]')
    + at("2s", 'restart = ["paris/p"]')
    + at("3s", 'restart = ["berlin/a"]'),
    "gateways of one cluster in different components above": at(
        "1.5s", cuts("berlin/a paris/p", "berlin/a paris/q", "berlin/b rome/r")
    )
    + at("3.5s", "heal = true"),
    "a local split with both parts above": at(
        "1.5s", cuts("berlin/a berlin/b", "berlin/a berlin/d", "berlin/c berlin/b", "berlin/c berlin/d")
    )
    + at("3.5s", "heal = true"),
    "an upper change during a local change": at("1.5s", 'crash = ["berlin/c"]')
    + at("2.12s", 'split = [["berlin"], ["paris", "rome"]]')
    + at("2.16s", "heal = true")
    + at("2.2s", 'split = [["berlin", "rome"], ["paris"]]')
    + at("3s", "heal = true"),
    "the representative stands still": at("1.5s", 'pause = ["berlin/a"]')
    + at("3s", 'resume = ["berlin/a"]')
    + at("3.2s", 'pause = ["berlin/a", "berlin/b"]')
    + at("4.5s", 'resume = ["berlin/a", "berlin/b"]'),
    "hand-overs all the time": "".join(
        at(f"{1.5 + step / 20}s", 'handover = ["berlin", "paris"]') for step in range(50)
    ),
    "split and partitioned": at("1.5s", 'split = [["berlin"], ["paris"]]')
    + at("2s", 'partition = [["berlin/a", "paris/p"], ["berlin/b", "berlin/c", "paris/q"], ["berlin/d", "rome/r"]]')
    + at("2.7s", 'split = [["paris", "rome"]]')
    + at("3.5s", "heal = true"),
    "clocks": chaos("clock", "gateway"),
    "disks": chaos("disk", "full", "sync", "split"),
    "a network that does anything": at("1s", "network = { loss = 0.3, duplicate = 0.3, reorder = 0.3 }")
    + chaos("gateway", "pause"),
}


def run(text: str, name: str, seed: int = 1) -> Result:
    return Runner(parse_scenario(text, Path(f"{name}.toml")), seed, check_every=10).run()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name.startswith("an upper") else [pytest.mark.long("a second each")])
        for name in ODD
    ],
)
def test_odd(name: str) -> None:
    result = run(HEAD + THREE + LOAD + ODD[name], "odd")
    report = verify(histories(result))
    assert report.violated() == []
    assert min(report.check(check).cases for check in ("wide.once", "wide.causal", "wide.rep", "wide.self")) > 0
    last = {node: [row for row in own if row.kind == "conf"][-1] for node, own in result.rows.items()}
    assert len({row.conf for row in last.values()}) == 1
    assert last["rome/r"].members == ["berlin", "paris", "rome"]


def test_one_cluster_alone() -> None:
    """The cluster above has its gateways only; nothing passes, and it costs the cluster nothing that it promises."""
    domain = '[[domain]]\nname = "berlin"\nnodes = ["a", "b"]\ngateways = ["b"]\npass = {}\n'
    load = '[[load]]\nnodes = ["berlin/a", "berlin/b"]\nservice = "agreed"\nrate = 20\nfrom = "1s"\n'
    result = run(HEAD + domain + load, "alone")
    report = verify(histories(result))
    assert report.violated() == []
    assert report.check("wide.pass").cases == 0
    assert len({str([row.msg for row in own if row.kind == "deliver"]) for own in result.rows.values()}) == 1


@pytest.mark.long("a second")
def test_a_cluster_whose_gateways_stay_down_goes_on_alone() -> None:
    text = HEAD.replace("settle", 'final_down = ["berlin/a", "berlin/b"]\nsettle') + THREE + LOAD
    result = run(text + at("2s", 'crash = ["berlin/a", "berlin/b"]'), "down")
    assert verify(histories(result)).violated() == []
    last = [row for row in result.rows["berlin/c"] if row.kind == "conf"][-1]
    assert str(last.conf).startswith("berlin/")
