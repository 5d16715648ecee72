"""The log's rows in a trace, and what a restart adds to them."""

from pathlib import Path

import pytest
from tests.corel.world import MS, World

from reconvene.corel.batch import Heading, Kind
from reconvene.corel.events import Accepted, Green, Logged, Restored
from reconvene.corel.replica import Replica
from reconvene.sim.cluster import Cluster
from reconvene.trace.events import Row
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
