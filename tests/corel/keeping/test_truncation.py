"""Truncation: what is deleted, what stays, and what becomes of a replica that lacks what was deleted."""

import pytest
from tests.corel.world import MS, SECOND, World
from tests.sim.chunks import few

from reconvene.corel.keeping.layout import BODIES, GREEN, VOIDS, table_end
from reconvene.corel.keeping.truncation import Needs, may_go
from reconvene.corel.limits import LogLimits
from reconvene.errors import Rejected

LIMITS = LogLimits(batch_bytes=16, keep_bytes=0)


def stored(world: World, name: str, table: bytes) -> int:
    return len(list(world.cluster.node(name).disk.keys(table, table_end(table))))


def fill(world: World, name: str, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        world.append(name, b"%s%d" % (name.encode(), number))
        world.run(5 * MS)
    world.run(500 * MS)


@pytest.mark.parametrize(
    ("limits", "needs", "end", "goes"),
    [
        (LogLimits(keep_bytes=0), Needs(9, 9, 1, 0), 9, True),
        (LogLimits(keep_bytes=0), Needs(9, 8, 1, 0), 9, False),
        (LogLimits(keep_bytes=0), Needs(8, 9, 1, 0), 9, False),
        (LogLimits(keep_bytes=0), Needs(9, None, 1, 0), 9, False),
        (LogLimits(keep_bytes=1), Needs(9, 9, 1, 0), 9, False),
        (LogLimits(retain_bytes=5), Needs(0, None, 6, 0), 9, True),
        (LogLimits(retain_bytes=5), Needs(0, None, 5, 0), 9, False),
        (LogLimits(retain_bytes=5), Needs(0, 8, 6, 0), 9, False),
        (LogLimits(retain_age_ns=5), Needs(0, None, 6, 106), 9, True),
        (LogLimits(retain_age_ns=5), Needs(0, None, 6, 105), 9, False),
    ],
)
def test_what_may_go(limits: LogLimits, needs: Needs, end: int, goes: bool) -> None:
    assert may_go(limits, needs, end, 100) is goes


def test_what_is_folded_is_gone_and_the_rest_is_read_as_before() -> None:
    world = World("abc", limits=LIMITS)
    world.run()
    fill(world, "a", 30)
    before = world.entries("a")
    replica = world.log("a")
    with pytest.raises(Rejected):
        replica.truncate(31)
    replica.truncate(20)
    world.turn("a")
    world.run()
    base = replica.queue.base
    assert 0 < base.position <= 20
    assert world.entries("a") == {place: text for place, text in before.items() if place >= base.position}
    assert stored(world, "a", GREEN) == stored(world, "a", BODIES) == len(world.green("a"))
    assert stored(world, "b", GREEN) > stored(world, "a", GREEN)
    world.cluster.crash("a")
    world.cluster.restart("a")
    world.run()
    assert world.log("a").queue.base == base
    assert world.entries("a") == {place: text for place, text in before.items() if place >= base.position}
    fill(world, "b", 3)
    world.agree("abc")
    world.verified()


def test_what_is_green_everywhere_and_in_a_snapshot_goes_by_itself() -> None:
    world = World("abc", limits=LIMITS)
    world.run()
    fill(world, "a", 10)
    world.run(SECOND)
    assert [world.log(name).base for name in "abc"] == [0, 0, 0]
    world.log("a").save_snapshot(7, b"the state after 7")
    world.turn("a")
    fill(world, "b", 3)  # what goes round tells everyone's green line
    assert 0 < world.log("a").base <= 7
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    fill(world, "a", 10)
    base = world.log("a").base
    world.log("a").save_snapshot(world.log("a").green, b"the state now")
    world.turn("a")
    fill(world, "a", 3)
    assert base < world.log("a").base <= 13, "not beyond the green line of c"
    world.cluster.heal()
    world.run(2 * SECOND)
    # The others got the snapshot too, since nothing else kept them from truncating, and stop where it does.
    for name in "bc":
        assert world.log(name).snapshots.floor == world.log("a").snapshots.floor
        assert 0 < world.log(name).base <= 23
    world.agree("abc")


@pytest.mark.parametrize("limits", [{"retain_bytes": 400}, {"retain_age_ns": SECOND}])
def test_retention_passes_a_replica_that_lags_which_keeps_its_own(limits: dict[str, int]) -> None:
    world = World("abc", limits=LogLimits(batch_bytes=16, **limits))
    world.run()
    fill(world, "c", 2)
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    world.append("c", b"red one")
    world.append("c", b"red two")
    fill(world, "a", 20)
    world.run(SECOND)
    fill(world, "b", 5)
    base = world.log("a").base
    assert base > 2
    assert world.log("c").green == 2
    world.cluster.heal()
    world.run(3 * SECOND)
    rows = world.cluster.rows
    greens = [row.msg for row in rows["a"] if row.kind == "green"]
    assert {row.msg for row in rows["c"] if row.kind == "accept"} <= set(greens)
    assert len(greens) == 2 + 2 + 25
    assert [row.pos for row in rows["c"] if row.kind == "snapshot"] == [base]
    world.agree("abc")
    assert stored(world, "c", BODIES) == stored(world, "c", GREEN), "nothing is left of what the base covers"
    world.verified()


def test_red_copies_that_the_base_covers_are_dropped() -> None:
    world = World("abc", limits=LIMITS)
    world.run()
    world.cluster.partition(["a", "b", "c"])
    world.run(2 * SECOND)
    world.append("a", b"of a")
    world.run(100 * MS)
    world.cluster.partition(["ac", "b"])
    world.cluster.crash("b")
    world.run(300 * MS)
    # c has a's message, perhaps yellow, perhaps green; then only a and b go on.
    world.cluster.partition(["a", "b", "c"])
    world.run(2 * SECOND)
    world.append("c", b"of c")
    world.cluster.restart("b")
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    fill(world, "a", 6)
    for name in "ab":
        world.log(name).truncate(world.log(name).green)
        world.turn(name)
    world.run()
    assert world.log("a").base == 7
    world.cluster.heal()
    world.run(3 * SECOND)
    assert world.texts("c") == [b"of c"]
    assert world.log("c").green == 8
    assert world.log("c").accepting.open_messages == 0
    world.agree("abc")
    world.verified()


def test_sessions_and_voids_are_folded_too() -> None:
    world = World("abc", limits=LIMITS)
    world.run()
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    for name in "ab":
        world.log(name).append_once([b"x"], b"s", 1)
        world.turn(name)
    world.run()
    world.cluster.heal()
    world.run(2 * SECOND)
    fill(world, "a", 3)
    assert [stored(world, name, VOIDS) for name in "abc"] == [1, 1, 1]
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    world.log("b").append_once([b"y"], b"s", 2)
    fill(world, "b", 3)
    for name in "ab":
        world.log(name).truncate(world.log(name).green)
        world.turn(name)
    world.run()
    assert [stored(world, name, VOIDS) for name in "ab"] == [0, 0]
    world.log("c").append_once([b"x", b"y"], b"s", 1)
    world.turn("c")
    world.cluster.heal()
    world.run(3 * SECOND)
    assert world.log("c").base > 0
    assert world.texts("c") == [], "x was known there, y was taken twice, and the second is void"
    (place, heading) = world.green("c")[0]
    assert world.log("c").voids(place, heading) == (0,)
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.run(2 * SECOND)
    assert world.log("c").voids(place, heading) == (0,)
    assert world.log("c").append_once([b"y"], b"s", 2)[0].new is False
    world.agree("abc")


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_replicas_that_truncate_as_they_like_amid_faults(seed: int) -> None:
    world = World("abcd", seed, limits=LogLimits(batch_bytes=24))
    world.run()
    random, cluster = world.random, world.cluster
    numbers = dict.fromkeys("abcd", 0)
    for _ in range(40):
        fault = random.random()
        names = [name for name in "abcd" if world.up(name)]
        if fault < 0.10:
            cluster.partition(random.choice([["a", "bcd"], ["abc", "d"], ["ab", "cd"], ["abd", "c"]]))
        elif fault < 0.18:
            cluster.heal()
        elif fault < 0.26 and len(names) > 2:
            cluster.crash(random.choice(names))
        elif fault < 0.42 and len(names) < 4:
            cluster.restart(random.choice([name for name in "abcd" if name not in names]))
        for name in [name for name in "abcd" if world.up(name)]:
            if random.random() < 0.6:
                count = random.randint(1, 4)
                texts = [b"%s%d" % (name.encode(), numbers[name] + index) for index in range(count)]
                numbers[name] += count
                world.log(name).append_once(texts, name.encode(), numbers[name] - count)
            if random.random() < 0.15:
                replica = world.log(name)
                replica.truncate(random.randint(0, replica.green))
            world.turn(name)
        world.run(random.choice([1, 20, 300, 1500]) * MS)
    cluster.heal()
    for name in "abcd":
        if not world.up(name):
            cluster.restart(name)
    world.run(6 * SECOND)
    world.agree("abcd")
    world.verified()
    for name in "abcd":
        assert world.log(name).queue.red_messages == 0
        assert stored(world, name, BODIES) == stored(world, name, GREEN) + len(world.log(name).queue.accepted)
