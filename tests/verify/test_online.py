"""The online judge finds what the local checks find, in whatever pieces the rows come; and forgets as it goes."""

import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec import structs
from tests.sim.chunks import in_chunks
from tests.verify import test_against_oracles, test_corel_against_oracles, test_vs_against_oracles

from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import run_scenario
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import read_trace
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.online.run import JUDGED, NOT_JUDGED, Limits, OnlineRun, Standing

ROOT = Path(__file__).parent.parent
GOLDEN = [each for kind in ("good", "bad") for each in sorted((ROOT / "golden" / kind).iterdir())]
SCENARIOS = ("storm", "mixed-services", "quick-restart", "log-storm", "log-dynamic", "log-minority", "log-all-crash")
LAYER = {check.id: check.layer for check in CHECKS}
Rows = Mapping[str, Sequence[Row]]


def feed(run: Run, rows: Rows, seed: object) -> OnlineRun:
    """In random pieces, of random nodes in turn; now and then it goes through the state store, as between batches."""
    chance = random.Random(str(seed))
    online = OnlineRun(run)
    at = dict.fromkeys(rows, 0)
    while left := [node for node in at if at[node] < len(rows[node])]:
        node = chance.choice(left)
        size = chance.choice((1, 3, 20, 200))
        online.feed(node, rows[node][at[node] : at[node] + size])
        at[node] += size
        if chance.random() < 0.1:
            online.read_all()
            online.judge(final=False)
        if chance.random() < 0.05:
            online = pickle.loads(pickle.dumps(online))
    return online


def compare(run: Run, rows: Rows, found: Standing) -> list[str]:
    """Asserts that a layer without suspects is as the local checks find it. Returns the violated checks."""
    report = verify([History.of(run, rows)])
    assert not found.lost
    violated = [check.id for check in report.checks if check.id in JUDGED and check.violations]
    for layer in ("evs", "corel"):
        if any(count and LAYER[check] == layer for check, count in found.suspects.items()):
            continue  # the local checks decide
        for check in report.checks:
            if check.id in JUDGED and LAYER[check.id] == layer:
                assert check.violations == 0, check.id
                assert found.cases.get(check.id, 0) == check.cases, check.id
    return violated


@pytest.mark.parametrize("directory", GOLDEN, ids=lambda directory: directory.name)
def test_golden_traces_in_pieces(directory: Path) -> None:
    trace = read_trace(directory)
    compare(trace.run, trace.rows, feed(trace.run, trace.rows, directory.name).judge(final=True))


def broken(seeds: Iterator[int]) -> Iterator[tuple[Run, Rows]]:
    for seed in seeds:
        for break_ in (
            test_against_oracles.broken_run,
            test_corel_against_oracles.broken_log,
            test_vs_against_oracles.broken_run,
        ):
            yield break_(seed, seed % 7)


@pytest.mark.parametrize("first", in_chunks(400, 40))
def test_random_histories_broken_at_random(first: int) -> None:
    caught = 0
    for run, rows in broken(iter(range(first, first + 40))):
        caught += bool(compare(run, rows, feed(run, rows, first).judge(final=True)))
    assert caught > 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_right_runs_are_proven_without_a_suspect(name: str) -> None:
    made = run_scenario(load_scenario(ROOT.parent / "scenarios" / f"{name}.toml"), seed=3)
    found = feed(made.meta, made.rows, name).judge(final=True)
    assert not any(found.suspects.values())
    assert compare(made.meta, made.rows, found) == []


def test_every_check_is_judged_or_it_is_said_why_not() -> None:
    ours = {check.id for check in CHECKS if check.layer in ("evs", "corel")}
    assert ours == {*JUDGED, *NOT_JUDGED}
    assert not set(JUDGED) & set(NOT_JUDGED)


def row(node: str, n: int, kind: str, layer: str = "evs", **fields: object) -> Row:
    return Row(node=node, inc=1, n=n, t=n, layer=layer, kind=kind, **fields)  # type: ignore[arg-type]


def two_nodes(messages: int) -> tuple[Run, dict[str, list[Row]]]:
    """a and b meet; a sends, and both deliver and have everything green."""
    run = Run(
        schema=2, run="two", nodes=["a", "b"], stack="corel", order="atop", seed=1, settled=False,
        components=[["a", "b"]], down=[], quorum={"kind": "majority"},
    )  # fmt: skip
    rows: dict[str, list[Row]] = {}
    for node, alone in (("a", "1"), ("b", "2")):
        mine = rows[node] = [
            row(node, 0, "conf", conf=alone, conf_kind="regular", members=[node]),
            row(node, 1, "conf", conf=f"{alone}+3", conf_kind="transitional", members=[node], reg=alone),
            row(node, 2, "conf", conf="3", conf_kind="regular", members=["a", "b"]),
        ]
        for n, kind in enumerate(("attempt", "commit", "establish"), start=3):
            mine.append(row(node, n, kind, "corel", primary=1, conf="3", members=["a", "b"]))
        n = 6
        for counter in range(messages):
            msg = f"a:1:{counter}"
            if node == "a":
                mine.append(row(node, n, "accept", "corel", msg=msg))
                mine.append(row(node, n + 1, "send", conf="3", msg=msg, service="agreed"))
            mine.append(row(node, n + 2, "deliver", conf="3", msg=msg, sender="a", service="agreed", ts=[3, counter]))
            mine.append(row(node, n + 3, "log", "corel", msg=msg, ts=[3, counter]))
            mine.append(row(node, n + 4, "yellow", "corel", msg=msg))
            mine.append(row(node, n + 5, "green", "corel", msg=msg, pos=counter))
            n += 6
    return run, rows


