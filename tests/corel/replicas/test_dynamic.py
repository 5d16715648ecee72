"""Dynamic voting in the log: a component goes on if it is a sub-quorum of the one before it."""

import pytest
from msgspec.structs import replace
from tests.corel.world import MS, SECOND, World

from reconvene.corel.messages import State
from reconvene.corel.replicas import voting
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Rejected, Unavailable
from reconvene.quorum import Spec
from reconvene.voting import Evidence, Kept, Own, Session

DYNAMIC: Spec = {"kind": "dynamic"}
MAJORITY: Spec = {"kind": "majority"}


def started(names: str = "abcde", quorum: Spec = DYNAMIC, seed: int = 0) -> World:
    world = World(names, seed, quorum=quorum)
    world.run(2 * SECOND)
    assert all(world.log(name).primary for name in names)
    return world


def part(world: World, *components: str) -> None:
    world.cluster.partition(list(components))
    world.run(3 * SECOND)


def ordering(world: World) -> str:
    return "".join(name for name in world.cluster.names if world.up(name) and world.log(name).primary)


def change(world: World, name: str, replicas: ReplicaSet) -> None:
    world.log(name).propose(replicas)
    world.turn(name)
    world.run(3 * SECOND)


def test_it_goes_on_with_ever_fewer() -> None:
    world = started()
    part(world, "abc", "de")
    assert ordering(world) == "abc"
    part(world, "ab", "c", "de")
    assert ordering(world) == "ab", "two of the last three, and two of all five"
    world.append("a", b"x")
    world.run()
    part(world, "a", "b", "cde")
    assert ordering(world) == "", "a alone is half of it with its lowest number, but below the minimum; cde is none"
    part(world, "ade", "bc")
    assert ordering(world) == "ade", "half of {a, b}, with its lowest number"
    part(world, "abcde")
    assert ordering(world) == "abcde"
    world.agree("abcde")
    world.verified()


def test_the_majority_of_all_waits_where_the_last_two_are_lost() -> None:
    world = started()
    part(world, "abc", "de")
    part(world, "ab", "c", "de")
    part(world, "ab", "cde")
    assert ordering(world) == "ab"
    for name in "ab":
        world.cluster.crash(name)
    world.run(3 * SECOND)
    assert ordering(world) == ""
    part(world, "bcde")
    world.cluster.restart("b")
    world.run(3 * SECOND)
    assert ordering(world) == "bcde", "more than n - minimum: they meet every component that there may have been"
    world.verified()


def test_a_minimum_of_one_lets_the_last_go_on_alone() -> None:
    world = started("abc", {"kind": "dynamic", "minimum": 1})
    part(world, "ab", "c")
    part(world, "a", "bc")
    assert ordering(world) == "a"
    world.verified()


def test_two_replicas_have_a_minimum_of_one() -> None:
    world = started("ab")
    part(world, "a", "b")
    assert ordering(world) == "a"
    world.verified()


def test_weights_count_in_sub_quorums_only() -> None:
    world = started("abcd", {"kind": "dynamic", "weights": {"a": 1, "b": 1, "c": 1, "d": 4}})
    part(world, "abc", "d")
    assert ordering(world) == "abc", "more than n - minimum; d has more than half of the weight, but is one replica"
    part(world, "abcd")
    part(world, "ab", "cd")
    assert ordering(world) == "cd", "more than half of the weight"
    world.verified()


def test_a_restart_remembers_the_sessions() -> None:
    world = started()
    part(world, "abc", "de")
    part(world, "ab", "c", "de")
    for name in "abcde":
        world.cluster.crash(name)
    world.cluster.partition(["cde", "ab"])
    for name in "abcde":
        world.cluster.restart(name)
    world.run(3 * SECOND)
    assert ordering(world) == "ab"
    world.verified()


def test_a_pair_that_committed_without_the_rest_knowing_keeps_them_from_going_on() -> None:
    """Of a to e: a, b and c attempt, all commit, and c is cut off before it hears that they all did."""
    world = started()
    part(world, "abc", "de")
    kept = world.log("c").record.kept
    assert kept is not None
    assert kept.established.numbers() == (0, 1, 2)
    part(world, "ab", "cde")
    assert ordering(world) == "ab"
    world.verified()


