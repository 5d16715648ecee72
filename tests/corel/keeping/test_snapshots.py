"""Snapshots of an application's state machine: kept, sent to replicas that lack one, and no delay for ordering."""

from random import Random

import pytest
from msgspec import msgpack
from msgspec.structs import replace
from tests.corel.world import MS, SECOND, World
from tests.sim.chunks import few

from reconvene.corel.events import LogEvent, RequestStored
from reconvene.corel.keeping.layout import NAMES, PIECES, SNAPSHOTS, piece_key, snapshot_key, table_end
from reconvene.corel.keeping.snapshot_rows import MOST_NAMES, PIECE_BYTES, VERSION, Meta, check_name, decode_meta
from reconvene.corel.keeping.snapshots import Snapshots
from reconvene.corel.limits import LogLimits
from reconvene.corel.messages import SNAPSHOT
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import UNNAMED
from reconvene.sim.node import Node
from reconvene.storage.tables import Put

LIMITS = LogLimits(batch_bytes=16)
"""Truncated where a test says so …"""
EAGER = LogLimits(batch_bytes=16, keep_bytes=0)
"""… and at once."""


def state(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


def fill(world: World, name: str, count: int) -> None:
    for number in range(count):
        world.append(name, b"%s%d" % (name.encode(), number))
        world.run(5 * MS)
    world.run(300 * MS)


def save(world: World, name: str, data: bytes, position: int | None = None, machine: str = UNNAMED) -> None:
    replica = world.log(name)
    done = requests_stored(world, name)
    position = replica.green if position is None else position
    request = replica.save_snapshot(position, data, machine)
    world.turn(name)
    world.run(500 * MS)
    assert done == [request]


def requests_stored(world: World, name: str) -> list[int]:
    """The numbers of the requests that a replica reports as stored from now on."""
    found: list[int] = []

    def note(node: Node, events: list[LogEvent]) -> None:
        if node.name == name:
            found.extend(event.number for event in events if isinstance(event, RequestStored))

    world.cluster.on_log(note)
    return found


def kept(world: World, name: str, machine: str = UNNAMED) -> bytes:
    snapshots = world.log(name).snapshots
    return snapshots.read(machine, 0, snapshots.newest[machine].size)


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
        assert (
            world.log("a").snapshots.read(UNNAMED, PIECE_BYTES - 3, 9)
            == state(size)[PIECE_BYTES - 3 : PIECE_BYTES + 6]
        )
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
        replica.snapshots.read("stock", 0, 1)
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
    """The last replica is alone, and lacks what the others have truncated."""
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
        world.log(name).truncate(world.log(name).green)
        world.turn(name)
    world.run()


def test_a_replica_that_was_passed_gets_one_while_ordering_goes_on() -> None:
    world = lagging()
    save(world, "a", state(50 * PIECE_BYTES))
    truncate(world, "ab")
    world.cluster.heal()
    found = receiving(world, "c")
    assert (found["bytes"], found["from"]) == (50 * PIECE_BYTES, "a")
    green = world.log("c").green
    world.append("c", b"meanwhile")
    world.run(60 * MS)
    assert world.log("c").green == green + 1, "the transfer delays nothing"
    world.run(4 * SECOND)
    assert kept(world, "c") == state(50 * PIECE_BYTES)
    assert not world.log("c").snapshots.lacking
    assert "receiving" not in world.log("c").snapshots.status()
    world.agree("abc")


@pytest.mark.parametrize("seed", few([106, 0, 1, 2], 1))
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
    assert world.log("c").snapshots.status() == {"lacks": False}, "no name is in use, so nobody lacks anything"
    save(world, "b", b"the state")
    world.run(SECOND)
    for name in "abc":
        assert kept(world, name) == b"the state"


def test_one_that_is_damaged_is_taken_from_someone_else() -> None:
    world = lagging()
    for name in "ab":
        save(world, name, state(3 * PIECE_BYTES), 12)
    truncate(world, "ab")
    world.cluster.node("a").disk.corrupt(piece_key(UNNAMED, 12, 1))
    world.cluster.heal()
    world.run(4 * SECOND)
    assert kept(world, "c") == state(3 * PIECE_BYTES)


def test_a_wrong_checksum_is_never_kept() -> None:
    world = lagging()
    save(world, "a", state(3 * PIECE_BYTES))
    truncate(world, "ab")
    world.cluster.node("a").disk.put([Put(piece_key(UNNAMED, 12, 1), state(PIECE_BYTES, 2))])
    world.cluster.heal()
    world.run(3 * SECOND)
    assert not world.log("c").snapshots.newest
    assert world.log("c").snapshots.lacking


def test_a_newer_version_is_refused() -> None:
    world = World("a")
    world.run()
    fill(world, "a", 1)
    save(world, "a", b"x")
    newest = world.log("a").snapshots.newest[UNNAMED]
    world.cluster.crash("a")
    newer = msgpack.encode(replace(newest, version=VERSION + 1))
    world.cluster.node("a").disk.put([Put(snapshot_key(UNNAMED, newest.position), newer)])
    with pytest.raises(Unavailable, match="newer program: version 3"):
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


# -- names


def use(world: World, name: str, machine: str, start: int = 0) -> None:
    world.log(name).snapshots.use(machine, start)
    world.turn(name)
    world.run(200 * MS)


def names(world: World, name: str) -> dict[str, int]:
    """By name in use: what a machine needs of the log there, to start."""
    snapshots = world.log(name).snapshots
    return {machine: snapshots.cover(machine) for machine in sorted(snapshots.uses)}


def startable(world: World, sites: str) -> None:
    """At every site, a machine of every name that is in use anywhere finds all that it needs."""
    machines = {machine for site in sites for machine in names(world, site)}
    for site in sites:
        base, needs = world.log(site).base, names(world, site)
        for machine in sorted(machines):
            assert base <= needs.get(machine, 0), f"{machine} can't start at {site}"


def two_machines() -> World:
    """Saved at different sites, and far apart."""
    world = World("abc", limits=EAGER)
    world.run()
    use(world, "a", "stock")
    use(world, "b", "prices")
    fill(world, "a", 10)
    save(world, "a", b"stock", 3, "stock")
    save(world, "b", b"prices", 9, "prices")
    fill(world, "b", 3)
    return world


def test_truncation_that_looks_at_one_name_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    startable(two_machines(), "abc")
    highest = property(lambda kept: max(map(kept.cover, kept.uses), default=None))
    monkeypatch.setattr(Snapshots, "floor", highest)
    with pytest.raises(AssertionError, match="stock can't start at"):
        startable(two_machines(), "abc")


def test_a_replica_that_does_not_learn_of_names_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Snapshots, "learn", lambda kept, name, start: None)
    with pytest.raises(AssertionError, match="can't start at"):
        startable(two_machines(), "abc")


