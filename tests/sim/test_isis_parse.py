"""Scenario files of stack isis: processes and what they do, and what is refused with one line."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.test_parse import FILE, TABLES, refused, toml

from reconvene.errors import Malformed
from reconvene.isis.events import ALL
from reconvene.sim.isis_scenario import Cast, Casting, Flush, Join, Kill, Leave, ProcessPlan, Rank
from reconvene.sim.parse import parse_scenario
from reconvene.sim.scenario import Scenario

HEAD = 'name = "x"\nnodes = ["a", "b.c"]\nduration = "10s"\nstack = "isis"\n'
PROCESSES = """
[[process]]
node = "a"
name = "x"
groups = ["bank", "fleet"]
replies = true
state = true
[[process]]
node = "b.c"
name = "y"
"""


def parse(text: str, head: str = HEAD + PROCESSES) -> Scenario:
    return parse_scenario(head + text, FILE)


def step(verb: str) -> str:
    return f'[[at]]\ntime = "1s"\n{verb}\n'


def test_processes() -> None:
    assert parse("").processes == (
        ProcessPlan("a", "x", ("bank", "fleet"), replies=True, state=True),
        ProcessPlan("b.c", "y"),
    )
    assert parse("", HEAD).processes == ()


VERBS = {
    'join = { process = "a.x", group = "till" }': Join("a.x", "till"),
    'leave = { process = "b.c.y", group = "bank" }': Leave("b.c.y", "bank"),
    'kill = ["a.x", "b.c.y"]': Kill(("a.x", "b.c.y")),
    'cbcast = { process = "a.x", to = "bank", label = "x", count = 10, size = 9 }': Cast(
        "a.x", Casting("cbcast", "bank", 9, "x"), 10
    ),
    'cbcast = { process = "a.x", to = ["a.x", "b.c.y"], label = { x = 1, y = 2 }, replies = 2 }': Cast(
        "a.x", Casting("cbcast", ("a.x", "b.c.y"), 64, {"x": 1, "y": 2}, replies=2)
    ),
    'cbcast = { process = "a.x", to = "bank", label = {} }': Cast("a.x", Casting("cbcast", "bank", 64, {})),
    'cbcast = { process = "a.x", to = "bank" }': Cast("a.x", Casting("cbcast", "bank")),
    'abcast = { process = "a.x", to = "bank", label = "queue", causal = true, replies = "all" }': Cast(
        "a.x", Casting("abcast", "bank", 64, "queue", causal=True, replies=ALL)
    ),
    'gbcast = { process = "a.x", group = "bank" }': Cast("a.x", Casting("gbcast", "bank")),
    'flush = { process = "a.x" }': Flush("a.x"),
    'rank = { process = "a.x", group = "bank", order = ["b.c.y", "a.x"] }': Rank("a.x", "bank", ("b.c.y", "a.x")),
}


@pytest.mark.parametrize("text", VERBS)
def test_verbs(text: str) -> None:
    (found,) = parse(step(text)).steps
    assert found.verb == VERBS[text]


def test_loads_and_faults() -> None:
    scenario = parse(
        '[[load]]\nprocesses = ["a.x"]\ncast = "abcast"\nto = "bank"\nlabel = "queue"\nreplies = 1\nrate = 5\n'
        "size = 7\n"
        '[[load]]\nprocesses = ["b.c.y"]\ncast = "gbcast"\nto = "bank"\nrate = 1\n'
        '[chaos]\nfaults = ["kill", "crash"]\n'
    )
    one, two = scenario.loads
    assert (one.nodes, one.processes, one.size) == ((), ("a.x",), 7)
    assert one.casting == Casting("abcast", "bank", 7, "queue", replies=1)
    assert two.casting == Casting("gbcast", "bank")
    assert scenario.chaos is not None
    assert scenario.chaos.faults == ("kill", "crash")


def process(text: str) -> str:
    return f"[[process]]\n{text}\n"


BAD = {
    "a process of an unknown node": (process('node = "z"\nname = "w"'), "process[2].node: unknown node 'z'"),
    "a process without a node": (process('name = "w"'), "process[2].node: missing"),
    "a process without a name": (process('node = "a"'), "process[2].name: missing"),
    "a name with a dot": (process('node = "a"\nname = "w.v"'), "process[2].name"),
    "a name that is none": (process('node = "a"\nname = ""'), "process[2].name"),
    "a process twice": (process('node = "a"\nname = "x"'), "process[2].name: process 'a.x' stands there twice"),
    "too many processes of a node": (
        "".join(process(f'node = "a"\nname = "p{number}"') for number in range(1024)),
        "process: expected 1024 processes of node 'a' at most, not 1025",
    ),
    "an unknown key of a process": (process('node = "a"\nname = "w"\ngroup = "g"'), "did you mean groups?"),
    "groups that are no list": (process('node = "a"\nname = "w"\ngroups = "g"'), "process[2].groups"),
    "a group that is no text": (process('node = "a"\nname = "w"\ngroups = [1]'), "process[2].groups"),
    "a group twice": (process('node = "a"\nname = "w"\ngroups = ["g", "g"]'), "process[2].groups"),
    "a group without a name": (process('node = "a"\nname = "w"\ngroups = [""]'), "process[2].groups"),
    "replies that are no flag": (process('node = "a"\nname = "w"\nreplies = 1'), "process[2].replies"),
    "state that is no flag": (process('node = "a"\nname = "w"\nstate = "yes"'), "process[2].state"),
    "a process that is not declared": (
        step('cbcast = { process = "a.z", to = "bank" }'),
        "at[0].cbcast.process: unknown process 'a.z'; did you mean a.x? expected one of the file's [[process]]",
    ),
    "a node in place of a process": (step('flush = { process = "a" }'), "at[0].flush.process"),
    "a destination that is not declared": (step('cbcast = { process = "a.x", to = ["b.x"] }'), "at[0].cbcast.to"),
    "a destination twice": (step('cbcast = { process = "a.x", to = ["a.x", "a.x"] }'), "at[0].cbcast.to"),
    "nobody": (step('cbcast = { process = "a.x", to = [] }'), "at[0].cbcast.to"),
    "no destination": (step('cbcast = { process = "a.x" }'), "at[0].cbcast.to: missing"),
    "a destination that is a number": (step('abcast = { process = "a.x", to = 7 }'), "at[0].abcast.to"),
    "a gbcast to processes": (step('gbcast = { process = "a.x", group = ["a.x"] }'), "at[0].gbcast.group"),
    "a gbcast with a label": (step('gbcast = { process = "a.x", group = "g", label = "x" }'), "at[0].gbcast.label"),
    "a causal cbcast": (step('cbcast = { process = "a.x", to = "g", causal = true }'), "at[0].cbcast.causal"),
    "causal is no flag": (step('abcast = { process = "a.x", to = "g", causal = 1 }'), "at[0].abcast.causal"),
    "an unknown field": (step('abcast = { process = "a.x", to = "g", labels = "x" }'), "did you mean label?"),
    "a label that is a number": (step('cbcast = { process = "a.x", to = "g", label = 7 }'), "at[0].cbcast.label"),
    "a label that is a list": (step('cbcast = { process = "a.x", to = "g", label = [] }'), "at[0].cbcast.label"),
    "a label of an abcast that is a table": (
        step('abcast = { process = "a.x", to = "g", label = { x = 1 } }'),
        "at[0].abcast.label: expected a label, which is text",
    ),
    "a component that is no number": (
        step('cbcast = { process = "a.x", to = "g", label = { x = "1" } }'),
        "at[0].cbcast.label: label component 'x' is '1'",
    ),
    "a component below zero": (
        step('cbcast = { process = "a.x", to = "g", label = { x = -1 } }'),
        "at[0].cbcast.label: label component 'x' is -1",
    ),
    "too many components": (
        step(f'cbcast = {{ process = "a.x", to = "g", label = {{ {", ".join(f"c{i} = 1" for i in range(17))} }} }}'),
        "expected at most 16",
    ),
    "a component with a long name": (
        step(f'cbcast = {{ process = "a.x", to = "g", label = {{ {"c" * 65} = 1 }} }}'),
        "64 bytes",
    ),
    "a component without a name": (
        step('cbcast = { process = "a.x", to = "g", label = { "" = 1 } }'),
        "at[0].cbcast.label: label component ''",
    ),
    "a long label": (
        step(f'abcast = {{ process = "a.x", to = "g", label = "{"é" * 128}" }}'),
        "expected at most 255",
    ),
    "replies below zero": (step('cbcast = { process = "a.x", to = "g", replies = -1 }'), "at[0].cbcast.replies"),
    "more replies than processes": (
        step('abcast = { process = "a.x", to = ["a.x"], replies = 2 }'),
        "at[0].abcast.replies",
    ),
    "replies that are another word": (step('cbcast = { process = "a.x", to = "g", replies = "some" }'), '"all"'),
    "a count below zero": (step('cbcast = { process = "a.x", to = "g", count = -1 }'), "at[0].cbcast.count"),
    "a join without a group": (step('join = { process = "a.x" }'), "at[0].join.group: missing"),
    "a join that is no table": (step('join = "a.x"'), "at[0].join"),
    "kill is no list": (step('kill = "a.x"'), "at[0].kill: expected a list of processes such as"),
    "killed twice in one entry": (step('kill = ["a.x", "a.x"]'), "at[0].kill: process 'a.x' stands there twice"),
    "a rank of strangers": (step('rank = { process = "a.x", group = "g", order = ["a.w"] }'), "at[0].rank.order"),
    "a flush of a group": (step('flush = { process = "a.x", group = "g" }'), "at[0].flush.group"),
    "a plain message": (step('send = { node = "a" }'), "at[0].send: expected stack"),
    "an append": (step('append = { node = "a" }'), "at[0].append: expected stack"),
    "a load of nodes": ('[[load]]\nnodes = ["a"]\nrate = 1', "load[0].nodes: expected stack"),
    "a load of no process": ('[[load]]\ncast = "cbcast"\nto = "g"\nrate = 1', "load[0].processes: missing"),
    "a load without a cast": ('[[load]]\nprocesses = ["a.x"]\nto = "g"\nrate = 1', "load[0].cast: missing"),
    "a load of an unknown cast": (
        '[[load]]\nprocesses = ["a.x"]\ncast = "dbcast"\nto = "g"\nrate = 1',
        "load[0].cast: expected one of cbcast, abcast, gbcast, not 'dbcast'",
    ),
    "a load of gbcasts with a label": (
        '[[load]]\nprocesses = ["a.x"]\ncast = "gbcast"\nto = "g"\nlabel = "x"\nrate = 1',
        "load[0].label",
    ),
    "a load of gbcasts to processes": (
        '[[load]]\nprocesses = ["a.x"]\ncast = "gbcast"\nto = ["a.x"]\nrate = 1',
        "load[0].to",
    ),
    "a quorum": ('quorum = { kind = "majority" }', "quorum: expected stack"),
    "a fault that there is not": ('[chaos]\nfaults = ["murder"]', "chaos.faults"),
    "a cast of a process whose node is down": (
        step('crash = ["a"]') + step('cbcast = { process = "a.x", to = "bank" }'),
        "at[1].cbcast: process 'a.x' is not there then, since its node is down",
    ),
    "a flush of a killed one": (
        step('kill = ["a.x"]') + step('flush = { process = "a.x" }'),
        "at[1].flush: process 'a.x' is not there then, since it was killed before",
    ),
}


@pytest.mark.parametrize(("text", "where"), BAD.values(), ids=BAD)
def test_bad_input(text: str, where: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse(text, HEAD if text.startswith("quorum") else HEAD + PROCESSES)
    message = str(caught.value)
    assert message.startswith("some.toml: ")
    assert where in message
    assert "expected" in message
    assert "\n" not in message


@pytest.mark.parametrize("stack", ["evs", "corel"])
@pytest.mark.parametrize(
    "text",
    [
        PROCESSES,
        step('join = { process = "a.x", group = "g" }'),
        step('kill = ["a.x"]'),
        '[[load]]\nprocesses = ["a.x"]\ncast = "cbcast"\nto = "g"\nrate = 1',
        '[chaos]\nfaults = ["kill"]',
    ],
)
def test_only_the_stack_isis_has_processes(stack: str, text: str) -> None:
    with pytest.raises(Malformed, match=r"isis|faults"):
        parse(text, HEAD.replace("isis", stack))


def test_a_killed_process_is_there_again_after_its_node_restarts() -> None:
    steps = ('kill = ["a.x"]', 'crash = ["a"]', 'restart = ["a"]', 'flush = { process = "a.x" }')
    assert len(parse("".join(map(step, steps))).steps) == 4


def test_with_chaos_it_is_not_known_who_is_there() -> None:
    assert len(parse(step('kill = ["a.x"]') * 2 + "[chaos]").steps) == 2


WORDS = """
process node name groups replies state at time join leave kill cbcast abcast gbcast flush rank group to label causal
count size order load processes cast rate chaos faults
"""
KEYS = st.sampled_from(WORDS.split())


@settings(max_examples=150)
@given(st.dictionaries(KEYS, st.one_of(TABLES, st.dictionaries(KEYS, TABLES, max_size=4)), max_size=5))
def test_no_document_gives_anything_but_a_scenario_or_one_line(document: dict[str, object]) -> None:
    given = {"nodes": ["p", "q"], "duration": "9s", "stack": "isis", "process": [{"node": "p", "name": "q"}]}
    problem = refused("\n".join(f"{key} = {toml(value)}" for key, value in (given | document).items()))
    assert problem is None or ("\n" not in problem and str(Path("some.toml")) in problem)
