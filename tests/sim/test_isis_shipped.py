"""The shipped scenarios of process groups: what each of them shows. That they hold is tested with the others."""

import pytest
from msgspec import UNSET
from tests.once import Once
from tests.sim.chunks import in_chunks
from tests.sim.shipped import FOLDER, play

from reconvene.core.groups.events import Process
from reconvene.isis.isis import Isis
from reconvene.sim.isis_site import RealIsisCore
from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import Result, Runner
from reconvene.trace.events import Row
from reconvene.verify.engine import verify
from reconvene.verify.history import History

MS = 10**6


def rows(result: Result, node: str, *kinds: str) -> list[Row]:
    return [row for row in result.rows[node] if row.layer == "isis" and row.kind in kinds]


def received(result: Result, node: str) -> list[str]:
    return [str(row.msg) for row in rows(result, node, "receive")]


def test_wine_taps(once: Once) -> None:
    result = play(once, "isis-wine-taps")
    assert received(result, "c") == ["a:1:1", "b:1:1", "a:1:2", "b:1:2"]
    assert received(result, "d") == ["a:1:1", "b:1:1", "b:1:2", "a:1:2"], "only what was reported is ordered"


def test_a_chain_through_a_process_outside(once: Once) -> None:
    result = play(once, "isis-overlap")
    assert received(result, "b") == ["a:1:1", "d:1:1"]
    first, last = (rows(result, node, "receive")[-1].t for node in "cb")
    assert last - first > 150 * MS, "z does not wait for what y waits for"


def test_a_second_label_does_not_wait(once: Once) -> None:
    result = play(once, "isis-queues")
    labels = {row.msg: row.label for node in "ab" for row in rows(result, node, "abcast")}
    paused = [row for row in rows(result, "a", "receive") if 2020 * MS < row.t < 2290 * MS]
    assert {labels[row.msg] for row in paused} == {"y"}
    assert len(paused) > 20
    assert {labels[row.msg] for row in rows(result, "a", "receive") if row.t > 2300 * MS} == {"x", "y"}


def test_a_takeover_at_each_step(once: Once) -> None:
    result = play(once, "isis-takeover")
    assert received(result, "d") == received(result, "e") == ["a:1:1", "b:1:1", "c:1:1"]
    by_sender = {node: [row.ts for row in rows(result, node, "receive")] for node in "de"}
    assert by_sender["d"] == by_sender["e"]
    for node in "de":
        seen = rows(result, node, "receive", "site")
        for row, sender in [(row, str(row.msg)[0]) for row in seen if row.kind == "receive"]:
            last = [site for site in seen[: seen.index(row)] if site.kind == "site"][-1].members
            assert isinstance(last, list)
            in_time = any(member.startswith(f"{sender}:") for member in last)
            assert in_time == (node == "d" and sender == "c"), "else someone has taken over from the lost site"
    assert rows(result, "d", "receive")[-1].t < 6055 * MS < rows(result, "e", "receive")[-1].t


def test_a_stale_cache(once: Once) -> None:
    result = play(once, "isis-stale-cache")
    for node in "ab":
        assert [row.msg for row in rows(result, node, "reject")] == ["d:1:1", "d:1:2"]
    for node in "abc":
        assert received(result, node) == ["d:1:1", "d:1:2", "d:1:3"]
    assert [(row.msg, row.attempt) for row in rows(result, "d", "cbcast")] == [
        ("d:1:1", 0), ("d:1:2", 0), ("d:1:1", 1), ("d:1:2", 1), ("d:1:3", 0),
    ]  # fmt: skip


def test_a_read_lock_whose_holder_dies(once: Once) -> None:
    result = play(once, "isis-read-lock")
    seen = [
        (row.kind, row.msg if row.kind == "receive" else row.dests) for row in rows(result, "c", "receive", "view")
    ]
    registration = seen.index(("receive", "a:1:1"))
    assert seen[registration + 1] == ("view", ["b:1:1", "c:1:1"])


def test_killed_and_back(once: Once) -> None:
    result = play(once, "isis-killed")
    assert result.skipped == 1
    assert [(row.kind, row.process) for row in rows(result, "a", "begin", "end", "state")][-3:] == [
        ("end", "a:1:1"),
        ("begin", "a:1:2"),
        ("state", "a:1:2"),
    ]
    assert received(result, "c")[-1] == "a:1:21", "its casts go on counting"


def test_a_coordinator_dies_in_a_transfer(once: Once) -> None:
    result = play(once, "isis-transfer")
    (done,) = rows(result, "c", "state")
    without = next(row for row in rows(result, "c", "view") if row.view == done.view)
    assert without.dests == ["b:1:1", "c:1:1"], "by the cohort"
    assert 0 < done.t - without.t < 200 * MS, "only the rest was left: the whole takes 225 ms"


def test_groups_begin_anew_after_all_have_crashed(once: Once) -> None:
    result = play(once, "isis-all-crash")
    again = [row for node in "abc" for row in rows(result, node, "view") if row.inc == 2]
    assert min(row.view for row in again) == 1  # type: ignore[type-var]
    last = again[-1].members
    assert last is not UNSET
    assert sorted(last) == ["a:2:1", "b:2:1", "c:2:1"]


class _Lasting(Isis):
    """Every join has the option, for which scenarios have no key."""

    def join(self, process: Process, group: str, *, vector: bool = False, last_to_fail: bool = True) -> None:
        super().join(process, group, vector=vector, last_to_fail=last_to_fail)


def test_the_last_to_fail_decide() -> None:
    """The last view of the group was that of b and c. b and a are back at 4.5 s, and are a majority; the group waits
    for c, which is back at 6 s."""
    runner = Runner(load_scenario(FOLDER / "isis-all-crash.toml"), core=RealIsisCore(_Lasting))
    result = runner.run()
    assert verify([History.of(result.meta, result.rows)]).violated() == []
    again = sorted(
        (row for node in "abc" for row in rows(result, node, "view") if row.inc == 2),
        key=lambda row: row.view,  # type: ignore[arg-type, return-value]
    )
    assert min(row.t for row in again) > 6000 * MS
    assert again[0].dests in (["b:2:1"], ["c:2:1"])
    last = again[-1].members
    assert last is not UNSET
    assert sorted(last) == ["a:2:1", "b:2:1", "c:2:1"]


@pytest.mark.parametrize("seed", in_chunks(3, 1))
def test_a_storm(seed: int, once: Once) -> None:
    result = play(once, "isis-storm", seed + 1)
    assert verify([History.of(result.meta, result.rows)]).violated() == []
    kinds = {row.kind for node in result.rows.values() for row in node if row.layer == "isis"}
    assert kinds >= {
        "site",
        "begin",
        "end",
        "join",
        "view",
        "cbcast",
        "abcast",
        "gbcast",
        "receive",
        "answer",
        "failed",
    }
    assert "state" in kinds