def test_each_name_has_its_own() -> None:
    world = World("a", limits=EAGER)
    world.run()
    fill(world, "a", 6)
    save(world, "a", b"prices", 2, "prices")
    save(world, "a", state(3 * PIECE_BYTES), 4, "stock")
    fill(world, "a", 2)
    assert names(world, "a") == {"prices": 2, "stock": 4}
    assert world.log("a").base == 2, "the lower one ends truncation"
    world.cluster.crash("a")
    world.cluster.restart("a")
    world.run()
    assert (kept(world, "a", "stock"), kept(world, "a", "prices")) == (state(3 * PIECE_BYTES), b"prices")
    save(world, "a", b"later", 6, "prices")
    fill(world, "a", 2)
    assert world.log("a").base == 4
    assert kept(world, "a", "stock") == state(3 * PIECE_BYTES)
    assert stored(world, "a") == (2, 4)


def test_two_that_are_saved_at_once_are_both_kept() -> None:
    world = World("a")
    world.run()
    fill(world, "a", 3)
    done = requests_stored(world, "a")
    replica = world.log("a")
    requests = [
        replica.save_snapshot(2, state(40 * PIECE_BYTES), "stock"),
        replica.save_snapshot(2, state(40 * PIECE_BYTES, 2), "prices"),
    ]
    world.turn("a")
    world.run(SECOND)
    assert sorted(done) == requests
    assert kept(world, "a", "stock") == state(40 * PIECE_BYTES)
    assert kept(world, "a", "prices") == state(40 * PIECE_BYTES, 2)


@pytest.mark.parametrize("limits", [{"keep_bytes": 0}, {"retain_bytes": 100}, {"retain_age_ns": SECOND}])
def test_a_machine_that_is_known_and_has_none_yet_keeps_what_it_needs(limits: dict[str, int]) -> None:
    world = World("abc", limits=LogLimits(batch_bytes=16, **limits))
    world.run()
    use(world, "a", "stock")
    fill(world, "a", 10)
    save(world, "a", b"prices", 8, "prices")
    world.run(2 * SECOND)
    fill(world, "b", 5)
    assert [world.log(name).base for name in "abc"] == [0, 0, 0]
    assert names(world, "c") == {"prices": 8, "stock": 0} or names(world, "c") == {"prices": 0, "stock": 0}
    for name in "abc":
        world.cluster.crash(name)
    for name in "abc":
        world.cluster.restart(name)
    world.run(2 * SECOND)
    fill(world, "b", 5)
    startable(world, "abc")
    save(world, "a", b"stock", 9, "stock")
    world.run(2 * SECOND)
    fill(world, "b", 5)
    for name in "abc":
        assert 0 < world.log(name).base <= 8
    startable(world, "abc")
    assert (kept(world, "c", "stock"), kept(world, "b", "prices")) == (b"stock", b"prices")
    world.agree("abc")


def test_no_name_in_use_is_a_stream() -> None:
    world = World("abc", limits=LogLimits(batch_bytes=16, retain_bytes=100))
    world.run()
    fill(world, "a", 10)
    assert world.log("a").base > 0
    with pytest.raises(Rejected, match="position 0, which is truncated: the log begins at"):
        world.log("a").snapshots.use("stock", 0)


