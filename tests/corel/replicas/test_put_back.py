"""A disk that is put back to an earlier moment: its site is behind what others know of it."""

import pytest
from tests.corel.world import SECOND, World
from tests.sim.chunks import few, in_chunks

from reconvene.errors import Rejected
from reconvene.sim.log_site import LogSite
from reconvene.storage.tables import Op, Put


def world_with(*messages: bytes) -> World:
    world = World("abc")
    world.run()
    if messages:
        world.append("c", *messages)
        world.run()
    return world


def put_back(world: World, name: str, copy: list[Op]) -> None:
    if world.up(name):
        world.cluster.crash(name)
    node = world.cluster.node(name)
    node.disk.put_back(copy)
    world.cluster.rows[name].clear()  # its trace can't go on either
    node._recorder._inc = 0


def refused(world: World, name: str) -> str:
    """Both sides know it, and it accepts nothing."""
    world.run(8 * SECOND)  # a datagram of an earlier start may only be late: that is told apart by waiting
    for other in "abc":
        if other != name:
            site = world.cluster.node(other).site
            assert isinstance(site, LogSite)
            heard = site.site.changes.hearing
            assert "abc".index(name) in heard.behind or name in world.log(other).behind, other
            assert name not in world.log(other).participants
    with pytest.raises(Rejected, match=f"site {name}: its storage is older than what others know of it") as error:
        world.log(name).append([b"too late"])
    return str(error.value)


def data(world: World, name: str) -> list[bytes]:
    """Without changes of the replicas."""
    return [text for text in world.texts(name) if len(text) < 10]


def test_messages_that_others_have() -> None:
    world = world_with(b"one")
    copy = world.cluster.node("c").disk.copy()
    world.append("c", b"two")
    world.run()
    put_back(world, "c", copy)
    world.cluster.restart("c")
    world.run()
    assert "a has its message 2, and it only knows of 1" in refused(world, "c")
    world.append("a", b"three")
    world.run()
    assert world.texts("a") == world.texts("b") == [b"one", b"two", b"three"]


def test_a_start_that_others_have_seen() -> None:
    world = world_with()
    copy = world.cluster.node("c").disk.copy()
    for _ in range(2):
        world.cluster.crash("c")
        world.cluster.restart("c")
        world.run()
    put_back(world, "c", copy)
    # The site's own record is not the log's: here the others hear it nevertheless.
    world.cluster.node("c").disk.put([Put(b"site", b"\x92\x01\x01")])
    for name in "ab":
        world.cluster.crash(name)
        world.cluster.restart(name)
    world.cluster.restart("c")
    world.run(2 * SECOND)
    assert "has seen its start 3, and it only knows of 2" in refused(world, "c")


def test_the_same_number_of_starts() -> None:
    world = world_with()
    copy = world.cluster.node("c").disk.copy()
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.run()
    put_back(world, "c", copy)
    for name in "ab":
        world.cluster.crash(name)
        world.cluster.restart(name)
    world.cluster.restart("c")
    world.run(2 * SECOND)
    assert "has seen another start 2 of it" in refused(world, "c")


def test_messages_of_others_that_it_had_acknowledged() -> None:
    world = world_with(b"one")
    copy = world.cluster.node("c").disk.copy()
    world.append("a", b"two")
    world.run()
    put_back(world, "c", copy)
    world.cluster.restart("c")
    world.run()
    assert "a has 2 messages in order from primary component 1, and it has only 1" in refused(world, "c")
    world.append("a", b"three")
    world.run()
    assert world.texts("b") == [b"one", b"two", b"three"]


def test_it_stays_refused_when_it_is_alone_again() -> None:
    world = world_with(b"one")
    copy = world.cluster.node("c").disk.copy()
    world.append("c", b"two")
    world.run()
    put_back(world, "c", copy)
    world.cluster.restart("c")
    world.run()
    world.cluster.partition(["ab", "c"])
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.run()
    with pytest.raises(Rejected, match="older than what others know"):
        world.log("c").append([b"too late"])


