"""Snapshots of an application's state machine: kept, sent to who lacks one, and never a hindrance."""

from random import Random

import pytest
from msgspec import msgpack
from msgspec.structs import replace
from tests.corel.world import MS, SECOND, World

from reconvene.corel.layout import PIECES, SNAPSHOTS, piece_key, snapshot_key, table_end
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import SNAPSHOT
from reconvene.corel.snapshots import PIECE_BYTES, VERSION, Meta, decode_meta
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.storage.tables import Put

LIMITS = LogLimits(batch_bytes=16, keep_bytes=0)


def state(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


def fill(world: World, name: str, count: int) -> None:
    for number in range(count):
        world.append(name, b"%s%d" % (name.encode(), number))
        world.run(5 * MS)
    world.run(300 * MS)


def save(world: World, name: str, data: bytes, position: int | None = None) -> None:
    replica = world.log(name)
    done: list[bool] = []
    replica.save_snapshot(replica.queue.green if position is None else position, data, lambda: done.append(True))
    world.turn(name)
    world.run(500 * MS)
    assert done == [True]


def kept(world: World, name: str) -> bytes:
    replica = world.log(name)
    assert replica.snapshots.newest is not None
    return replica.snapshots.read(0, replica.snapshots.newest.size)


def stored(world: World, name: str) -> tuple[int, int]:
    disk = world.cluster.node(name).disk
    return tuple(len(list(disk.keys(table, table_end(table)))) for table in (SNAPSHOTS, PIECES))  # type: ignore[return-value]


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, 40 * PIECE_BYTES + 7])
def test_the_newest_is_kept_and_read_again(size: int) -> None:
    world = World("a")
    world.run()
    fill(world, "a", 3)
    save(world, "a", state(size), 2)
    world.cluster.crash("a")
    world.cluster.restart("a")
    assert kept(world, "a") == state(size)
    if size > PIECE_BYTES:
        assert world.log("a").snapshots.read(PIECE_BYTES - 3, 9) == state(size)[PIECE_BYTES - 3 : PIECE_BYTES + 6]
    world.run()
    save(world, "a", b"newer", 3)
    world.run()
    assert kept(world, "a") == b"newer"
    assert stored(world, "a") == (1, 1)


def test_what_is_refused() -> None:
    world = World("a", limits=LogLimits(snapshot_bytes=100))
    world.run()
    fill(world, "a", 3)
    replica = world.log("a")
    with pytest.raises(Unavailable, match="no snapshot"):
        replica.snapshots.read(0, 1)
    with pytest.raises(Rejected, match="larger than 100"):
        replica.save_snapshot(1, b"x" * 101)
    with pytest.raises(Rejected, match="from 0 to 3"):
        replica.save_snapshot(4, b"x")
    replica.save_snapshot(2, b"x")
    with pytest.raises(Unavailable, match="is being saved"):
        replica.save_snapshot(3, b"x")
    world.turn("a")
    world.run()
    with pytest.raises(Rejected, match="kept already"):
        replica.save_snapshot(2, b"x")


def test_a_crash_while_it_is_saved_keeps_the_one_before() -> None:
    for pause in range(12):
        world = World("a")
        world.run()
        fill(world, "a", 3)
        save(world, "a", b"before", 1)
        world.log("a").save_snapshot(2, state(60 * PIECE_BYTES))
        world.turn("a")
        world.run(pause * 3 * MS)
        world.cluster.crash("a")
        world.cluster.restart("a")
        world.run()
        assert kept(world, "a") in (b"before", state(60 * PIECE_BYTES))
        pieces = 1 if kept(world, "a") == b"before" else 60
        assert stored(world, "a") == (1, pieces), "nothing is left of one that is not whole"


def lagging(seed: int = 0, names: str = "abc") -> World:
    """The last one was passed by truncation, and is alone."""
    world = World(names, seed, limits=LIMITS)
    world.run()
    fill(world, "a", 2)
    others, last = names[:-1], names[-1]
    world.cluster.partition([others, last])
    world.run(2 * SECOND)
    world.append(last, b"its own")
    fill(world, "a", 10)
    return world


def receiving(world: World, name: str) -> dict[str, int | str]:
    """Runs until a transfer is under way."""
    for _ in range(500):
        found = world.log(name).snapshots.status().get("receiving")
        if isinstance(found, dict) and found["received"]:
            return found
        world.run(5 * MS)
    raise AssertionError("no transfer began")


def truncate(world: World, names: str) -> None:
    for name in names:
        world.log(name).truncate(world.log(name).queue.green)
        world.turn(name)
    world.run()


