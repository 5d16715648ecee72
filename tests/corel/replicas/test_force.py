"""Giving up replicas for good: what that may lose is reported before, and removed replicas can do no harm after."""

import pytest
from tests.corel.world import MS, SECOND, World
from tests.sim.chunks import few

from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Rejected

LOST = {"c", "d", "e"}


def fill(world: World, name: str, count: int) -> None:
    for number in range(count):
        world.append(name, b"%s%d" % (name.encode(), number))
        world.run(5 * MS)
    world.run(300 * MS)


def force(world: World, name: str, lost: set[str]) -> None:
    replica = world.log(name)
    replica.force(replica.replicas.forced_without(lost))
    world.turn(name)


def replicas(world: World, name: str) -> ReplicaSet:
    return world.log(name).replicas


def survivors(seed: int = 0, *, on: int = 0) -> World:
    """Of five replicas, a and b are left; the others went on for so many messages before they were lost."""
    world = World("abcde", seed)
    world.run(2 * SECOND)
    fill(world, "c", 3)
    if on:
        world.cluster.partition(["ab", "cde"])
        world.run(2 * SECOND)
        fill(world, "d", on)
    for name in sorted(LOST):
        world.cluster.crash(name)
    world.run(2 * SECOND)
    world.append("a", b"red at a")
    world.run()
    return world


def test_the_survivors_order_again() -> None:
    world = survivors()
    assert not world.log("a").primary
    force(world, "b", LOST)
    world.run(2 * SECOND)
    assert world.log("a").primary
    fill(world, "b", 2)
    assert world.texts("a") == [b"c0", b"c1", b"c2", b"red at a", b"b0", b"b1"]
    assert replicas(world, "a").age == (1, 1)
    assert world.log("a").record.forced
    world.agree("ab")
    world.cluster.crash("a")
    world.cluster.restart("a")
    world.run(2 * SECOND)
    assert world.log("a").primary
    world.verified()


def test_what_may_be_lost_is_named() -> None:
    world = survivors(on=4)
    found = world.log("a").losses(LOST)
    assert (found.kept, found.absent, found.green, found.ordered) == (["a", "b"], [], 3, True)
    assert found.replicas["c"].accepted == 3
    assert found.replicas["d"].accepted == 0
    assert any("from position 3 on" in sentence for sentence in found.may_lose)
    assert any("What d accepted after its message 0" in sentence for sentence in found.may_lose)
    assert world.log("a").losses({"e"}).ordered, "c and d alone are none, but with e they were a majority"
    with pytest.raises(Rejected, match="none of them"):
        world.log("a").losses({"x"})


def test_nothing_ordered_is_lost_where_every_quorum_has_a_member_here() -> None:
    world = World("abcd")
    world.run(2 * SECOND)
    fill(world, "c", 2)
    world.cluster.partition(["ab", "c", "d"])
    world.run(2 * SECOND)
    found = world.log("a").losses({"c", "d"})
    assert not found.ordered
    assert found.last_members == ["a", "b", "c", "d"]
    assert found.may_lose[0] == "Nothing that was ordered is lost: every quorum has a member here."


def test_one_that_is_kept_and_may_be_further_on_has_to_be_here() -> None:
    world = survivors()
    with pytest.raises(Rejected, match="e: neither lost nor here"):
        force(world, "a", {"c", "d"})
    with pytest.raises(Rejected, match="epoch must be higher"):
        world.log("a").force(replicas(world, "a").removed("c"))


def test_one_that_is_kept_and_absent_learns_of_it() -> None:
    world = World("abcd")
    world.run(2 * SECOND)
    fill(world, "c", 2)
    world.cluster.partition(["ab", "c", "d"])
    world.run(2 * SECOND)
    world.append("c", b"red at c")
    force(world, "a", {"d"})
    world.run(2 * SECOND)
    assert world.log("a").primary, "two of three"
    fill(world, "a", 2)
    weights = {"kind": "weighted", "weights": {"a": 3, "b": 1, "c": 1}}
    world.log("a").propose(replicas(world, "a").with_quorum(weights))
    world.turn("a")
    world.cluster.partition(["abc", "d"])
    world.run(2 * SECOND)
    assert replicas(world, "c") == replicas(world, "a")
    assert b"red at c" in world.texts("a")
    world.agree("abc")
    world.verified()


def test_who_was_given_up_and_comes_back_is_outside() -> None:
    world = survivors(on=4)
    force(world, "a", LOST)
    world.run(2 * SECOND)
    fill(world, "a", 6)
    world.cluster.restart("c")
    world.cluster.heal()
    world.run(2 * SECOND)
    assert world.log("c").step == "log: outside"
    assert world.log("a").primary
    assert world.log("a").participants == ("a", "b")
    # The others come back too, and could be a majority of what they knew: c, which has heard, takes no part.
    for name in "de":
        world.cluster.restart(name)
    world.cluster.partition(["ab", "cde"])
    world.run(2 * SECOND)
    assert [bool(world.log(name).primary) for name in "abcde"] == [True, True, False, False, False]
    world.cluster.heal()
    world.run(2 * SECOND)
    fill(world, "a", 1)
    assert {world.log(name).step for name in "cde"} == {"log: outside"}
    for name in "cde":
        with pytest.raises(Rejected, match="was given up as lost, and the log went on without it"):
            world.append(name, b"x")
    # Added as it is, it stays out: what it holds is another history.
    world.log("a").propose(replicas(world, "a").added("c"))
    world.turn("a")
    world.run(2 * SECOND)
    assert world.log("c").step == "log: outside"
    assert world.log("a").primary
    # With an empty storage it is welcome.
    world.lose_disk("c")
    world.cluster.restart("c")
    world.run(3 * SECOND)
    assert world.log("c").is_replica
    fill(world, "c", 1)
    world.agree("abc")


@pytest.mark.parametrize("seed", few(range(6), 3))
def test_no_two_histories_where_sites_crash_while_it_is_forced(seed: int) -> None:
    world = survivors(seed, on=seed % 3)
    random, cluster = world.random, world.cluster
    force(world, "ab"[seed % 2], LOST)
    world.run(random.choice([1, 3, 10, 40]) * MS)
    for _ in range(6):
        name = random.choice("ab")
        if world.up(name):
            cluster.crash(name)
        else:
            cluster.restart(name)
        for other in "ab":
            if world.up(other) and world.log(other).is_replica:
                world.append(other, b"%d" % random.randint(0, 1 << 40))
        world.run(random.choice([1, 20, 300, 1500]) * MS)
    for name in "abcde":
        if not world.up(name):
            cluster.restart(name)
    world.run(2 * SECOND)
    if replicas(world, "a").epoch == 0:
        # Neither had it on its disk: nothing has happened.
        assert replicas(world, "b").epoch == 0
        force(world, "a", LOST)
        world.run(2 * SECOND)
    cluster.heal()
    world.run(3 * SECOND)
    assert world.log("a").primary
    assert world.log("b").primary
    assert not any(world.log(name).primary for name in "cde")
    world.agree("ab")