def test_what_all_nodes_have_is_forgotten() -> None:
    run, rows = two_nodes(3_000)
    online = OnlineRun(run)
    kept = []
    for first in range(0, 3_000, 50):
        for node, each in (("a", 6), ("b", 4)):  # rows of a message
            begin = 6 + first * each if first else 0
            online.feed(node, rows[node][begin : 6 + (first + 50) * each])
        kept.append(online.kept)
    assert max(kept) < 50
    assert compare(run, rows, online.judge(final=True)) == []


AGAIN: dict[str, tuple[str, Callable[[int], Row]]] = {
    "delivered again": ("evs.1.4", lambda n: row("b", n, "deliver", conf="3", msg="a:1:5", sender="a",
                                                 service="agreed", ts=[3, 5_000])),
    "sent again": ("evs.1.4", lambda n: row("b", n, "send", conf="3", msg="a:1:5", service="agreed")),
    "accepted again": ("corel.3.2", lambda n: row("b", n, "accept", "corel", msg="a:1:5")),
    "logged again": ("corel.3.2", lambda n: row("b", n, "log", "corel", msg="a:1:5", ts=[3, 5])),
    "green again": ("corel.3.2", lambda n: row("b", n, "green", "corel", msg="a:1:5", pos=1_000)),
    "another one at its place": ("corel.agreed", lambda n: row("b", n, "green", "corel", msg="a:1:999", pos=5)),
    "yellow again": ("corel.green", lambda n: row("b", n, "yellow", "corel", msg="a:1:5")),
    "its timestamp again": ("to.order", lambda n: row("b", n, "deliver", conf="3", msg="b:1:1", sender="b",
                                                      service="agreed", ts=[3, 5])),
}  # fmt: skip


@pytest.mark.parametrize("what", AGAIN)
def test_what_is_forgotten_and_comes_again_is_a_suspect(what: str) -> None:
    check, make = AGAIN[what]
    run, rows = two_nodes(1_000)
    rows["b"].append(make(rows["b"][-1].n + 1))
    found = feed(run, rows, what).judge(final=True)
    assert check in compare(run, rows, found)
    assert found.suspects[check]


def test_what_another_file_may_explain_waits_for_a_whole_pass() -> None:
    run, rows = two_nodes(10)
    online = OnlineRun(run)
    online.feed("b", rows["b"])
    online.read_all()
    assert not any(online.judge(final=False).suspects.values())
    assert online.sightings() == []
    online.read_all()
    assert {"evs.1.3", "corel.3.1"} <= {check for check, count in online.judge(final=False).suspects.items() if count}
    assert {seen.fact for seen in online.sightings()} == {"strange", "unaccepted"}
    online.feed("a", rows["a"])
    assert not any(online.judge(final=False).suspects.values())


@pytest.mark.parametrize(
    ("limits", "layers", "says"),
    [
        (Limits(messages=50), {"evs", "corel"}, "more than 50 messages are not delivered by all members"),
        (Limits(log=500), {"corel"}, "node b is too far behind: more than 500 messages wait for it"),
        (Limits(bones=5), {"evs", "corel"}, "more than 5 rows about configurations"),
    ],
    ids=["messages", "log", "configurations"],
)
def test_beyond_a_limit_it_says_so_and_keeps_nothing(limits: Limits, layers: set[str], says: str) -> None:
    run, rows = two_nodes(400)
    online = OnlineRun(run, limits)
    online.feed("a", rows["a"])
    online.feed("b", rows["b"][:6])
    found = online.judge(final=True)
    assert found.lost.keys() == layers
    assert says in next(iter(found.lost.values()))
    assert not any(LAYER[check] in layers for check in found.cases)
    online.feed("b", rows["b"][6:])
    assert online.kept < 1_500


def test_a_node_that_fails_before_it_logs_may_send_again_under_another_timestamp() -> None:
    run, rows = two_nodes(3)
    run = structs.replace(run, down=["a"])
    a = rows["a"]
    cut = next(index for index, each in enumerate(a) if each.kind == "log" and each.msg == "a:1:2")
    del a[cut:]
    b = rows["b"]
    at = next(index for index, each in enumerate(b) if each.kind == "log" and each.msg == "a:1:2")
    b[at] = structs.replace(b[at], ts=[3, 77])
    online = feed(run, rows, 1)
    assert compare(run, rows, online.judge(final=True)) == []
    assert not online.judge(final=True).suspects["corel.ts"]
