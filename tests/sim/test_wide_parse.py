"""Scenario files of stack wide: clusters, and what is refused with one line."""

import pytest
from tests.sim.test_parse import FILE

from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.sim.parse import parse_scenario
from reconvene.sim.scenario import Load, Scenario, Send
from reconvene.sim.wide_scenario import DomainPlan, Handover, Split

HEAD = 'name = "x"\nduration = "10s"\nstack = "wide"\n'
BERLIN = '[[domain]]\nname = "berlin"\nnodes = ["b.c", "a"]\ngateways = ["b.c"]\n'
PARIS = '[[domain]]\nname = "paris"\nnodes = ["p"]\ngateways = ["p"]\npass = { out = ["bank*"] }\n'


def parse(text: str = "", head: str = HEAD) -> Scenario:
    return parse_scenario(head + BERLIN + PARIS + text, FILE)


def step(verb: str) -> str:
    return f'[[at]]\ntime = "1s"\n{verb}\n'


def test_domains() -> None:
    scenario = parse('[between]\nlatency = "30ms"\n')
    assert scenario.domains == (
        DomainPlan("berlin", ("a", "b.c"), ("b.c",)),
        DomainPlan("paris", ("p",), ("p",), ("bank*",), ()),
    )
    assert scenario.nodes == ("berlin/a", "berlin/b.c", "paris/p")
    assert scenario.between.latency_ns == 30_000_000
    assert scenario.patience_ns is None
    assert parse('[between]\npatience = "2s"\n').patience_ns == 2_000_000_000
    assert scenario.final == (scenario.nodes,)


def test_final_lists_domains() -> None:
    assert parse(head=HEAD + 'final = [["paris"]]\n').final == (("paris/p",), ("berlin/a", "berlin/b.c"))


def test_verbs() -> None:
    steps = parse(
        step('split = [["berlin"], ["paris"]]')
        + step('handover = ["berlin"]')
        + step('send = { node = "paris/p", service = "safe", group = "bank", scope = "cluster" }')
    ).steps
    assert [each.verb for each in steps] == [
        Split((("berlin",), ("paris",))),
        Handover(("berlin",)),
        Send("paris/p", Service.SAFE, 1, 64, "bank", "cluster"),
    ]


def test_load() -> None:
    (load,) = parse('[[load]]\nnodes = ["paris/p"]\nrate = 5\ngroup = "news"\n').loads
    assert load == Load(("paris/p",), Service.AGREED, 5.0, 64, 0, 10**10, group="news", scope="wide")


def rome(nodes: str = '["x"]', gateways: str = '["x"]', name: str = "rome", rules: str = "") -> str:
    return f'[[domain]]\nname = "{name}"\nnodes = {nodes}\ngateways = {gateways}\n{rules}\n'


REFUSED = {
    step('split = [["berlin"], ["rome"]]'): "at[0].split: unknown domain 'rome'",
    step('split = [["berlin", "berlin"]]'): "stands in it twice",
    step('handover = "berlin"'): "handover: expected a list",
    step('crash = ["a"]'): "at[0].crash: unknown node 'a'",
    step('send = { node = "berlin/a", scope = "world" }'): "send.scope: expected one of wide, cluster",
    step('send = { node = "berlin/a", group = "" }'): "send.group: expected",
    step('append = { node = "berlin/a" }'): "append",
    rome(name="berlin"): "domain[2].name: domain 'berlin' stands there twice",
    rome(name="upper"): "domain[2].name: expected another name",
    rome(name="a.b"): "domain[2].name: expected a name",
    rome(gateways="[]"): "domain[2].gateways: expected at least one",
    rome(gateways='["y"]'): "domain[2].gateways: unknown node 'y'",
    rome(nodes='["x", "x"]'): "domain[2].nodes: node 'x' stands there twice",
    rome(rules="pass = { up = [] }"): "domain[2].pass.up: unknown key",
    rome(rules="pass = { in = [7] }"): "domain[2].pass.in: expected",
    "[between]\nlatency = 7\n": "between.latency: expected",
    '[between]\npatience = "1ms"\n': "between.patience: expected 100ms to 1min",
    rome(rules='upper = "europe"'): "domain[2].upper: expected no third level",
    '[chaos]\nfaults = ["kill"]\n': "chaos.faults: expected",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(Malformed) as error:
        parse(text)
    assert REFUSED[text] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('nodes = ["a"]\nduration = "1s"\n' + step('handover = ["a"]'), 'expected stack = "wide"'),
        ('nodes = ["a"]\nduration = "1s"\n' + BERLIN, 'expected stack = "wide"'),
        (
            'nodes = ["a"]\nduration = "1s"\n' + step('send = { node = "a", scope = "wide" }'),
            'expected stack = "wide"',
        ),
        (HEAD + 'nodes = ["a"]\n' + BERLIN, "nodes: expected no nodes"),
        (HEAD, "domain: expected 1 to 64"),
        (HEAD + 'final = [["berlin/a"]]\n' + BERLIN, "final: unknown domain"),
    ],
)
def test_other_stacks(text: str, expected: str) -> None:
    with pytest.raises(Malformed, match="x") as error:
        parse_scenario('name = "x"\n' + text.replace('name = "x"\n', "", 1), FILE)
    assert expected in str(error.value)
