"""The log's rows in a trace, and what a restart adds to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from tests.corel.world import MS, World

from reconvene.corel.batch import Heading, Kind, Origin, Source
from reconvene.corel.events import Accepted, Color, Green, Logged, Recolored, Restored
from reconvene.corel.replica import Replica
from reconvene.sim.cluster import Cluster
from reconvene.trace.events import Row
from reconvene.trace.forwarded_rows import ForwardedRows
from reconvene.trace.log_past import LogPast, log_past, read_log_past
from reconvene.trace.log_recorder import LogRecorder
from reconvene.trace.recorder import Recorder
from reconvene.trace.writer import encode_row


def recorder(rows: list[Row], green: int = 0) -> LogRecorder:
    whole = Recorder("a", ("a", "b", "c"), rows)
    whole.begin(1)
    return LogRecorder(whole, "abc".__getitem__, green)


BATCH = Heading(Kind.DATA, 1, 4, 7, 3, 0)


def test_one_row_for_each_message() -> None:
    rows: list[Row] = []
    recorder(rows).events(5, [Accepted(BATCH), Logged(BATCH, (9, 0, 2, 1)), Green(BATCH, 20)])
    assert [(row.kind, row.msg) for row in rows] == [
        (kind, msg) for kind in ("accept", "log", "green") for msg in ("b:4:7", "b:4:8", "b:4:9")
    ]
    assert [row.ts for row in rows[3:6]] == [[9, 0, 2, 1, 0], [9, 0, 2, 1, 1], [9, 0, 2, 1, 2]]
    assert [row.pos for row in rows[6:]] == [20, 21, 22]
    assert [row.n for row in rows] == list(range(9))


def test_no_position_twice_also_within_a_batch() -> None:
    rows: list[Row] = []
    whole = recorder(rows, green=21)
    whole.events(5, [Green(BATCH, 20), Green(BATCH, 20), Restored(40), Green(BATCH, 38)])
    assert [(row.kind, row.pos) for row in rows] == [("green", 21), ("green", 22), ("snapshot", 40), ("green", 40)]


def test_a_base_below_what_is_recorded_is_no_snapshot() -> None:
    """The green line on stable storage may be behind the one that was told; others may have truncated more."""
    rows: list[Row] = []
    recorder(rows, green=23).events(5, [Restored(15), Green(BATCH, 21)])
    assert [(row.kind, row.pos) for row in rows] == [("green", 23)]


def restarted(cluster: Cluster, name: str) -> Replica:
    """As it would load what is durable now."""
    node = cluster.node(name)
    return Replica(name, cluster.names, 1 << 20, node.disk)


def busy(seed: int) -> World:
    """Messages of all colours, after changes of configuration, with everything synced."""
    world = World("abc", seed=seed)
    world.run(300 * MS)
    for number in range(5):
        for name in "abc":
            world.append(name, *(b"%d" % index for index in range(3)))
        if number == 2:
            world.cluster.partition([["a", "b"], ["c"]])
        world.run(40 * MS)
    world.run(1500 * MS)
    world.append("c", b"red")
    world.cluster.heal()
    world.run(1000 * MS)
    world.cluster.partition([["a"], ["b", "c"]])
    world.run(1000 * MS)
    for name in "abc":
        world.append(name, b"late", b"r")
    world.run(300 * MS)
    return world


def told(past: LogPast) -> tuple[object, ...]:
    return past.green, past.accepted, past.logged, past.attempted, past.known


@pytest.mark.parametrize("seed", range(3))
def test_what_storage_holds_and_the_trace_lacks(seed: int) -> None:
    """Wherever the file ends, what is added makes it tell what the whole one told."""
    world = busy(seed)
    for name in "abc":
        rows = world.cluster.rows[name]
        log = [row for row in rows if row.layer == "corel"]
        assert {"accept", "log", "yellow", "green", "attempt", "commit"} <= {row.kind for row in log}
        replica = restarted(world.cluster, name)
        for end in range(0, len(log) + 1, 1 if len(log) < 200 else 3):
            caught: list[Row] = []
            recorder(caught).catch_up(0, log_past(log[:end]), replica)
            assert told(log_past([*log[:end], *caught])) == told(log_past(log)), (name, end)
            positions = [row.pos for row in (*log[:end], *caught) if row.kind == "green"]
            assert positions == list(range(len(positions)))
            assert len({(row.kind, row.msg) for row in caught}) == len(caught), "nothing is recorded twice"


def test_a_file_is_read_as_its_rows_are(tmp_path: Path) -> None:
    rows = busy(0).cluster.rows["a"]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(map(encode_row, rows)))
    assert told(read_log_past(path)) == told(log_past(rows))
    path.write_bytes(path.read_bytes() + b'{"layer":"corel"\n')
    with pytest.raises(OSError, match=r"a\.jsonl: a line of it is no event"):
        read_log_past(path)


def test_an_empty_trace_gets_all_that_storage_has() -> None:
    world = busy(1)
    caught: list[Row] = []
    replica = restarted(world.cluster, "b")
    recorder(caught).catch_up(0, LogPast(), replica)
    again: list[Row] = []
    recorder(again).catch_up(0, log_past(caught), replica)
    assert again == []


# -- copies of what an outpost accepted


class TwoCopies:
    """Of a replica: two replicas took over the outpost's message 7, and b's copy is the first in the order."""

    base = 0
    first = Heading(Kind.DATA, 1, 1, 4, 1, 0, sourced=True)
    second = Heading(Kind.DATA, 2, 1, 9, 1, 0, sourced=True)

    def __init__(self) -> None:
        self.sessions = self.green = self
        self.is_green = False

    def has(self, session: bytes, number: int) -> bool:
        return self.is_green

    def forwarded(self, batch: Heading) -> list[Source]:
        return [Source(session=b"outpost o", number=7, start=0, count=1, origin=Origin(outpost="o", incarnation=1))]

    def place_of(self, session: bytes, number: int) -> int | None:
        return 0 if self.is_green else None

    def voids(self, position: int, batch: Heading) -> tuple[int, ...]:
        return (0,) if position else ()

    def read(self, position: int) -> Iterator[tuple[int, Heading]]:
        return iter([(0, self.first)])


def copied(rows: list[Row], replica: TwoCopies) -> LogRecorder:
    found = recorder(rows)
    found._forwarded = ForwardedRows(cast(Replica, replica), {})
    return found


def shown(rows: list[Row]) -> list[tuple[object, ...]]:
    return [(row.kind, row.msg, row.label or row.msg) for row in rows]


def test_every_copy_is_recorded_when_it_is_logged() -> None:
    """Also while nobody knows which one counts: or what its author accepts later would seem to overtake it."""
    rows: list[Row] = []
    replica = TwoCopies()
    log = copied(rows, replica)
    log.events(5, [Logged(replica.second, (9, 0, 1, 0)), Logged(replica.first, (9, 0, 2, 0))])
    assert shown(rows) == [("log", "o:1:7", "c:1:9"), ("log", "b:1:4", "b:1:4")]
    log.events(6, [Recolored(replica.first, Color.YELLOW), Recolored(replica.second, Color.YELLOW)])
    replica.is_green = True
    log.events(7, [Green(replica.first, 0), Green(replica.second, 1)])
    assert shown(rows)[2:] == [
        *(("yellow", "b:1:4", "b:1:4"), ("yellow", "o:1:7", "c:1:9")),
        *(("green", "o:1:7", "b:1:4"), ("green", "c:1:9", "c:1:9")),
    ]


def test_a_copy_of_what_is_green_has_its_own_id() -> None:
    rows: list[Row] = []
    replica = TwoCopies()
    replica.is_green = True
    copied(rows, replica).events(5, [Logged(replica.first, (9, 0, 1, 0)), Logged(replica.second, (9, 0, 2, 0))])
    assert shown(rows) == [("log", "o:1:7", "b:1:4"), ("log", "c:1:9", "c:1:9")], "the first one's green comes next"


def test_a_restart_goes_on_with_what_the_rows_showed() -> None:
    rows: list[Row] = []
    replica = TwoCopies()
    copied(rows, replica).events(5, [Logged(replica.second, (9, 0, 1, 0))])
    past = log_past(rows)
    assert (past.logged, past.shown) == ({"c:1:9": False}, {"c:1:9": "o:1:7"})
    again = recorder(rows)
    again._forwarded = ForwardedRows(cast(Replica, replica), past.shown)
    again.events(6, [Logged(replica.first, (9, 0, 2, 0)), Recolored(replica.second, Color.YELLOW)])
    assert shown(rows)[1:] == [("log", "b:1:4", "b:1:4"), ("yellow", "o:1:7", "c:1:9")]