def test_a_replica_that_was_passed_gets_one_while_ordering_goes_on() -> None:
    world = lagging()
    save(world, "a", state(50 * PIECE_BYTES))
    truncate(world, "ab")
    world.cluster.heal()
    found = receiving(world, "c")
    assert (found["bytes"], found["from"]) == (50 * PIECE_BYTES, "a")
    green = world.log("c").queue.green
    world.append("c", b"meanwhile")
    world.run(60 * MS)
    assert world.log("c").queue.green == green + 1, "the transfer delays nothing"
    world.run(4 * SECOND)
    assert kept(world, "c") == state(50 * PIECE_BYTES)
    assert not world.log("c").snapshots.lacks
    assert "receiving" not in world.log("c").snapshots.status()
    world.agree("abc")


@pytest.mark.parametrize("seed", [0, 1, 2, 106])
def test_a_transfer_goes_on_after_crashes_and_partitions(seed: int) -> None:
    world = lagging(seed, "abcd")
    data = state(120 * PIECE_BYTES)
    for name in "ab":
        save(world, name, data, 12)
    truncate(world, "abc")
    world.cluster.heal()
    reached = 0
    for fault in range(4):
        found = receiving(world, "d")
        assert int(found["received"]) >= reached, "nothing is sent twice"
        world.run(world.random.randint(1, 40) * MS)
        reached = int(receiving(world, "d")["received"])
        if fault % 2:
            world.cluster.crash("d")
            world.cluster.restart("d")
        else:
            world.cluster.partition(["acd", "b"] if fault else ["bcd", "a"])
    world.cluster.heal()
    world.run(8 * SECOND)
    assert kept(world, "d") == data
    world.agree("abcd")


def test_a_newer_one_takes_the_place_of_one_that_is_gone() -> None:
    world = lagging()
    save(world, "a", state(50 * PIECE_BYTES), 11)
    world.log("a").truncate(11)
    truncate(world, "b")
    world.cluster.heal()
    receiving(world, "c")
    save(world, "a", b"newer", 12)
    world.run(3 * SECOND)
    assert kept(world, "c") == b"newer"
    assert stored(world, "c") == (1, 1), "nothing is left of the other"


def test_who_lacks_one_gets_it_as_soon_as_there_is_one() -> None:
    world = lagging()
    truncate(world, "ab")
    world.cluster.heal()
    world.run(3 * SECOND)
    assert world.log("c").snapshots.status() == {"lacks": True}
    save(world, "b", b"the state")
    world.run(SECOND)
    for name in "abc":
        assert kept(world, name) == b"the state"


def test_one_that_is_damaged_is_taken_from_someone_else() -> None:
    world = lagging()
    for name in "ab":
        save(world, name, state(3 * PIECE_BYTES), 12)
    truncate(world, "ab")
    world.cluster.node("a").disk.corrupt(piece_key(12, 1))
    world.cluster.heal()
    world.run(4 * SECOND)
    assert kept(world, "c") == state(3 * PIECE_BYTES)


def test_a_wrong_checksum_is_never_kept() -> None:
    world = lagging()
    save(world, "a", state(3 * PIECE_BYTES))
    truncate(world, "ab")
    world.cluster.node("a").disk.put_log([Put(piece_key(12, 1), state(PIECE_BYTES, 2))])
    world.cluster.heal()
    world.run(3 * SECOND)
    assert world.log("c").snapshots.newest is None
    assert world.log("c").snapshots.lacks


def test_a_newer_version_is_refused() -> None:
    world = World("a")
    world.run()
    fill(world, "a", 1)
    save(world, "a", b"x")
    newest = world.log("a").snapshots.newest
    assert newest is not None
    world.cluster.crash("a")
    newer = msgpack.encode(replace(newest, version=VERSION + 1))
    world.cluster.node("a").disk.put_log([Put(snapshot_key(newest.position), newer)])
    with pytest.raises(Unavailable, match="newer program: version 2"):
        world.cluster.restart("a")


def test_what_makes_no_sense_is_counted() -> None:
    with pytest.raises(Malformed):
        decode_meta(b"nonsense")
    with pytest.raises(Malformed):
        decode_meta(msgpack.encode([1, 2]))
    assert decode_meta(msgpack.encode(Meta(1, 2, 3, 4, 5, 6))) == Meta(1, 2, 3, 4, 5, 6)
    world = World("a")
    world.run()
    with pytest.raises(Malformed):
        world.log("a").snapshots.receive("a", bytes((SNAPSHOT,)) + b"nonsense")
