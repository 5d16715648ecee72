"""Stack `wide` with processes of ISIS: the keys of its files, and what its runs leave."""

from pathlib import Path

import pytest
from tests.sim.chunks import few
from tests.sim.two_clusters import process, two_clusters
from tests.sim.two_clusters import step as at

from reconvene.errors import Malformed
from reconvene.lab.campaign.seeds import run_seed
from reconvene.sim.isis_scenario import Cast, Casting, Watch
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Runner

HEAD = (
    two_clusters('duration = "1s"\nsettle = "0s"', berlin="a")
    + process("berlin/a.x", "bank")
    + process("paris/p.y")
    + process("paris/q.z")
)


def step(verb: str) -> str:
    return at("900ms", verb)


def test_casts_and_watches() -> None:
    verbs = (
        'cbcast = { process = "paris/p.y", to = "bank", label = "l", count = 3 }',
        'abcast = { process = "paris/p.y", to = ["berlin/a.x"], scope = "wide" }',
        'cbcast = { process = "paris/p.y", to = ["paris/q.z"], scope = "cluster", replies = "all" }',
        'watch = { process = "paris/p.y", watched = "berlin/a.x" }',
    )
    scenario = parse_scenario(HEAD + "".join(map(step, verbs)), Path("x.toml"))
    assert scenario.isis
    assert [one.verb for one in scenario.steps] == [
        Cast("paris/p.y", Casting("cbcast", "bank", label="l", scope="wide"), 3),
        Cast("paris/p.y", Casting("abcast", ("berlin/a.x",), scope="wide")),
        Cast("paris/p.y", Casting("cbcast", ("paris/q.z",), replies=-1)),
        Watch("paris/p.y", "berlin/a.x"),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + step('cbcast = { process = "paris/p.y", to = "bank", replies = 1 }'), "expected none beside scope"),
        (HEAD + step('abcast = { process = "paris/p.y", to = "bank", causal = true }'), "expected none beside scope"),
        (HEAD + step('gbcast = { process = "paris/p.y", group = "bank", scope = "wide" }'), 'expected "cluster"'),
        (HEAD + step('cbcast = { process = "paris/p.y", to = "bank", scope = "all" }'), "scope"),
        (HEAD + step('watch = { process = "paris/p.y", watched = "paris/q.z" }'), "another domain"),
        (HEAD + step('watch = { process = "paris/p.y", watched = "rome/r.z" }'), "rome/r.z"),
        (HEAD.replace("isis = true", 'isis = "yes"'), "isis"),
        (HEAD.replace("isis = true\n", "") + step('kill = ["paris/p.y"]'), "expected isis = true"),
        (HEAD.replace("isis = true\n", "") + step('watch = { process = "paris/p.y", watched = "berlin/a.x" }'),
         "expected isis = true"),
        ('nodes = ["a"]\nduration = "1s"\nisis = true\n', 'expected stack = "wide"'),
        ('nodes = ["a"]\nduration = "1s"\n' + step('watch = { process = "a.x", watched = "a.y" }'),
         'expected stack = "wide"'),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, says: str) -> None:
    with pytest.raises(Malformed, match=says) as refused:
        parse_scenario(text, Path("x.toml"))
    assert "\n" not in str(refused.value)


def test_what_can_not_be_cast_is_skipped() -> None:
    """To nobody; to a group that does not leave its domain; a watch of a process that nobody can reach."""
    closed = HEAD.replace('gateways = ["p"]', 'gateways = ["p"]\npass = { out = ["isis:"], in = [] }')
    steps = (
        step('cbcast = { process = "paris/p.y", to = "bank" }')
        + step('abcast = { process = "paris/p.y", to = "nobody" }')
        + step('watch = { process = "paris/p.y", watched = "berlin/a.x" }')
    )
    result = Runner(parse_scenario(closed + steps, Path("x.toml"))).run()
    assert result.skipped == 3
    assert not [row for rows in result.rows.values() for row in rows if row.kind in ("cbcast", "abcast")]


@pytest.mark.long("a run of five seconds and more each")
@pytest.mark.parametrize("seed", few(range(12), 0))
def test_random_runs_keep_every_promise(seed: int) -> None:
    found = run_seed("wide-isis", seed)
    assert found.ok, found
