"""Replicas that come, go and are replaced through the log, also where sites crash and the network parts meanwhile."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.corel.world import MS, SECOND, World
from tests.sim.chunks import few

from reconvene.corel.batch import Kind
from reconvene.corel.limits import LogLimits
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Rejected, Unavailable

Change = Callable[[ReplicaSet], ReplicaSet]


def replicas(world: World, name: str) -> ReplicaSet:
    return world.log(name).replicas


def propose(world: World, name: str, change: Change) -> None:
    world.log(name).propose(change(replicas(world, name)))
    world.turn(name)


def fill(world: World, name: str, count: int, prefix: bytes = b"") -> None:
    for number in range(count):
        world.append(name, b"%s%s%d" % (prefix, name.encode(), number))
        world.run(5 * MS)
    world.run(300 * MS)


def test_a_new_replica_gets_everything_and_takes_part() -> None:
    world = World("abcd", replicas="abc")
    world.run(2 * SECOND)
    fill(world, "a", 20)
    with pytest.raises(Rejected, match="keeps no replica"):
        world.append("d", b"too early")
    assert world.log("d").green == 0
    propose(world, "b", lambda found: found.added("d"))
    world.run(2 * SECOND)
    assert replicas(world, "d").numbers() == [0, 1, 2, 3]
    assert world.log("d").primary
    fill(world, "d", 3)
    world.agree("abcd")
    assert [text for text in world.texts("d") if text.startswith(b"d")] == [b"d0", b"d1", b"d2"]
    assert {row.msg for row in world.cluster.rows["a"] if row.kind == "log" and str(row.msg)[0] == "d"} == {
        "d:1:1", "d:1:2", "d:1:3",
    }  # fmt: skip
    world.cluster.partition(["ab", "cd"])
    world.run(2 * SECOND)
    assert [world.log(name).primary for name in "abcd"] == [0, 0, 0, 0], "two of four are no majority"
    world.cluster.heal()
    world.run(2 * SECOND)
    world.verified()


def test_a_new_replica_of_a_truncated_log_begins_with_its_base() -> None:
    world = World("abcd", replicas="abc", limits=LogLimits(batch_bytes=16))
    world.run(2 * SECOND)
    fill(world, "a", 20)
    for name in "abc":
        world.log(name).truncate(15)
        world.turn(name)
    world.run()
    propose(world, "b", lambda found: found.added("d"))
    world.run(2 * SECOND)
    assert world.log("d").base > 0
    assert len([row for row in world.cluster.rows["d"] if row.kind == "snapshot"]) == 1
    fill(world, "d", 3)
    world.agree("abcd")
    world.verified()


def test_a_replica_that_is_removed_stays_outside_and_its_messages_in_the_log() -> None:
    world = World("abc")
    world.run(2 * SECOND)
    fill(world, "c", 3)
    propose(world, "c", lambda found: found.removed("c"))
    world.run(2 * SECOND)
    with pytest.raises(Rejected, match="keeps no replica"):
        world.append("c", b"too late")
    assert world.log("c").step == "log: outside"
    world.cluster.partition(["a", "b", "c"])
    world.run(2 * SECOND)
    assert [world.log(name).primary for name in "abc"] == [0, 0, 0]
    world.cluster.heal()
    world.run(2 * SECOND)
    fill(world, "a", 2)
    assert world.texts("b")[:3] == [b"c0", b"c1", b"c2"]
    assert world.log("b").name_of(2) == "c"
    for name in "abc":
        world.cluster.crash(name)
        world.cluster.restart(name)
    world.run(2 * SECOND)
    assert world.log("b").name_of(2) == "c"
    assert not world.log("c").is_replica
    world.agree("ab")
    world.verified()


def test_what_a_removed_replica_had_accepted_is_ordered_when_it_comes_back() -> None:
    world = World("abc")
    world.run(2 * SECOND)
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    world.append("c", b"kept")
    world.log("c").append_once([b"sent"], b"session", 1)
    world.turn("c")
    world.run()
    propose(world, "a", lambda found: found.removed("c"))
    world.run()
    world.cluster.heal()
    world.run(2 * SECOND)
    assert not world.log("c").is_replica
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.run(2 * SECOND)
    propose(world, "a", lambda found: found.added("c"))
    world.run(3 * SECOND)
    assert replicas(world, "c").number_of("c") == 3
    assert sorted(text for text in world.texts("a") if text in (b"kept", b"sent")) == [b"kept", b"sent"]
    assert world.log("c").accepting.open_messages == 0
    world.agree("abc")
    greens = [row.msg for row in world.cluster.rows["a"] if row.kind == "green"]
    assert {"c:1:1", "c:1:2"} <= set(greens), "under the ids that they were accepted with"
    fill(world, "c", 1)
    assert [row.msg for row in world.cluster.rows["c"] if row.kind == "accept"][-1] == "c#3:2:1"
    world.verified()


def test_what_was_accepted_on_a_new_disk_before_anyone_was_heard_is_ordered_once() -> None:
    world = World("abc")
    world.run(2 * SECOND)
    fill(world, "c", 2)
    world.lose_disk("c")
    world.cluster.partition(["ab", "c"])
    world.cluster.restart("c")
    world.run()
    world.log("c").record.admitted = True  # as a program that let empty storages accept has left it
    assert world.append("c", b"under a number that is not its own") == 1
    world.run()
    world.cluster.heal()
    world.run(2 * SECOND)
    assert not world.log("c").is_replica
    propose(world, "a", lambda found: found.replaced("c", "c"))
    world.run(2 * SECOND)
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.run(2 * SECOND)
    assert world.texts("a").count(b"under a number that is not its own") == 1
    assert world.texts("a")[:2] == [b"c0", b"c1"]
    assert world.log("c").accepting.open_messages == 0
    world.agree("abc")


def test_a_replica_that_lost_its_disk_is_a_stranger_until_it_is_replaced() -> None:
    world = World("abc")
    world.run(2 * SECOND)
    fill(world, "c", 3)
    world.lose_disk("c")
    world.run(SECOND)
    world.cluster.restart("c")
    world.run(2 * SECOND)
    assert world.log("c").step == "log: outside"
    assert "c" in world.log("c").strangers
    assert world.log("a").participants == ("a", "b")
    with pytest.raises(Rejected, match="another storage than the log's replica c"):
        world.append("c", b"too early")
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    assert [world.log(name).primary for name in "abc"] == [0, 0, 0], "it counts for nothing"
    world.cluster.heal()
    world.run(2 * SECOND)
    propose(world, "a", lambda found: found.replaced("c", "c"))
    world.run(2 * SECOND)
    assert replicas(world, "c").number_of("c") == 3
    fill(world, "c", 2, b"again ")
    assert world.texts("b")[:3] == [b"c0", b"c1", b"c2"]
    assert world.texts("c")[-2:] == [b"again c0", b"again c1"]
    assert {row.msg for row in world.cluster.rows["c"] if row.kind == "accept"} >= {"c:1:1", "c#3:2:1"}
    world.agree("abc")
    world.verified(ignore=["corel.3.2"])  # the trace of the lost disk and that of the new one are one node's


def test_a_change_of_the_quorum() -> None:
    world = World("abc")
    world.run(2 * SECOND)
    weights = {"kind": "weighted", "weights": {"a": 3, "b": 1, "c": 1}}
    propose(world, "b", lambda found: found.with_quorum(weights))
    world.run(2 * SECOND)
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    assert world.log("a").primary
    assert not world.log("b").primary
    fill(world, "a", 2)
    world.cluster.heal()
    world.run(2 * SECOND)
    world.agree("abc")
    assert replicas(world, "c").quorum == weights


def test_one_change_at_a_time_and_only_where_both_sets_have_a_quorum() -> None:
    world = World("abcde", replicas="abc")
    world.run(2 * SECOND)
    propose(world, "a", lambda found: found.added("d"))
    with pytest.raises(Unavailable, match="not ordered yet"):
        propose(world, "a", lambda found: found.added("e"))
    world.run(2 * SECOND)
    # Two proposals at once, of two sites: the second does not apply.
    propose(world, "a", lambda found: found.added("e"))
    propose(world, "b", lambda found: found.removed("c"))
    world.run(2 * SECOND)
    changes = [heading for _, heading in world.green("a") if heading.kind is Kind.CHANGE]
    assert len(changes) == 3
    assert replicas(world, "a").version == 2
    world.agree("abd")
    world.cluster.partition(["ab", "cde"])
    world.run(2 * SECOND)
    with pytest.raises(Unavailable, match=r"in none|not a quorum"):
        propose(world, "a", lambda found: found.removed("d"))


def test_one_that_was_just_removed_does_not_count_for_its_next_number() -> None:
    """d is removed, and in the same configuration added again, with a quorum that needs it: no such change could ever
    be ordered, as d takes no part before it is."""
    world = World("abcd")
    world.run(2 * SECOND)
    propose(world, "a", lambda found: found.removed("d"))
    while replicas(world, "a").number_of("d") is not None:
        world.run(MS // 10)
    assert "d" in world.log("a").participants, "it is still the same configuration"
    grid = {"kind": "grid", "rows": [["a", "b", "c"], ["d"]]}
    with pytest.raises(Unavailable, match="not a quorum of the new set"):
        propose(world, "a", lambda found: found.added("d", grid))
    world.run(2 * SECOND)
    fill(world, "a", 2)
    propose(world, "a", lambda found: found.added("d"))
    world.run(2 * SECOND)
    propose(world, "a", lambda found: found.with_quorum(grid))
    world.run(2 * SECOND)
    assert all(world.log(name).primary for name in "abcd")
    world.agree("abcd")
    world.verified()


def random_change(world: World, name: str) -> Change | None:
    found, random = replicas(world, name), world.random
    inside, outside = found.names(), [other for other in "abcde" if found.number_of(other) is None]
    kind = random.choice(["add", "remove", "replace", "quorum"])
    if kind == "add" and outside:
        added = random.choice(outside)
        return lambda found: found.added(added)
    if kind == "remove" and len(inside) > 2:
        removed = random.choice(inside)
        return lambda found: found.removed(removed)
    if kind == "replace" and outside:
        old, new = random.choice(inside), random.choice(outside)
        return lambda found: found.replaced(old, new)
    return None


@pytest.mark.parametrize("seed", few(range(10), 3))
def test_changes_amid_faults(seed: int) -> None:
    world = World("abcde", seed, replicas="abc", limits=LogLimits(batch_bytes=24))
    world.run(2 * SECOND)
    random, cluster = world.random, world.cluster
    count = 0
    for _ in range(40):
        fault = random.random()
        names = [name for name in "abcde" if world.up(name)]
        if fault < 0.10:
            cut = random.randint(1, 4)
            shuffled = random.sample("abcde", 5)
            cluster.partition([shuffled[:cut], shuffled[cut:]])
        elif fault < 0.22:
            cluster.heal()
        elif fault < 0.28 and len(names) > 3:
            cluster.crash(random.choice(names))
        elif fault < 0.45 and len(names) < 5:
            cluster.restart(random.choice([name for name in "abcde" if name not in names]))
        for name in [name for name in "abcde" if world.up(name)]:
            replica = world.log(name)
            if replica.is_replica and random.random() < 0.5:
                replica.append([b"%s%d" % (name.encode(), count)])
                count += 1
            if replica.primary and random.random() < 0.2:
                change = random_change(world, name)
                if change is not None:
                    with suppress(Unavailable, Rejected):
                        replica.propose(change(replicas(world, name)))
            if random.random() < 0.1:
                replica.truncate(random.randint(0, replica.green))
            world.turn(name)
        world.run(random.choice([1, 5, 20, 300, 1500]) * MS)
    cluster.heal()
    for name in "abcde":
        if not world.up(name):
            cluster.restart(name)
    world.run(6 * SECOND)
    newest = max((replicas(world, name) for name in "abcde"), key=lambda found: found.age)
    assert newest.version > 0
    for name in newest.names():
        assert world.log(name).primary, (seed, name, newest)
        assert not world.log(name).queue.red_messages
        assert not world.log(name).accepting.open_messages
    world.agree(newest.names())
    world.verified()