# -- from kind to kind


@pytest.mark.parametrize(
    "other",
    [
        MAJORITY,
        {"kind": "weighted", "weights": {"a": 2, "b": 2, "c": 1, "d": 1, "e": 1}},
        {"kind": "grid", "rows": [["a", "b"], ["c", "d", "e"]]},
    ],
    ids=lambda spec: str(spec["kind"]),
)
def test_a_running_log_switches_to_it_and_back(other: Spec) -> None:
    world = started(quorum=other)
    world.append("a", b"before")
    world.run()
    change(world, "b", world.log("b").replicas.with_quorum(DYNAMIC))
    assert world.log("e").replicas.quorum == DYNAMIC
    part(world, "abc", "de")
    part(world, "ab", "cde")
    assert ordering(world) == "ab"
    with pytest.raises(Unavailable, match="not a quorum of the new set"):
        world.log("a").propose(world.log("a").replicas.with_quorum({**MAJORITY}))
    part(world, "abcde")
    change(world, "a", world.log("a").replicas.with_quorum(other))
    assert world.log("e").replicas.quorum == other
    part(world, "cde", "ab")
    assert ordering(world) == ("cde" if other == MAJORITY else "ab" if other["kind"] == "weighted" else "")
    part(world, "abcde")
    world.agree("abcde")
    world.verified()


# -- changes of the replicas


def test_a_replica_is_added_and_removed() -> None:
    world = World("abcd", replicas="abc", quorum=DYNAMIC)
    world.run(2 * SECOND)
    change(world, "a", world.log("a").replicas.added("d"))
    assert ordering(world) == "abcd"
    part(world, "ab", "cd")
    assert ordering(world) == "ab"
    change(world, "b", world.log("b").replicas.removed("d"))
    assert world.log("a").replicas.names() == ["a", "b", "c"]
    part(world, "abc", "d")
    assert ordering(world) == "abc"
    world.verified()


def test_the_tie_breaker_of_a_pair_can_not_be_removed() -> None:
    world = started("abcd")
    part(world, "ab", "cd")
    with pytest.raises(Unavailable, match="not a quorum of the new set"):
        world.log("b").propose(world.log("b").replicas.removed("a"))
    part(world, "abc", "d")
    change(world, "b", world.log("b").replicas.removed("a"))
    assert ordering(world) == "bc"
    world.verified()


def test_a_minimum_above_the_replicas_is_refused() -> None:
    three = ReplicaSet.first("abc", {"kind": "dynamic", "minimum": 3})
    with pytest.raises(Rejected, match="minimum: expected a number of replicas from 1 to 2"):
        three.removed("c")
    assert three.removed("c", DYNAMIC).voters() is not None


def test_a_lost_disk_is_no_witness() -> None:
    """b loses what it committed to with a: with c and d it must not count as a member that did not commit."""
    world = started("abcd")
    part(world, "ab", "cd")
    world.append("a", b"ordered by a and b")
    world.run()
    assert world.log("a").green > 0
    world.lose_disk("b")
    world.cluster.partition(["a", "bcd"])
    world.cluster.restart("b")
    world.run(3 * SECOND)
    assert ordering(world) == ""
    part(world, "abcd")
    assert "a" in ordering(world)
    world.verified()


# -- force


def test_giving_up_the_last_primary_component() -> None:
    world = started()
    part(world, "ab", "cde")
    assert ordering(world) == "cde"
    part(world, "ab", "cd", "e")
    assert ordering(world) == "cd"
    for name in "cd":
        world.cluster.crash(name)
    part(world, "abe", "cd")
    assert ordering(world) == ""
    losses = world.log("a").losses({"c", "d"})
    assert losses.ordered, "c and d went on without the others"
    with pytest.raises(Rejected, match="neither lost nor here"):
        world.log("a").force(world.log("a").replicas.forced_without({"c"}))
    world.log("a").force(world.log("a").replicas.forced_without({"c", "d"}))
    world.turn("a")
    world.run(3 * SECOND)
    assert ordering(world) == "abe"
    kept = world.log("a").record.kept
    assert kept is not None
    assert kept.established.epoch == 1
    part(world, "ab", "e")
    assert ordering(world) == "ab"
    world.cluster.restart("c")
    world.cluster.restart("d")
    part(world, "cde", "ab")
    assert ordering(world) == "ab", "c and d are out of the log"
    world.run(300 * MS)