def test_what_it_accepted_alone_under_ids_that_were_used_is_not_lost_silently() -> None:
    """It catches up with its own counters while it is alone; the tokens of its starts show that it was put back."""
    world = world_with(b"one")
    copy = world.cluster.node("c").disk.copy()
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.run()
    world.append("c", b"two")
    world.run()
    put_back(world, "c", copy)
    world.cluster.partition(["ab", "c"])
    world.cluster.restart("c")
    world.run()
    world.append("c", b"another two", b"three")
    world.run()
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.cluster.heal()
    world.run(2 * SECOND)
    assert "2 messages that it accepted have no place here" in refused(world, "c")
    assert world.texts("a") == [b"one", b"two"]


def test_a_disk_that_was_put_back_with_nothing_lost_is_none_the_worse() -> None:
    world = world_with(b"one")
    world.cluster.crash("c")
    put_back(world, "c", world.cluster.node("c").disk.copy())
    world.cluster.restart("c")
    world.run()
    world.append("c", b"two")
    world.run()
    assert world.texts("a") == [b"one", b"two"]
    assert world.log("a").behind == {}


@pytest.mark.parametrize("seed", few(range(12), 4))
def test_whoever_is_put_back_is_refused_or_has_lost_nothing(seed: int) -> None:
    """At random moments: no two replicas disagree about a position afterwards, and nothing ordered is gone."""
    world = World("abc", seed=seed)
    world.run()
    random, count = world.random, 0
    copy = world.cluster.node("c").disk.copy()
    for step in range(8):
        if random.random() < 0.3:
            copy = world.cluster.node("c").disk.copy()
        for name in "abc":
            if random.random() < 0.6:
                world.append(name, b"%d" % (count := count + 1))
        if random.random() < 0.3:
            world.cluster.crash("c")
            world.cluster.restart("c")
        world.run(random.randint(1, SECOND // 2) if step < 7 else 2 * SECOND)
    world.run(2 * SECOND)
    before = world.texts("a")
    put_back(world, "c", copy)
    world.cluster.restart("c")
    world.run(2 * SECOND)
    if world.log("c").is_replica:
        world.agree("abc")
    else:
        refused(world, "c")
    world.append("b", b"last")
    world.run(2 * SECOND)
    assert world.texts("a") == world.texts("b") == [*before, b"last"]


def test_a_storage_that_takes_the_place_of_a_lost_one_gets_a_number_by_itself() -> None:
    for seed in range(6):
        world = World("abc", seed=seed)
        world.run()
        world.append("c", b"one", b"two")
        world.run()
        world.lose_disk("c")
        world.core.replaces = True  # type: ignore[attr-defined]
        world.cluster.restart("c")
        world.run(3 * SECOND)
        assert world.log("c").own == 3, seed
        assert world.log("c").is_replica
        assert not world.log("c").record.replaces
        world.append("c", b"three")
        world.run()
        assert data(world, "a") == data(world, "c") == [b"one", b"two", b"three"]
        assert world.log("a").replicas.version == 1, "once"
        world.agree("abc")


def test_a_replaced_one_that_waits_for_a_quorum_says_so() -> None:
    world = World("abc")
    world.run()
    world.append("a", b"one")
    world.run()
    world.cluster.crash("b")
    world.lose_disk("c")
    world.core.replaces = True  # type: ignore[attr-defined]
    world.cluster.restart("c")
    world.run(3 * SECOND)
    with pytest.raises(Rejected, match="site c was replaced: it waits for a quorum of the log's other replicas"):
        world.log("c").append([b"two"])
    world.cluster.restart("b")
    world.run(3 * SECOND)
    assert world.log("c").left_out is None


@pytest.mark.parametrize("start", in_chunks(20, 4))
def test_a_lost_one_is_replaced_once_whoever_crashes_meanwhile(start: int) -> None:
    for seed in range(start, start + 4):
        world = World("abcde", seed=seed, check_every=3)
        world.run()
        world.append("c", b"one")
        world.run()
        world.lose_disk("c")
        world.core.replaces = True  # type: ignore[attr-defined]
        world.cluster.restart("c")
        world.core.replaces = False  # type: ignore[attr-defined]
        for _ in range(4):
            world.run(world.random.randint(1, SECOND // 4))
            victim = world.random.choice("abcde")
            world.cluster.crash(victim)
            world.cluster.restart(victim)
        world.run(5 * SECOND)
        assert world.log("c").own == 5, seed
        world.append("c", b"two")
        world.run(2 * SECOND)
        assert data(world, "a") == [b"one", b"two"], seed
        assert world.log("a").replicas.version == 1, seed
        world.agree("abcde")
