from random import Random

from reconvene.core.effects import Persist
from reconvene.sim.disk import LEAST_NS, MOST_NS, Disk
from reconvene.sim.loop import Loop


def make() -> tuple[Loop, Disk, list[int]]:
    loop, synced = Loop(), list[int]()
    return loop, Disk(loop, Random("disk"), synced.extend), synced


def test_a_sync_takes_its_time_and_is_reported() -> None:
    loop, disk, synced = make()
    disk.write([Persist(1, "a", b"1"), Persist(2, "b", b"2")])
    loop.run(LEAST_NS - 1)
    assert (synced, disk.durable) == ([], {})
    loop.run(MOST_NS)
    assert (synced, disk.durable) == ([1, 2], {"a": b"1", "b": b"2"})


def test_syncs_come_in_order() -> None:
    loop, disk, synced = make()
    for token in range(20):
        disk.write([Persist(token, "a", b"%d" % token)])
    loop.run(20 * MOST_NS)
    assert synced == list(range(20))
    assert disk.durable == {"a": b"19"}


def test_a_crash_loses_what_was_not_synced() -> None:
    loop, disk, synced = make()
    disk.write([Persist(1, "a", b"old")])
    loop.run(MOST_NS)
    disk.write([Persist(2, "a", b"new")])
    disk.crash()
    loop.run(10 * MOST_NS)
    assert (synced, disk.durable) == ([1], {"a": b"old"})


def test_a_stall_holds_back_what_comes_after_it() -> None:
    loop, disk, synced = make()
    disk.stall(500 * MOST_NS)
    disk.write([Persist(1, "a", b"1")])
    loop.run(500 * MOST_NS)
    assert synced == []
    loop.run(501 * MOST_NS)
    assert synced == [1]
