"""Stack `wide` with processes of ISIS: the keys of its files, and what its runs leave."""

from pathlib import Path

import pytest
from tests.sim.chunks import few
from tests.sim.two_clusters import load, process, two_clusters
from tests.sim.two_clusters import step as at

from reconvene.errors import Malformed
from reconvene.lab.campaign.seeds import histories, run_seed
from reconvene.sim.isis_scenario import Cast, Casting, Watch
from reconvene.sim.parse import parse_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.wide_isis import WideIsisSite
from reconvene.sim.wide_world import WideWorld
from reconvene.verify.engine import verify

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
        'cbcast = { process = "paris/p.y", to = "bank", replies = 1 }',
        'cbcast = { process = "paris/p.y", to = ["paris/q.z"], scope = "cluster", replies = "all" }',
        'watch = { process = "paris/p.y", watched = "berlin/a.x" }',
    )
    scenario = parse_scenario(HEAD + "".join(map(step, verbs)), Path("x.toml"))
    assert scenario.isis
    assert [one.verb for one in scenario.steps] == [
        Cast("paris/p.y", Casting("cbcast", "bank", label="l", scope="wide"), 3),
        Cast("paris/p.y", Casting("abcast", ("berlin/a.x",), scope="wide")),
        Cast("paris/p.y", Casting("cbcast", "bank", replies=1, scope="wide")),
        Cast("paris/p.y", Casting("cbcast", ("paris/q.z",), replies=-1)),
        Watch("paris/p.y", "berlin/a.x"),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
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


def test_a_cluster_without_members_can_cast_to_a_group() -> None:
    """Its sites learn who is in it, though they have nobody to tell of."""
    text = HEAD + step('cbcast = { process = "paris/q.z", to = "bank" }')
    result = Runner(parse_scenario(text.replace('settle = "0s"', 'settle = "1s"'), Path("x.toml"))).run()
    assert result.skipped == 0
    (got,) = [row for row in result.rows["berlin/a"] if row.kind == "receive"]
    assert (got.process, got.sender) == ("berlin/a:1:1", "paris/q:1:1")


def test_every_call_ends_whatever_becomes_of_its_destinations() -> None:
    """Some answer, some have failed by then, and one cluster gets out of reach and comes back."""
    text = (
        two_clusters('duration = "4s"\nsettle = "2s"\nfinal_down = ["berlin/c"]\n[between]\nlatency = "20ms"')
        + "".join(process(name, "bank") + "replies = true\n" for name in ("berlin/b.x", "berlin/c.y", "paris/q.z"))
        + load(("paris/q.z", "berlin/b.x"), "cbcast", 30, "4s", 'replies = "all"')
        + at("1.5s", 'kill = ["berlin/b.x"]')
        + at("2s", 'crash = ["berlin/c"]')
        + at("2.5s", 'split = [["berlin"], ["paris"]]')
        + at("3s", "heal = true")
    )
    runner = Runner(parse_scenario(text, Path("x.toml")), 1, check_every=20)
    result = runner.run()
    report = verify(histories(result))
    assert report.violated() == []
    assert report.check("wide.cast-failed").cases > 0
    assert isinstance(runner.world, WideWorld)
    for name in runner.world.names:
        site = runner.world.node(name).node.site
        assert site is None or (isinstance(site, WideIsisSite) and not len(site.layer.far.calls))  # type: ignore[union-attr]


def test_the_failure_of_a_process_is_told_though_its_whole_cluster_was_killed() -> None:
    """Neither site of paris is a majority alone. Both are killed when they meet again, and nobody is lost."""
    text = (
        two_clusters('duration = "3s"\nsettle = "1s"')
        + process("berlin/a.x", "bank")
        + process("paris/q.z", "bank")
        + at("1s", 'watch = { process = "berlin/a.x", watched = "paris/q.z" }')
        + at("1.5s", 'partition = [["berlin/a", "berlin/b", "berlin/c", "paris/p"], ["paris/q"]]')
        + at("2.5s", "heal = true")
    )
    result = Runner(parse_scenario(text, Path("x.toml"))).run()
    told = [row for row in result.rows["berlin/a"] if row.kind in ("failed", "lost", "unreachable")]
    assert [(row.kind, row.sender) for row in told] == [("failed", "paris/q:1:1")]


@pytest.mark.long("a run of five seconds and more each")
@pytest.mark.parametrize("seed", few(range(12), 0))
def test_random_runs_keep_every_promise(seed: int) -> None:
    found = run_seed("wide-isis", seed)
    assert found.ok, found
