"""Followers in simulation: faults that they meet, what they keep, and one that serves what it has not synced."""

from pathlib import Path

import pytest

from reconvene.corel.following.follower import Follower
from reconvene.corel.following.messages import Answer, Ask, Pulled
from reconvene.corel.following.source import Source
from reconvene.corel.limits import LogLimits
from reconvene.corel.replicas.sets import MAJORITY
from reconvene.errors import Malformed
from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.sim.cluster import Cluster
from reconvene.sim.log_site import RealLogCore
from reconvene.sim.parse import parse_scenario
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner, run_scenario
from reconvene.trace.events import Row
from reconvene.trace.writer import encode_row
from reconvene.verify.engine import verify
from reconvene.verify.history import History

SECOND = 1_000_000_000

_TREE = """
nodes = ["a", "b", "c"]
followers = ["f", "g", "h"]
stack = "corel"
duration = "6s"
settle = "4s"
[[load]]
nodes = ["a", "b", "c", "f"]
append = true
rate = 20
"""


def _parse(text: str) -> str:
    with pytest.raises(Malformed) as error:
        parse_scenario(text, Path("x.toml"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_names_are_refused_in_one_line() -> None:
    head = 'nodes = ["a", "b"]\nduration = "1s"\n'
    assert "stack" in _parse(head + 'followers = ["f"]')
    log = head + 'stack = "corel"\n'
    assert "another name" in _parse(log + 'followers = ["a"]')
    assert "another name" in _parse(log + 'followers = ["f"]\noutposts = ["f"]')
    assert "twice" in _parse(log + 'followers = ["f", "f"]')
    assert "a name of" in _parse(log + 'followers = ["../f"]')
    assert "list of names" in _parse(log + "followers = 3")
    assert "unknown node" in _parse(log + 'followers = ["f"]\n[[at]]\ntime = "0s"\nsend = { node = "f" }')


def test_they_part_and_crash_and_come_to_have_everything() -> None:
    scenario = parse_scenario(
        _TREE
        + """
[[at]]
time = "1s"
crash = ["f", "h"]
[[at]]
time = "2s"
partition = [["a", "b", "g"], ["c", "f"], ["h"]]
[[at]]
time = "2s"
restart = ["f", "h"]
[[at]]
time = "3s"
pause = ["g"]
[[at]]
time = "4s"
resume = ["g"]
[[at]]
time = "4s"
heal = true
[[at]]
time = "5s"
append = { node = "f" }
""",
        Path("tree.toml"),
    )
    result = run_scenario(scenario)
    report = verify([History.of(result.meta, result.rows)])
    assert report.ok, report.violated()
    assert result.skipped == 1, "a follower takes no appends"
    greens = {name: [row.msg for row in result.rows[name] if row.kind == "green"] for name in "afgh"}
    assert len(greens["a"]) > 300
    assert all(found == greens["a"] for found in greens.values())


def test_the_same_seed_gives_the_same_rows() -> None:
    first, second = (run_scenario(random_scenario(5, "followers", 3)) for _ in range(2))
    assert _bytes(first.rows) == _bytes(second.rows)


def _bytes(rows: dict[str, list[Row]]) -> bytes:
    return b"".join(encode_row(row) for name in sorted(rows) for row in rows[name])


def test_a_late_follower_begins_where_the_log_was_truncated() -> None:
    limits = LogLimits(turn_bytes=64 << 10, turn_messages=24, retain_bytes=4_000)
    cluster = Cluster("abc", seed=3, core=RealLogCore(limits=limits), followers=("f", "g"))
    cluster.start(["a", "b", "c"])
    cluster.run_until(1 * SECOND)
    for turn in range(40):
        cluster.append("a", [b"%d-%d" % (turn, place) * 20 for place in range(10)])
        cluster.run_for(SECOND // 10)
    log = cluster.node("a").log
    assert log is not None
    assert log.replica.base > 100, "the log was truncated"
    cluster.restart("f")
    cluster.run_for(2 * SECOND)
    cluster.restart("g")
    cluster.run_for(2 * SECOND)
    for name in ("f", "g"):
        rows = cluster.rows[name]
        assert rows[0].kind == "snapshot"
        assert rows[0].pos == next(row for row in rows if row.kind == "green").pos
        assert cluster.followers["fg".index(name)].pulling.follower.green == log.replica.green  # type: ignore[union-attr]


def _asked_of_replicas(followers: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Under the same load: how often the replicas sent batches to followers, and how many bytes of them."""
    answers: list[int] = []
    answer = Source.answer

    def counted(source: Source, ask: Ask, *, late: bool = False) -> Answer | None:
        found = answer(source, ask, late=late)
        if isinstance(found, Pulled) and found.batches and not isinstance(source._replica, Follower):
            answers.append(sum(len(batch.body) for batch in found.batches))
        return found

    names = [f"f{number:03}" for number in range(followers)]
    with monkeypatch.context() as patched:
        patched.setattr(Source, "answer", counted)
        cluster = Cluster("abc", seed=5, core=RealLogCore(), followers=names)
        cluster.start()
        cluster.run_until(2 * SECOND)
        answers.clear()  # while they started, some asked the replicas
        for turn in range(100):
            cluster.append("abc"[turn % 3], [b"%d" % turn * 20])
            cluster.run_for(SECOND // 50)
        cluster.run_for(2 * SECOND)
    log = cluster.node("a").log
    assert log is not None
    assert log.replica.green >= 100
    for node in cluster.followers:
        assert node.pulling is not None
        assert node.pulling.follower.green == log.replica.green
    return len(answers), sum(answers)


def test_replicas_serve_a_tree_of_200_followers_like_a_single_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, size = _asked_of_replicas(1, monkeypatch)
    assert answers > 10
    many, sent = _asked_of_replicas(200, monkeypatch)
    assert sent == size, "each batch goes out once"
    assert many <= 2 * answers, "its followers may make the first one ask sooner"


def test_state_machines_snapshots_come_along() -> None:
    """The log is truncated up to a snapshot: a machine that starts at a follower needs that, also further down the
    tree, and after crashes amid the transfer."""
    limits = LogLimits(turn_bytes=64 << 10, turn_messages=24, retain_bytes=4_000)
    cluster = Cluster("abc", seed=4, core=RealLogCore(limits=limits), followers=("f", "g"))
    cluster.start(["a", "b", "c"])
    cluster.run_until(1 * SECOND)
    log = cluster.node("a").log
    assert log is not None
    data = bytes(range(256)) * 2_000
    for turn in range(40):
        if turn == 20:
            log.replica.save_snapshot(log.replica.green, data, "machine")
        cluster.append("a", [b"%d-%d" % (turn, place) * 20 for place in range(10)])
        cluster.run_for(SECOND // 10)
    kept = log.replica.snapshots.newest["machine"]
    assert log.replica.base > 100, "the log was truncated"
    assert log.replica.base <= kept.position
    for name in ("f", "g"):
        cluster.restart(name)
        for _ in range(4):
            cluster.run_for(15_000_000)
            cluster.crash(name)
            cluster.restart(name)
        cluster.run_for(4 * SECOND)
        pulling = cluster.followers["fg".index(name)].pulling
        assert pulling is not None
        follower = pulling.follower
        assert follower.green == log.replica.green
        assert follower.snapshots.newest["machine"].position == kept.position
        assert follower.snapshots.read("machine", 0, len(data)) == data
        assert follower.base <= kept.position, "what the machine needs after it is here"
    log.replica.snapshots.drop("machine")
    cluster.append("a", [b"last"])
    cluster.run_for(2 * SECOND)
    assert "machine" not in cluster.followers[1].pulling.follower.snapshots.uses  # type: ignore[union-attr]


class ServesUnsynced(Follower):
    """The planted bug: what has come is reported, and served, before it is on the disk."""

    @property
    def green(self) -> int:
        return self.queue.green

    def _report(self, event: object) -> None:
        self._turn.report(event)  # type: ignore[arg-type]


def test_a_follower_that_serves_what_is_not_synced_is_caught() -> None:
    for seed in range(50):
        result = Runner(random_scenario(seed, "followers"), follower=ServesUnsynced).run()
        violated = verify([History.of(result.meta, result.rows)]).violated()
        if violated:
            assert "corel.follow" in violated
            return
    pytest.fail("50 seeds did not show it")


def test_sources_that_answer_late_are_waited_for() -> None:
    """f–a and f–b take three seconds for an answer, o takes two everywhere: longer than the patience that they begin
    with. A source that was connected, and silent, counted as reached: f began with it again each time."""
    links = [("f", "a", "1500ms"), ("f", "b", "1500ms"), ("f", "c", "1500ms")]
    links += [("o", site, "1s") for site in "abc"]
    text = "".join(f'[[link]]\nbetween = ["{one}", "{other}"]\nlatency = "{late}"\n' for one, other, late in links)
    head = _TREE.replace('followers = ["f", "g", "h"]', 'followers = ["f"]\noutposts = ["o"]')
    head = head.replace('"c", "f"]', '"c", "o"]').replace('settle = "4s"', 'settle = "30s"')
    result = run_scenario(parse_scenario(head + text, Path("late.toml")))
    report = verify([History.of(result.meta, result.rows)])
    assert report.ok, report.violated()
    assert len([row for row in result.rows["f"] if row.kind == "green"]) > 300


_BLACKOUT = """
nodes = ["a", "b", "c", "d"]
followers = ["f"]
stack = "corel"
duration = "3100ms"
settle = "4s"
[[at]]
time = "1s"
append = { node = "a" }
[[at]]
time = "2s"
partition = [["a", "b", "c", "d"], ["f"]]
[[at]]
time = "3s"
append = { node = "a" }
[[at]]
time = "3050ms"
crash = ["a", "b", "c", "d"]
"""


@pytest.mark.parametrize("final", ['[["a", "b", "f"], ["c", "d"]]', '[["a", "b", "c", "f"], ["d"]]'])
def test_a_green_line_that_no_replica_has_kept(final: str) -> None:
    """All replicas crash after they reported a message as green, and before their green lines are on disk. Nobody can
    hand it to f until a quorum has met: without one the check must not ask for it."""
    runner = Runner(parse_scenario(f"final = {final}{_BLACKOUT}", Path("blackout.toml")))
    ledger = ReplicaLedger(runner.cluster)
    result = runner.run()
    assert all([row.pos for row in result.rows[name] if row.kind == "green"] == [0, 1] for name in "abcd")
    assert verify([History.of(result.meta, result.rows)]).violated() == []
    assert ledger.problems(MAJORITY) == []
    quorum = "c" in final.partition("]")[0]
    greens = [(row.pos, row.msg) for row in result.rows["f"] if row.kind == "green"]
    assert greens == [(0, "a:1:1"), (1, "a:1:2")][: 1 + quorum]
