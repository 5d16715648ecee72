"""Transactions in the log itself: what a commit says, its session's highest version, and what truncation keeps."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corel.keeping.test_truncation import fill, stored
from tests.corel.world import MS, SECOND, World

from reconvene.corel.batch import Heading, Kind, Source, encode_batch
from reconvene.corel.clients.commits import MOST_RANGES, TRANSACTION, Commit, decode_commit, encode_commit
from reconvene.corel.clients.session_table import SessionTable
from reconvene.corel.keeping.check import check
from reconvene.corel.keeping.layout import HOLDS, SESSIONS
from reconvene.corel.limits import LogLimits
from reconvene.errors import Malformed
from reconvene.storage.memory import MemoryTables

NAME = TRANSACTION + b"table"


def commits(number: int, session: bytes = NAME, kind: Kind = Kind.COMMIT) -> tuple[Heading, bytes]:
    heading = Heading(kind, 0, 1, 1, 1, 0, True)
    return heading, encode_batch(heading, [b"m"], [Source(session, number, 0, 1)])


@given(st.lists(st.integers(0, 30), max_size=30))
def test_a_version_counts_once_and_none_below_it(numbers: list[int]) -> None:
    sessions = SessionTable(SESSIONS, 10)
    highest, at = -1, -1
    for position, number in enumerate(numbers):
        void = sessions.take(*commits(number), position)
        assert void == ((0,) if number <= highest else ())
        if number > highest:
            highest, at = number, position
        assert sessions.committed(NAME) == (highest, at)
        assert all(sessions.has(NAME, each) == (each <= highest) for each in range(32))


def test_transactions_are_not_forgotten_for_clients_that_come_and_go() -> None:
    sessions = SessionTable(SESSIONS, 3)
    sessions.take(*commits(7), 0)
    for position in range(1, 100):
        sessions.take(*commits(1, b"client %d" % position, Kind.DATA), position)
    # A commit that has no name comes under its client's session.
    sessions.take(*commits(1, b"client 100"), 100)
    assert sessions.committed(NAME) == (7, 0)
    assert (len(sessions), sessions.committed(b"client 100")) == (4, None)
    tables = MemoryTables()
    tables.write(sessions.changes())
    again = SessionTable(SESSIONS, 3)
    again.load(tables)
    assert list(again.rows()) == list(sessions.rows())
    assert again.take(*commits(7), 101) == (0,)
    for position in range(3):
        again.take(*commits(1, TRANSACTION + b"%d" % position), 102 + position)
    assert again.committed(NAME) is None, "three others have committed since"
    restored = SessionTable(SESSIONS, 3)
    restored.restore(again.rows())
    assert sorted(restored.rows()) == sorted(again.rows())


def test_a_session_that_has_the_name_of_a_transaction_by_chance() -> None:
    sessions = SessionTable(SESSIONS, 10)
    assert sessions.take(*commits(5, kind=Kind.DATA), 0) == ()
    assert sessions.take(*commits(3, kind=Kind.DATA), 1) == ()
    assert sessions.committed(NAME) is None
    assert sessions.take(*commits(6), 2) == ()
    assert sessions.committed(NAME) == (6, 2)
    assert sessions.take(*commits(1, kind=Kind.DATA), 3) == (0,)


def test_what_a_commit_says() -> None:
    commit = Commit("table", 7, [(5, 2), (0, 3)], [(9, 1)], 3)
    assert decode_commit(encode_commit(commit)) == commit
    assert (commit.rows, commit.lowest) == (5, 0)
    assert Commit("", 0, []).lowest is None
    bad: list[Any] = [
        b"",
        b"nonsense",
        encode_commit(Commit("", 0, [(0, 2), (1, 1)])),
        encode_commit(Commit("", 0, [(0, 2)], [(1, 1)])),
        encode_commit(Commit("", 0, [(0, 0)])),
        encode_commit(Commit("", -1, [])),
        encode_commit(Commit("x" * 2_000, 0, [])),
        encode_commit(Commit("", 0, [(2 * at, 1) for at in range(MOST_RANGES + 1)])),
    ]
    for data in bad:
        with pytest.raises(Malformed, match="a commit"):
            decode_commit(data)


def stage(world: World, name: str, count: int) -> None:
    for number in range(count):
        world.log(name).append([b"row %d" % number], Kind.STAGED)
        world.turn(name)
        world.run(5 * MS)
    world.run(500 * MS)


def commit(world: World, name: str, version: int, *ranges: tuple[int, int]) -> None:
    world.log(name).append_once([encode_commit(Commit("t", version, list(ranges)))], NAME, version, Kind.COMMIT)
    world.turn(name)
    world.run(500 * MS)


def snapshot(world: World, name: str, position: int) -> int:
    """Where the log begins after a snapshot of that position."""
    world.log(name).save_snapshot(position, b"state")
    world.turn(name)
    fill(world, name, 3)
    world.run(3 * SECOND)
    return world.log(name).base


LIMITS = {"batch_bytes": 16, "keep_bytes": 0}


def test_truncation_keeps_what_a_commit_needs_until_that_goes_too() -> None:
    world = World("abc", limits=LogLimits(**LIMITS, staged_age_ns=0))
    world.run()
    fill(world, "a", 4)
    stage(world, "a", 6)  # 4 to 9
    fill(world, "a", 4)
    commit(world, "b", 1, (5, 2), (8, 1))  # at 14
    fill(world, "c", 4)
    assert snapshot(world, "a", 14) == 5, "what nothing needs goes; it begins with a batch that is named"
    world.cluster.crash("a")
    world.cluster.restart("a")
    world.run(2 * SECOND)
    assert [stored(world, name, HOLDS) for name in "abc"] == [1, 1, 1]
    assert snapshot(world, "a", 15) == 15, "and goes with the commit"
    # The others get the snapshot, and truncate by it as well.
    assert [stored(world, name, HOLDS) for name in "abc"] == [0, 0, 0]
    assert check(world.cluster.node("a").disk) == check(world.cluster.node("b").disk) == []
    world.agree("abc")
    world.verified()


def test_what_is_staged_waits_for_a_commit_for_a_time() -> None:
    world = World("abc", limits=LogLimits(**LIMITS, staged_age_ns=60 * SECOND))
    world.run()
    fill(world, "a", 4)
    stage(world, "a", 2)
    fill(world, "a", 4)
    assert snapshot(world, "a", 10) == 4
    world.run(60 * SECOND)
    fill(world, "a", 3)
    assert world.log("a").base == 10


@pytest.mark.parametrize("limits", [{"retain_bytes": 400}, {"retain_age_ns": 2 * SECOND}])
def test_retention_takes_a_commit_and_what_it_names_together(limits: dict[str, int]) -> None:
    world = World("abc", limits=LogLimits(batch_bytes=16, **limits))
    world.run()
    stage(world, "a", 3)
    fill(world, "a", 6)
    commit(world, "b", 1, (1, 2))  # at 9
    bases = set()
    for _ in range(40):
        fill(world, "c", 1)
        bases.add(world.log("a").base)
    assert max(bases) > 10
    assert not bases & set(range(2, 10)), "the commit was never there without its rows"
    world.agree("abc")


def test_a_commit_of_a_lower_version_is_void_everywhere_also_after_a_base() -> None:
    world = World("abc", limits=LogLimits(**LIMITS))
    world.run()
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    stage(world, "a", 2)
    commit(world, "c", 4, (0, 1))  # red
    commit(world, "a", 5, (0, 2))
    world.log("a").truncate(3)
    world.log("b").truncate(3)
    world.turn("a")
    world.turn("b")
    fill(world, "a", 2)
    assert world.log("b").base == 3
    world.cluster.heal()
    world.run(4 * SECOND)
    world.agree("abc")
    assert [world.log(name).committed(NAME) for name in "abc"] == [(5, 2)] * 3
    ((position, heading),) = [found for found in world.green("c") if found[1].kind is Kind.COMMIT]
    assert world.log("c").voids(position, heading) == (0,)
    assert [part.new for part in world.log("c").append_once([b"x"], NAME, 3, Kind.COMMIT)] == [False]
    world.verified()
