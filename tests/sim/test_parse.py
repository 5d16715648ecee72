"""Scenario files: what is understood, and that everything else is refused with one line that says where."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.sim.parse import load_scenario, parse_scenario
from reconvene.sim.scenario import Crash, Partition, Scenario, Send

HEAD = 'name = "x"\nnodes = ["p", "q", "r"]\nduration = "10s"\n'
FILE = Path("some.toml")


def parse(text: str) -> Scenario:
    return parse_scenario(HEAD + text, FILE)


def test_the_least() -> None:
    scenario = parse_scenario('nodes = ["q", "p"]\nduration = "1s"', FILE)
    assert scenario.name == "some"
    assert scenario.nodes == ("p", "q")
    assert (scenario.seed, scenario.stack, scenario.order) == (0, "evs", "atop")
    assert scenario.final == (("p", "q"),)
    assert scenario.conditions.loss == 0
    assert scenario.chaos is None


def test_everything() -> None:
    scenario = parse(
        """
        seed = 7
        stack = "evs"
        order = "all-ack"
        settle = "3s"
        final = [["p"], ["q", "r"]]
        final_down = ["r"]
        [network]
        latency = "1ms"
        jitter = "500us"
        loss = 0.01
        duplicate = 0.001
        reorder = 0.01
        bandwidth = "100Mbit"
        mtu = 1400
        [[link]]
        between = ["q", "p"]
        latency = "300ms"
        [[at]]
        time = "2s"
        send = { node = "r", service = "safe", count = 100, size = 64 }
        [[at]]
        time = "1.5s"
        partition = [["p"], ["q", "r"]]
        [[load]]
        nodes = ["p", "q"]
        service = "causal"
        rate = 100
        size = 64
        from = "0s"
        until = "15s"
        [chaos]
        from = "1s"
        until = "9s"
        faults = ["partition", "crash"]
        mean_gap = "500ms"
        """
    )
    assert scenario.conditions.bandwidth_bps == 100_000_000
    assert scenario.conditions.mtu == 1400
    assert scenario.links["p", "q"].latency_ns == 300_000_000
    assert scenario.links["p", "q"].loss is None
    first, second = scenario.steps
    assert (first.time_ns, first.verb) == (1_500_000_000, Partition((("p",), ("q", "r"))))
    assert second.verb == Send("r", Service.SAFE, 100, 64)
    assert scenario.loads[0].until_ns == 10_000_000_000, "nothing is sent in settle"
    assert scenario.chaos is not None
    assert scenario.chaos.faults == ("partition", "crash")


def test_entries_of_one_time_keep_their_order() -> None:
    scenario = parse(
        """
        at = [
          { time = "2s", crash = ["p"] },
          { time = "1s", heal = true },
          { time = "2s", restart = ["p"] },
          { time = "2s", crash = ["p"] },
        ]"""
    )
    assert [step.place for step in scenario.steps] == ["at[1]", "at[0]", "at[2]", "at[3]"]


def test_a_node_crashed_at_0s_has_not_started() -> None:
    scenario = parse('at = [{ time = "0s", crash = ["p"] }, { time = "1s", restart = ["p"] }]')
    assert scenario.unstarted == {"p"}


BAD = {
    "unknown key": ("colour = 1", "colour"),
    "unknown key in network": ("[network]\nspeed = 1", "network.speed"),
    "unknown key in link": ('[[link]]\nbetween = ["p", "q"]\nspeed = 1', "link[0].speed"),
    "unknown key in at": ('[[at]]\ntime = "1s"\nheal = true\nwhy = 1', "at[0].why"),
    "unknown key in send": ('[[at]]\ntime = "1s"\nsend = { node = "p", to = "q" }', "at[0].send.to"),
    "unknown key in load": ('[[load]]\nnodes = ["p"]\nrate = 1\nburst = 2', "load[0].burst"),
    "unknown key in chaos": ("[chaos]\nmean = 1", "chaos.mean"),
    "seed of a wrong type": ('seed = "7"', "seed"),
    "seed that is a truth value": ("seed = true", "seed"),
    "negative seed": ("seed = -1", "seed"),
    "huge seed": ("seed = 99999999999999999999", "seed"),
    "unknown stack": ('stack = "tcp"', "stack"),
    "a quorum without the log": ('quorum = { kind = "majority" }', "quorum: expected stack"),
    "a quorum of an unknown kind": (
        'stack = "corel"\nquorum = { kind = "dice" }',
        "quorum: expected a kind",
    ),
    "a quorum of an unknown node": (
        'stack = "corel"\nquorum = { kind = "weighted", weights = { p = 1, z = 1 } }',
        "quorum: weights",
    ),
    "a minimum above the number of nodes": (
        'stack = "corel"\nquorum = { kind = "dynamic", minimum = 9 }',
        "quorum: minimum: expected a number of replicas from 1 to",
    ),
    "a quorum that is no table": ('stack = "corel"\nquorum = "majority"', "quorum: expected a table"),
    "unknown order": ('order = "any"', "order"),
    "settle of a wrong type": ("settle = 5", "settle"),
    "negative settle": ('settle = "-5s"', "settle"),
    "final with an unknown node": ('final = [["z"]]', "final: unknown node 'z'"),
    "final with a node twice": ('final = [["p"], ["p"]]', "final: node 'p'"),
    "final of a wrong type": ('final = ["p"]', "final"),
    "final_down with an unknown node": ('final_down = ["z"]', "final_down"),
    "network that is a list": ("network = [1]", "network"),
    "network that is several": ("[[network]]\nloss = 1", "network"),
    "loss above one": ("[network]\nloss = 1.5", "network.loss"),
    "loss that is no number": ("[network]\nloss = nan", "network.loss"),
    "loss of a wrong type": ('[network]\nloss = "1%"', "network.loss"),
    "days": ('[network]\nlatency = "1d"', "expected a duration such as 500ms: a number with ns, us, ms, s or min"),
    "weeks": ('[[at]]\ntime = "1w"\nheal = true', "at[0].time: expected a duration such as 500ms"),
    "duration without a unit": ('[network]\nlatency = "5"', "network.latency: expected a duration"),
    "bandwidth without a unit": ('[network]\nbandwidth = "5"', "network.bandwidth"),
    "negative mtu": ("[network]\nmtu = -1", "network.mtu"),
    "link without ends": ("[[link]]\nloss = 1", "link[0].between"),
    "link of three": ('[[link]]\nbetween = ["p", "q", "r"]', "link[0].between"),
    "link to itself": ('[[link]]\nbetween = ["p", "p"]', "link[0].between"),
    "link with an unknown node": ('[[link]]\nbetween = ["p", "z"]', "unknown node 'z'"),
    "link twice": ('[[link]]\nbetween = ["p", "q"]\n[[link]]\nbetween = ["q", "p"]', "link[1].between"),
    "link that is no table": ("link = [1]", "link[0]"),
    "at that is a table": ('[at]\ntime = "1s"', "at"),
    "no time": ("[[at]]\nheal = true", "at[0].time: missing"),
    "negative time": ('[[at]]\ntime = "-1s"\nheal = true', "at[0].time: expected a duration that is not neg"),
    "a step after duration": ('[[at]]\ntime = "11s"\nheal = true', "at[0].time"),
    "no verb": ('[[at]]\ntime = "1s"', "at[0]: expected one verb"),
    "two verbs": ('[[at]]\ntime = "1s"\nheal = true\ncrash = ["p"]', "heal and crash"),
    "heal = false": ('[[at]]\ntime = "1s"\nheal = false', "at[0].heal"),
    "a node in two components": ('[[at]]\ntime = "1s"\npartition = [["p"], ["q", "p"]]', "at[0].partition"),
    "an unknown node in a partition": ('[[at]]\ntime = "1s"\npartition = [["z"]]', "unknown node 'z'"),
    "a partition of names": ('[[at]]\ntime = "1s"\npartition = ["p"]', "at[0].partition"),
    "a cut of one": ('[[at]]\ntime = "1s"\ncut = [["p"]]', "at[0].cut"),
    "a cut of names": ('[[at]]\ntime = "1s"\ncut = ["p", "q"]', "at[0].cut"),
    "a cut from itself": ('[[at]]\ntime = "1s"\ncut = [["p", "p"]]', "at[0].cut"),
    "a crash of a name": ('[[at]]\ntime = "1s"\ncrash = "p"', "at[0].crash"),
    "a crash of a number": ('[[at]]\ntime = "1s"\ncrash = [1]', "at[0].crash"),
    "a crash of an unknown node": ('[[at]]\ntime = "1s"\ncrash = ["z"]', "unknown node 'z'"),
    "a network change of an unknown field": ('[[at]]\ntime = "1s"\nnetwork = { los = 1 }', "at[0].network.los"),
    "a send without a node": ('[[at]]\ntime = "1s"\nsend = { count = 1 }', "at[0].send.node"),
    "a send of an unknown service": (
        '[[at]]\ntime = "1s"\nsend = { node = "p", service = "best" }',
        "at[0].send.service",
    ),
    "a send of a negative count": ('[[at]]\ntime = "1s"\nsend = { node = "p", count = -1 }', "send.count"),
    "a send too large": ('[[at]]\ntime = "1s"\nsend = { node = "p", size = 99999999 }', "send.size"),
    "an append without the log": ('[[at]]\ntime = "1s"\nappend = { node = "p" }', "at[0].append: expected stack"),
    "an append without a node": ('stack = "corel"\n[[at]]\ntime = "1s"\nappend = {}', "at[0].append.node"),
    "an append with a service": (
        'stack = "corel"\n[[at]]\ntime = "1s"\nappend = { node = "p", service = "safe" }',
        "at[0].append.service",
    ),
    "an append too large": (
        'stack = "corel"\n[[at]]\ntime = "1s"\nappend = { node = "p", size = 16711681 }',
        "at[0].append.size",
    ),
    "an append of a node that is down": (
        'stack = "corel"\nat = [{ time = "1s", crash = ["p"] }, { time = "1s", append = { node = "p" } }]',
        "at[1].append: node 'p' is down",
    ),
    "a load of false appends": (
        'stack = "corel"\n[[load]]\nnodes = ["p"]\nrate = 1\nappend = false',
        "load[0].append: expected true",
    ),
    "a load of appends with a service": (
        'stack = "corel"\n[[load]]\nnodes = ["p"]\nrate = 1\nappend = true\nservice = "safe"',
        "load[0].service",
    ),
    "a load without nodes": ("[[load]]\nrate = 1", "load[0].nodes"),
    "a load without a rate": ('[[load]]\nnodes = ["p"]', "load[0].rate"),
    "a load of a negative rate": ('[[load]]\nnodes = ["p"]\nrate = -1', "load[0].rate"),
    "a load of an infinite rate": ('[[load]]\nnodes = ["p"]\nrate = inf', "load[0].rate"),
    "a load that appends without the log": (
        '[[load]]\nnodes = ["p"]\nrate = 1\nappend = true',
        "load[0].append: expected stack",
    ),
    "a load that ends before it begins": (
        '[[load]]\nnodes = ["p"]\nrate = 1\nfrom = "2s"\nuntil = "1s"',
        "load[0].until",
    ),
    "an unknown fault": ('[chaos]\nfaults = ["fire"]', "chaos.faults"),
    "a fault that is a list": ("[chaos]\nfaults = [[1]]", "chaos.faults"),
    "no faults": ("[chaos]\nfaults = []", "chaos.faults"),
    "no gap": ('[chaos]\nmean_gap = "0s"', "chaos.mean_gap"),
    "a crash of a node that is down": (
        'at = [{ time = "1s", crash = ["p"] }, { time = "2s", crash = ["p"] }]',
        "at[1].crash: node 'p' is down",
    ),
    "a crash twice in one entry": ('[[at]]\ntime = "1s"\ncrash = ["p", "p"]', "at[0].crash"),
    "a send of a node that is down": (
        'at = [{ time = "1s", crash = ["p"] }, { time = "1s", send = { node = "p" } }]',
        "at[1].send: node 'p' is down",
    ),
    "a send of a node that has not started": (
        'at = [{ time = "0s", send = { node = "p" } }, { time = "0s", crash = ["p"] }]',
        "at[0].send",
    ),
    "a pause of a node that is down": (
        'at = [{ time = "1s", crash = ["p"] }, { time = "2s", pause = ["p"] }]',
        "at[1].pause",
    ),
    "a restart of a node that is up": ('[[at]]\ntime = "1s"\nrestart = ["p"]', "at[0].restart: node 'p' is up"),
    "a resume of a node that is not paused": ('[[at]]\ntime = "1s"\nresume = ["p"]', "at[0].resume"),
    "a resume after a crash": (
        'at = [{ time = "1s", pause = ["p"] }, { time = "2s", crash = ["p"] }, { time = "3s", resume = ["p"] }]',
        "at[2].resume",
    ),
    "not TOML": ("nodes = [", "expected TOML"),
    "a key twice": ('name = "y"', "expected TOML"),
}


@pytest.mark.parametrize(("text", "where"), BAD.values(), ids=BAD)
def test_bad_input(text: str, where: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("some.toml: ")
    assert where in message
    assert "expected" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("nodes", "where"),
    [
        ("[]", "nodes"),
        ('"p"', "nodes"),
        ("[1]", "nodes"),
        ('["p", "p"]', "twice"),
        ('[""]', "nodes"),
        ('["../p"]', "nodes"),
        ('["p:1"]', "nodes"),
        ('[".p"]', "nodes"),
        ('["p\\n"]', "nodes"),
        ("[" + ", ".join(f'"n{i}"' for i in range(65)) + "]", "1 to 64"),
    ],
)
def test_bad_nodes(nodes: str, where: str) -> None:
    with pytest.raises(Malformed, match=where):
        parse_scenario(f'duration = "1s"\nnodes = {nodes}', FILE)


@pytest.mark.parametrize("text", ['nodes = ["p"]', 'duration = "1s"', "", 'nodes = ["p"]\nduration = 1'])
def test_what_is_required(text: str) -> None:
    with pytest.raises(Malformed, match="expected"):
        parse_scenario(text, FILE)


def test_with_chaos_it_is_not_known_what_can_apply() -> None:
    scenario = parse('at = [{ time = "1s", restart = ["p"] }]\n[chaos]\nfaults = ["crash"]')
    assert len(scenario.steps) == 1


def test_a_paused_node_can_send_and_crash() -> None:
    scenario = parse(
        'at = [{ time = "1s", pause = ["p"] }, { time = "2s", send = { node = "p" } },'
        ' { time = "3s", crash = ["p"] }, { time = "4s", restart = ["p"] }, { time = "5s", pause = ["p"] }]'
    )
    assert isinstance(scenario.steps[2].verb, Crash)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="No such file"):
        load_scenario(tmp_path / "none.toml")
    with pytest.raises(Malformed, match="directory"):
        load_scenario(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(Malformed, match="UTF-8"):
        load_scenario(tmp_path / "latin.toml")


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["p", "q", "z", "1s", "-1s", "5", "1Mbit", "agreed", "atop", "crash", "", "\x1f", "é\n"]),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
WORDS = """
name nodes seed stack quorum kind order duration settle final final_down network link at load chaos time partition
heal cut crash restart pause resume send append node service count size rate from until faults mean_gap between
loss latency bandwidth mtu other
"""
KEYS = st.sampled_from(WORDS.split())
TABLES = st.recursive(
    VALUES,
    lambda inner: st.one_of(st.dictionaries(KEYS, inner, max_size=4), st.lists(inner, max_size=3)),
    max_leaves=20,
)


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(c):04x}" for c in value) + '"'
    return repr(value)


def refused(text: str) -> str | None:
    try:
        parse_scenario(text, FILE)
    except Malformed as error:
        return str(error)
    return None


@settings(max_examples=400)
@given(st.dictionaries(KEYS, TABLES, max_size=6), st.booleans())
def test_no_document_gives_anything_but_a_scenario_or_one_line(document: dict[str, object], head: bool) -> None:
    given = {"nodes": ["p", "q"], "duration": "9s"} if head else {}
    text = "\n".join(f"{key} = {toml(value)}" for key, value in (given | document).items())
    problem = refused(text)
    assert problem is None or ("\n" not in problem and "some.toml" in problem)


@settings(max_examples=300)
@given(st.text(max_size=80), st.integers(0, 400), st.integers(0, 400))
def test_no_text_gives_anything_but_a_scenario_or_one_line(text: str, start: int, end: int) -> None:
    good = HEAD + '[[at]]\ntime = "1s"\ncrash = ["p"]\n[[load]]\nnodes = ["p"]\nrate = 1\n[chaos]\nfaults = ["cut"]\n'
    problem = refused(good[:start] + text + good[end:])
    assert problem is None or "\n" not in problem


def test_a_key_that_is_nearly_one_is_guessed() -> None:
    with pytest.raises(Malformed, match=r"ndoes: unknown key; did you mean nodes\? expected one of"):
        parse_scenario('ndoes = ["a"]\n', Path("typo.toml"))
    text = 'nodes = ["left", "right"]\nduration = "1s"\nfinal = [["lfet"]]\n'
    with pytest.raises(Malformed, match=r"final: unknown node 'lfet'; did you mean left\? expected one of nodes"):
        parse_scenario(text, Path("typo.toml"))