def test_what_was_ordered_is_not_lost_where_every_successor_would_have_a_member_here() -> None:
    world = started()
    part(world, "abc", "de")
    world.cluster.crash("d")
    world.cluster.crash("e")
    world.run(2 * SECOND)
    losses = world.log("a").losses({"d", "e"})
    assert not losses.ordered


# -- by hand: what changes of the replicas and lost disks do to sessions


def session(number: int, *members: int) -> Session:
    return Session(0, number, tuple((member, 1) for member in members))


def state(replicas: ReplicaSet, kept: Kept, *, admitted: bool = True) -> State:
    return State(
        keeps=True, identity=b"12345678", replicas=replicas, last_committed_primary=3, last_attempted_primary=3,
        green=0, yellow=0, base=0, has={}, marked=[], identities={}, admitted=admitted, kept=kept,
    )  # fmt: skip


def test_a_replaced_site_is_another_replica() -> None:
    """a, b and c went on; b was replaced. Of these three, b and c are one: the new b is none of them."""
    replicas = ReplicaSet.first("abcde", {"kind": "dynamic", "minimum": 1}).replaced("b", "b")
    kept = Kept(session(3, 0, 1, 2))
    told = voting.tell("bc", replicas, {name: state(replicas, kept) for name in "bc"})
    assert not told.may_order(replicas, "bc")
    assert voting.tell("ac", replicas, {name: state(replicas, kept) for name in "ac"}).may_order(replicas, "ac")


def test_an_empty_storage_is_no_witness() -> None:
    """a, b and c committed to 3, of which c knows no more. b lost its disk: that proves nothing about 3."""
    replicas = ReplicaSet.first("abcde", DYNAMIC)
    first = Kept(session(0, 0, 1, 2, 3, 4))
    committed = Kept(first.established, (Own(session(3, 0, 1, 2), committed=True),))
    states = {name: state(replicas, first) for name in "de"} | {
        "b": state(replicas, first, admitted=False),
        "c": state(replicas, committed),
    }
    told = voting.tell("bcde", replicas, states)
    assert not told.may_order(replicas, "cde")
    states["b"] = state(replicas, first)
    assert voting.tell("bcde", replicas, states).may_order(replicas, "cde"), "with its own disk it is one"


def test_a_pending_change_has_to_be_allowed_too() -> None:
    """A change to a minimum of three is in the queue of a and b, who are two."""
    world = started("abcd")
    world.log("a").propose(world.log("a").replicas.with_quorum({"kind": "dynamic", "minimum": 3}))
    world.turn("a")
    part(world, "ab", "cd")
    world.cluster.crash("b")
    world.run(2 * SECOND)
    world.cluster.restart("b")
    world.run(3 * SECOND)
    assert len(world.log("a").pending_sets()) == 2
    assert ordering(world) == ""
    part(world, "abc", "d")
    assert ordering(world) == "abc"
    world.verified()


def test_a_forced_set_is_the_established_session() -> None:
    world = started()
    part(world, "abc", "de")
    replica = world.log("a")
    replica._voting.force(replica.replicas.forced_without({"d", "e"}))
    kept = replica.record.kept
    assert kept == Kept(Session(1, 0, ((0, 1), (1, 1), (2, 1))))


def test_one_that_heard_of_a_component_that_nobody_here_knows_waits() -> None:
    replicas = ReplicaSet.first("abc", DYNAMIC)
    kept = Kept(session(3, 0, 1, 2))
    states = {name: state(replicas, kept) for name in "ab"}
    assert voting.tell("ab", replicas, states).may_order(replicas, "ab")
    states["b"] = replace(states["b"], heard_primary=4)
    assert not voting.tell("ab", replicas, states).may_order(replicas, "ab")


