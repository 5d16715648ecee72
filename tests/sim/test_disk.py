from random import Random

import pytest

from reconvene.errors import Malformed
from reconvene.sim.disk import LEAST_NS, MOST_NS, Disk
from reconvene.sim.loop import Loop
from reconvene.stack.turn import Write
from reconvene.storage.tables import Clear, Put


def make() -> tuple[Loop, Disk, list[int]]:
    loop, synced = Loop(), list[int]()
    return loop, Disk(loop, Random("disk"), synced.append), synced


def held(disk: Disk) -> dict[bytes, bytes]:
    return dict(disk.scan(b"", b"\xff"))


def test_a_sync_takes_its_time_and_is_reported() -> None:
    loop, disk, synced = make()
    disk.write([Write(1, [Put(b"a", b"1"), Put(b"\x01", b"one")])])
    loop.run(LEAST_NS - 1)
    assert (synced, held(disk)) == ([], {})
    loop.run(MOST_NS)
    assert (synced, held(disk)) == ([1], {b"a": b"1", b"\x01": b"one"})


def test_syncs_come_in_order() -> None:
    loop, disk, synced = make()
    for token in range(20):
        disk.write([Write(token, [Put(b"a", b"%d" % token)])])
    loop.run(20 * MOST_NS)
    assert synced == list(range(20))
    assert held(disk) == {b"a": b"19"}


def test_a_crash_loses_what_was_not_synced() -> None:
    loop, disk, synced = make()
    disk.write([Write(1, [Put(b"a", b"old")])])
    loop.run(MOST_NS)
    disk.write([Write(2, [Put(b"a", b"new")])])
    disk.crash()
    loop.run(10 * MOST_NS)
    assert (synced, held(disk)) == ([1], {b"a": b"old"})


def test_a_stall_holds_back_what_comes_after_it() -> None:
    loop, disk, synced = make()
    disk.stall(500 * MOST_NS)
    disk.write([Write(1, [Put(b"a", b"1")])])
    loop.run(500 * MOST_NS)
    assert synced == []
    loop.run(501 * MOST_NS)
    assert synced == [1]


def test_a_crash_loses_every_operation_of_a_write() -> None:
    loop, disk, synced = make()
    disk.write([Write(1, [Put(b"\x01", b"old"), Put(b"\x02", b"old")])])
    loop.run(MOST_NS)
    disk.write([Write(2, [Put(b"\x01", b"new"), Clear(b"\x02", b"\x03")])])
    disk.crash()
    loop.run(3 * MOST_NS)
    assert (held(disk), synced) == ({b"\x01": b"old", b"\x02": b"old"}, [1])


def test_the_time_of_a_sync_does_not_depend_on_what_is_written() -> None:
    times = []
    for ops in ([Put(b"a", b"1")], [Put(b"\x01", b"one"), Put(b"\x02", bytes(100_000))]):
        loop, reported = Loop(), list[int]()
        disk = Disk(loop, Random("disk"), lambda token, loop=loop, reported=reported: reported.append(loop.now))  # type: ignore[misc]
        for token in range(5):
            disk.write([Write(token, ops)])
        loop.run(10 * MOST_NS)
        times.append(reported)
    assert times[0] == times[1]


def test_a_disk_that_refuses_takes_all_of_it_later_in_order() -> None:
    loop, disk, synced = make()
    disk.refuse(20 * MOST_NS)
    for token in range(1, 5):
        disk.write([Write(token, [Put(b"a", b"%d" % token), Put(b"\x01", b"%d" % token)])])
    loop.run(10 * MOST_NS)
    assert (synced, held(disk)) == ([], {})
    assert disk.trouble == "No space left on device"
    disk.refuse(20 * MOST_NS)
    loop.run(25 * MOST_NS)
    assert synced == []
    loop.run(31 * MOST_NS)
    assert synced == [1, 2, 3, 4]
    assert held(disk) == {b"a": b"4", b"\x01": b"4"}
    trouble: str | None = disk.trouble
    assert trouble is None


def test_what_is_refused_at_a_crash_is_lost() -> None:
    loop, disk, synced = make()
    disk.refuse(5 * MOST_NS)
    disk.write([Write(1, [Put(b"\x01", b"1")])])
    loop.run(2 * MOST_NS)
    disk.crash()
    assert disk.trouble is None
    loop.run(12 * MOST_NS)
    assert (synced, held(disk)) == ([], {})


def test_a_process_that_crashes_at_a_report_gets_no_other() -> None:
    loop, reported = Loop(), list[int]()

    def synced(token: int) -> None:
        reported.append(token)
        disk.crash()

    disk = Disk(loop, Random("disk"), synced)
    disk.refuse(5 * MOST_NS)
    disk.write([Write(1, [Put(b"\x01", b"1")])])
    disk.write([Write(2, [Put(b"\x01", b"2")])])
    loop.run(10 * MOST_NS)
    assert (reported, disk.get(b"\x01")) == ([1], b"2")


def test_a_corrupt_value_is_malformed_until_it_is_written_again() -> None:
    disk = make()[1]
    disk.put([Put(b"\x01", b"1"), Put(b"\x02", b"2")])
    disk.corrupt(b"\x02")
    assert disk.get(b"\x01") == b"1"
    for read in (lambda: disk.get(b"\x02"), lambda: list(disk.scan(b"", b"\x03")), lambda: disk.last(b"", b"\x03")):
        with pytest.raises(Malformed, match="02 is corrupt"):
            read()
    assert list(disk.keys(b"", b"\x03")) == [b"\x01", b"\x02"]
    disk.put([Put(b"\x02", b"3")])
    assert disk.get(b"\x02") == b"3"