def test_a_replica_that_was_passed_gets_all_of_them() -> None:
    world = lagging()
    save(world, "a", state(20 * PIECE_BYTES), 12, "stock")
    save(world, "b", state(20 * PIECE_BYTES, 2), 11, "prices")
    save(world, "b", b"", 12, "none")
    world.run(SECOND)
    truncate(world, "ab")
    world.cluster.heal()
    for _ in range(3):
        receiving(world, "c")
        world.cluster.crash("c")
        world.cluster.restart("c")
    world.run(8 * SECOND)
    assert kept(world, "c", "stock") == state(20 * PIECE_BYTES)
    assert kept(world, "c", "none") == b""
    # It was truncated beyond the other one, which nobody can use any more: the operator asked for that.
    assert world.log("c").snapshots.lacking == ["prices"]
    save(world, "b", b"prices", machine="prices")
    world.run(2 * SECOND)
    assert world.log("c").snapshots.lacking == []
    assert kept(world, "c", "prices") == b"prices"
    world.agree("abc")


def test_a_name_is_dropped_everywhere() -> None:
    world = World("abc", limits=EAGER)
    world.run()
    use(world, "b", "old")
    fill(world, "a", 10)
    save(world, "a", b"stock", 9, "stock")
    fill(world, "a", 3)
    assert [world.log(name).base for name in "abc"] == [0, 0, 0]
    assert [sorted(names(world, name)) for name in "abc"] == [["old", "stock"]] * 3
    with pytest.raises(Rejected, match="no snapshot 'other' is in use here: expected one of: old, stock"):
        world.log("a").snapshots.drop("other")
    world.log("a").snapshots.drop("old")
    world.turn("a")
    world.run(2 * SECOND)
    fill(world, "b", 3)
    for name in "abc":
        assert list(names(world, name)) == ["stock"]
        assert 0 < world.log(name).base <= 9
        assert len(list(world.cluster.node(name).disk.keys(NAMES, table_end(NAMES)))) == 1
    startable(world, "abc")


def test_one_that_is_being_saved_is_not_dropped() -> None:
    world = World("a")
    world.run()
    fill(world, "a", 3)
    replica = world.log("a")
    replica.save_snapshot(2, b"stock", name="stock")
    with pytest.raises(Unavailable, match="is being saved: end the program"):
        replica.snapshots.drop("stock")
    replica.snapshots.forget("stock")
    world.turn("a")
    world.run(SECOND)
    assert kept(world, "a", "stock") == b"stock"


def test_names_and_bytes_are_bounded() -> None:
    world = World("a", limits=LogLimits(snapshot_bytes=100))
    world.run()
    fill(world, "a", 3)
    snapshots = world.log("a").snapshots
    save(world, "a", b"x" * 60, 1, "stock")
    with pytest.raises(
        Rejected, match=r"'prices' of 41 bytes: expected at most 40, since all names together may have 100"
    ):
        world.log("a").save_snapshot(1, b"x" * 41, name="prices")
    save(world, "a", b"x" * 40, 1, "prices")
    save(world, "a", b"x" * 60, 2, "stock")
    for number in range(MOST_NAMES - 2):
        snapshots.use(f"machine {number}", 0)
    with pytest.raises(Rejected, match=r"one name more than the 64 .* --drop NAME"):
        snapshots.use("one more", 0)
    with pytest.raises(Rejected, match="one name more"):
        world.log("a").save_snapshot(3, b"", name="one more")
    snapshots.learn("one more", 0)
    assert "one more" not in snapshots.uses


@pytest.mark.parametrize("name", ["", "x" * 129, "ä" * 65, "a\nb", "\x7f", "\ud800", 7, None])
def test_names_that_are_refused(name: object) -> None:
    with pytest.raises(Rejected, match="a snapshot's name: expected"):
        check_name(name)
    assert check_name("x" * 128) == "x" * 128


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_no_machine_is_left_without_its_beginning(seed: int) -> None:
    """Two machines, each run and saved at some sites only, through crashes and partitions."""
    world = World("abc", seed, limits=EAGER)
    world.run()
    random = world.random
    for machine in ("stock", "prices"):
        use(world, random.choice("abc"), machine)
    for _ in range(12):
        fill(world, random.choice("abc"), 3)
        site = random.choice("abc")
        replica, machine = world.log(site), random.choice(["stock", "prices"])
        low = max(
            replica.base,
            replica.snapshots.newest[machine].position + 1 if machine in replica.snapshots.newest else 0,
        )
        if low <= replica.green:
            save(world, site, b"%s %d" % (machine.encode(), low), low, machine)
        startable(world, "abc")
        match random.randrange(3):
            case 0:
                world.cluster.crash(site)
                world.cluster.restart(site)
            case 1:
                world.cluster.partition([site, "abc".replace(site, "")])
                world.run(SECOND)
            case _:
                world.cluster.heal()
        world.run(SECOND)
        startable(world, "abc")
    world.cluster.heal()
    world.run(4 * SECOND)
    startable(world, "abc")
    world.agree("abc")
