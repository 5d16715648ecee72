"""A log is begun once, because an operator says so. What is empty waits."""

from collections.abc import Sequence
from hashlib import sha256

import pytest
from tests.corel.world import SECOND, World

from reconvene.corel.keeping.load import create
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Rejected, Unavailable
from reconvene.sim.log_site import RealLogCore
from reconvene.sim.node import Node
from reconvene.storage.tables import Op


class EmptyCore(RealLogCore):
    """New sites, as real ones are: no log was begun."""

    def first(self, name: str, names: Sequence[str], first: bool, booted: dict[int, int]) -> list[Op]:
        identity = sha256(name.encode()).digest()[:8]
        return create(identity, ReplicaSet.first(names), admitted=False, boots=booted)


class NewWorld(World):
    def make_core(self, *_: object) -> RealLogCore:
        return EmptyCore()


def new_world(names: str = "abc", *, begin: bool = False, down: str = "") -> World:
    world = NewWorld(names, start=[name for name in names if name not in down])
    if begin:
        for name in names:
            if name not in down:
                world.log(name).allow_begin()
    world.run()
    return world


def test_two_wiped_of_three_begin_no_second_log() -> None:
    world = World("abc")
    world.run()
    world.append("a", b"one", b"two")
    world.run()
    world.cluster.crash("a")
    for name in "bc":
        world.lose_disk(name)
        world.cluster.restart(name)
    world.run(3 * SECOND)
    assert [world.log(name).primary for name in "bc"] == [0, 0]
    with pytest.raises(Unavailable, match="site b: the log here is empty: it waits for"):
        world.log("b").append([b"a second log"])
    world.cluster.restart("a")
    world.run(3 * SECOND)
    assert world.texts("a") == [b"one", b"two"]
    assert world.log("a").strangers == ("b", "c")
    with pytest.raises(Rejected, match="site b has another storage than the log's replica b"):
        world.log("b").append([b"a second log"])


def test_with_begin_left_in_their_files_they_begin_none_either() -> None:
    world = World("abc")
    world.run()
    world.append("a", b"one")
    world.run()
    world.cluster.crash("a")
    for name in "bc":
        world.lose_disk(name)
        world.cluster.restart(name)
        world.log(name).allow_begin()
    world.run(3 * SECOND)
    assert [world.log(name).primary for name in "bc"] == [0, 0]
    assert world.log("b").waits == "the log here is empty: it begins when all of its replicas are here; absent: a"


def test_new_sites_wait_and_begin_when_all_say_so() -> None:
    world = new_world()
    assert [world.log(name).primary for name in "abc"] == [0, 0, 0]
    world = new_world(begin=True)
    assert len({world.log(name).primary for name in "abc"} - {0}) == 1
    world.append("b", b"one")
    world.run()
    assert [world.texts(name) for name in "abc"] == [[b"one"]] * 3
    world.verified()


def test_begin_waits_for_the_last_site() -> None:
    world = new_world(begin=True, down="c")
    assert world.log("a").primary == 0
    world.cluster.start(["c"])
    world.log("c").allow_begin()
    world.run()
    assert world.log("a").primary > 0


def test_an_operator_begins_it() -> None:
    world = new_world()
    world.log("b").init()
    world.turn("b")
    world.run()
    world.append("c", b"one")
    world.run()
    assert [world.texts(name) for name in "abc"] == [[b"one"]] * 3
    with pytest.raises(Rejected, match="it has begun already"):
        world.log("a").init()


def test_an_operator_names_who_may_be_absent_and_it_is_fed_later() -> None:
    world = new_world(down="c")
    with pytest.raises(Unavailable, match="c: not here; start them, or name them with --without"):
        world.log("a").init()
    with pytest.raises(Unavailable, match="c: not here"):
        world.log("a").init(["b"])
    with pytest.raises(Rejected, match="z is none of its replicas"):
        world.log("a").init(["z"])
    world.log("a").init(["c"])
    world.turn("a")
    world.run()
    world.append("a", b"one")
    world.run()
    world.cluster.start(["c"])
    world.run()
    world.append("c", b"two")
    world.run()
    assert [world.texts(name) for name in "abc"] == [[b"one", b"two"]] * 3
    world.verified()


def test_a_minority_is_no_beginning() -> None:
    world = new_world(down="bc")
    with pytest.raises(Unavailable, match="a: not a quorum of its replicas a, b, c"):
        world.log("a").init(["b", "c"])


def test_an_empty_storage_does_not_vote_before_a_quorum_of_others_has_fed_it() -> None:
    """a has never seen c: the two must not take an empty c for the one that ordered with b."""
    world = new_world(down="c")
    world.log("a").init(["c"])
    world.turn("a")
    world.run()
    world.cluster.partition(["a", "bc"])
    world.cluster.start(["c"])
    world.run()
    # b has the log, and c is fed by it alone: that is no quorum without c.
    assert world.log("b").primary == world.log("c").primary == 0
    assert world.log("c").waits is not None
    world.cluster.heal()
    world.run()
    assert world.log("c").waits is None
    world.cluster.partition(["a", "bc"])
    world.run()
    world.append("c", b"one")
    world.run()
    assert world.texts("b") == [b"one"]
    # c loses its disk while b is away. a knows it by now, and it is a stranger; did a not know it, it would not vote.
    world.cluster.crash("b")
    world.lose_disk("c")
    world.cluster.heal()
    world.cluster.restart("c")
    world.run()
    assert world.log("a").primary == 0
    world.cluster.restart("b")
    world.run()
    assert world.texts("a") == [b"one"]


@pytest.mark.parametrize("crashing", ["b", "c", "bc"])
def test_a_beginning_that_failed_halfway_is_made_up_for(crashing: str) -> None:
    """All say begin; a attempts the first primary component and has it on disk, the others crash before that."""
    world = NewWorld("abc")

    def crash(node: Node, before: str, now: str) -> None:
        if now == "log: attempt" and node.name == "a":
            for name in crashing:
                if world.up(name):
                    world.cluster.crash(name)

    for name in "abc":
        world.log(name).allow_begin()
    end = world.cluster.on_step(crash)
    world.run(2 * SECOND)
    end()
    for name in crashing:
        if not world.up(name):
            world.cluster.restart(name)
        world.log(name).allow_begin()
    world.run(3 * SECOND)
    assert world.log("a").primary > 0


class ReplacedCore(EmptyCore):
    """As those are, but b's storage was made by `reconvene replace`."""

    def first(self, name: str, names: Sequence[str], first: bool, booted: dict[int, int]) -> list[Op]:
        identity = sha256(name.encode()).digest()[:8]
        return create(identity, ReplicaSet.first(names), admitted=False, boots=booted, replaces=name == "b")


def test_where_all_were_lost_a_replaced_one_is_named() -> None:
    class Lost(World):
        def make_core(self, *_: object) -> RealLogCore:
            return ReplacedCore()

    world = Lost("abc")
    world.run()
    with pytest.raises(Unavailable, match="log: b: replaced, and taken in once the log has begun: name them with"):
        world.log("a").init()
    world.log("a").init(["b"])
    world.run(3 * SECOND)
    assert world.log("b").is_replica
    assert world.log("b").primary > 0