def test_what_is_established_is_written_with_the_attempt() -> None:
    first, second, third = session(0, 0, 1, 2), session(1, 0, 1, 2), session(2, 0, 1)
    kept = Kept(first, (Own(second, committed=True),))
    assert kept.attempted(third, Evidence(second, ())) == Kept(second, (Own(third, committed=False),))
    assert kept.attempted(third, Evidence(first, ())) == Kept(first, (Own(third, committed=False),)), "2 is dead"
    assert kept.attempted(third, Evidence(first, (second,))).later == (*kept.later, Own(third, committed=False))


def test_a_commit_is_not_established() -> None:
    world = started("abc")
    vote = world.log("a")._voting
    before = world.log("a").record.kept
    assert before is not None
    vote.begin(vote.told)
    vote.attempt(9, "abc")
    vote.commit()
    after = world.log("a").record.kept
    assert after is not None
    assert after.established == before.established
    assert [(own.session.number, own.committed) for own in after.later] == [(9, True)]


def test_nothing_is_final_before_the_session_is_on_the_disk() -> None:
    world = started("abc")
    part(world, "a", "b", "c")
    world.append("b", b"x")
    world.run()
    for name in "abc":
        world.cluster.node(name).disk.sync_ns = (40 * MS, 40 * MS)
    world.cluster.partition(["abc"])
    held = 0
    for _ in range(4_000):
        world.run(MS)
        for name in "abc":
            replica = world.log(name)
            kept = replica._writes.kept
            if replica.primary and kept is not None and kept.established.number < replica.primary:
                held += 1
                assert replica.green == 0, name
        if all(world.log(name).green for name in "abc"):
            break
    assert held > 10, "it was open meanwhile"
    world.verified()


# -- in words


def test_why_a_component_may_or_may_not_order() -> None:
    world = started()
    assert world.log("a").why.startswith("a, b, c, d, e may order: primary component 1 is the last established")
    part(world, "abc", "de")
    part(world, "ab", "cde")
    assert world.log("c").why == (
        "c, d, e may not order: session 2 (a, b, c) was established last, and they hold no sub-quorum of it;"
        " missing: a, b."
    )
    part(world, "a", "b", "cde")
    assert world.log("a").why == (
        "a may not order: 1 of at least 2 replicas (the minimum) are here; missing: b, c, d, e."
    )
    static = started(quorum=MAJORITY)
    part(static, "ab", "cde")
    assert static.log("a").why == (
        "a, b may not order: they are no quorum (majority) of a, b, c, d, e; missing: c, d, e."
    )


@pytest.mark.parametrize(
    "quorum",
    [
        {"kind": "weighted", "weights": {"a": 1, "b": 1, "c": 3}},
        {"kind": "grid", "rows": [["a", "b"], ["c"]]},
    ],
    ids=["weighted", "grid"],
)
def test_every_kind_says_why_and_what_if(quorum: Spec) -> None:
    world = started("abc", quorum)
    assert world.log("a").why.startswith("a, b, c may order: ")
    assert world.log("a").whatif(["a"])["orders"] is True
    assert world.log("a").whatif(["c"])["orders"] is False
    part(world, "ab", "c")
    assert world.log("a").why == (
        f"a, b may not order: they are no quorum ({quorum['kind']}) of a, b, c; missing: c."
    )


def test_what_losing_replicas_would_stop() -> None:
    world = started()
    assert world.log("a").whatif(["d", "e"])["orders"]
    assert world.log("a").whatif(["d", "e"])["ordering"]
    found = world.log("a").whatif(["a", "b", "c"])
    assert not found["orders"]
    part(world, "abc", "de")
    found = world.log("a").whatif(["a", "b"])
    assert (found["rest"], found["orders"], found["orders_with_all"]) == (["c"], False, False)
    assert not world.log("d").whatif(["a"])["ordering"], "d does not know what a, b and c do"
    assert found["orders_with_all_why"] == (
        "session 2 (a, b, c) was established last, and they hold no sub-quorum of it; missing: a, b"
    )
    with pytest.raises(Rejected, match="x is none of its replicas"):
        world.log("a").whatif(["x"])
    static = started(quorum={"kind": "grid", "rows": [["a", "b"], ["c", "d", "e"]]})
    assert static.log("a").whatif(["c"])["orders"]
    assert not static.log("a").whatif(["a", "b"])["orders_with_all"]
