from random import Random

import pytest

from reconvene.core.effects import Persist
from reconvene.errors import Malformed
from reconvene.sim.disk import LEAST_NS, MOST_NS, Disk
from reconvene.sim.loop import Loop
from reconvene.storage.tables import Clear, Put


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


class Logged:
    """A disk with both kinds of writes, and what it reported, in order."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.told: list[tuple[str, int]] = []
        self.disk = Disk(
            self.loop,
            Random("disk"),
            lambda tokens: self.told.extend(("site", token) for token in tokens),
            lambda tokens: self.told.extend(("log", token) for token in tokens),
        )

    def later(self, ns: int) -> None:
        self.loop.run(self.loop.now + ns)


def test_the_log_and_the_site_are_durable_together() -> None:
    logged = Logged()
    logged.disk.write([Persist(1, "a", b"1")], [Put(b"\x01", b"one")], 7)
    logged.later(LEAST_NS - 1)
    assert (logged.disk.get(b"\x01"), logged.disk.durable, logged.told) == (None, {}, [])
    logged.later(MOST_NS)
    assert (logged.disk.get(b"\x01"), logged.disk.durable) == (b"one", {"a": b"1"})
    assert logged.told == [("site", 1), ("log", 7)]


def test_the_log_takes_no_other_draws_than_the_site() -> None:
    plain, logged = Logged(), Logged()
    for _ in range(5):
        plain.disk.write([Persist(1, "a", b"1")])
        logged.disk.write([], [Put(b"\x01", b"one")], 1)
    plain.later(3 * MOST_NS)
    logged.later(3 * MOST_NS)
    assert [token for _, token in plain.told] == [token for _, token in logged.told]


def test_a_crash_loses_the_logs_writes_too() -> None:
    logged = Logged()
    logged.disk.write([], [Put(b"\x01", b"old"), Put(b"\x02", b"old")], 1)
    logged.later(MOST_NS)
    logged.disk.write([], [Put(b"\x01", b"new"), Clear(b"\x02", b"\x03")], 2)
    logged.disk.crash()
    logged.later(MOST_NS)
    assert (logged.disk.get(b"\x01"), logged.disk.get(b"\x02"), logged.told) == (b"old", b"old", [("log", 1)])


def test_a_disk_that_refuses_takes_all_of_it_later_in_order() -> None:
    logged = Logged()
    logged.disk.refuse(20 * MOST_NS)
    for token in range(1, 5):
        logged.disk.write([Persist(token, "a", b"%d" % token)], [Put(b"\x01", b"%d" % token)], 10 * token)
    logged.later(10 * MOST_NS)
    assert (logged.told, logged.disk.durable, logged.disk.get(b"\x01")) == ([], {}, None)
    assert logged.disk.trouble == "No space left on device"
    logged.disk.refuse(20 * MOST_NS)
    logged.later(15 * MOST_NS)
    assert logged.told == []
    logged.later(6 * MOST_NS)
    assert logged.told == [
        (kind, number) for token in range(1, 5) for kind, number in (("site", token), ("log", 10 * token))
    ]
    assert (logged.disk.durable, logged.disk.get(b"\x01")) == ({"a": b"4"}, b"4")
    trouble: str | None = logged.disk.trouble
    assert trouble is None


def test_what_is_refused_at_a_crash_is_lost() -> None:
    logged = Logged()
    logged.disk.refuse(5 * MOST_NS)
    logged.disk.write([], [Put(b"\x01", b"1")], 1)
    logged.later(2 * MOST_NS)
    logged.disk.crash()
    assert logged.disk.trouble is None
    logged.later(10 * MOST_NS)
    assert (logged.told, logged.disk.get(b"\x01")) == ([], None)


def test_who_crashes_when_told_hears_no_more() -> None:
    loop, told = Loop(), list[int]()
    disk = Disk(loop, Random("disk"), lambda tokens: disk.crash(), told.extend)
    disk.write([Persist(1, "a", b"1")], [Put(b"\x01", b"1")], 1)
    loop.run(MOST_NS)
    assert (told, disk.get(b"\x01")) == ([], b"1")


def test_a_corrupt_value_is_malformed_until_it_is_written_again() -> None:
    disk = Logged().disk
    disk.put_log([Put(b"\x01", b"1"), Put(b"\x02", b"2")])
    disk.corrupt(b"\x02")
    assert disk.get(b"\x01") == b"1"
    for read in (lambda: disk.get(b"\x02"), lambda: list(disk.scan(b"", b"\x03")), lambda: disk.last(b"", b"\x03")):
        with pytest.raises(Malformed, match="02 is corrupt"):
            read()
    assert list(disk.keys(b"", b"\x03")) == [b"\x01", b"\x02"]
    disk.put_log([Put(b"\x02", b"3")])
    assert disk.get(b"\x02") == b"3"
