"""The source before real sites that die, lag and forget, without a Spark session: readers as Spark calls them."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import Filter, GreaterThanOrEqual, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from tests.pipeline.log_places import (
    Table,
    addresses,
    append,
    batch_reader,
    read_batch,
    running,
    stream_reader,
    wait_green,
)

from reconvene import blocking
from reconvene.errors import Rejected, Unavailable
from reconvene.local import LocalCluster
from reconvene.local.ports import choose
from reconvene.pipeline.source.reading import LogPartition
from reconvene.pipeline.source.stream import StreamReader
from reconvene.runtime.access.key_files import add_client_key

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running(tmp_path_factory.mktemp("log") / "c") as made:
        append(made, "a", [b"a%d" % at for at in range(300)])
        append(made, "b", [b"b%d" % at for at in range(300)])
        wait_green(made, "abc", 600)
        yield made


def client_rows(cluster: LocalCluster, site: str = "a") -> list[tuple[int, str, bytes]]:
    with blocking.connect(cluster.addresses[site]) as client:
        end = client.log.status().green
        return [(entry.position, entry.id, entry.data) for entry in client.log.follow(stop=end)]


def essence(rows: Table) -> list[tuple[int, str, bytes]]:
    return [(row["position"], row["id"], row["payload"]) for row in rows]


class Query:
    """What Spark does with a stream reader; offsets go through JSON, as they do through its log."""

    def __init__(self, reader: StreamReader, limit: ReadLimit = ALL) -> None:
        self.reader = reader
        self.limit = limit
        self.at: dict[str, Any] = reader.initialOffset()

    def step(self) -> Table:
        """One batch."""
        end = json.loads(json.dumps(self.reader.latestOffset(self.at, self.limit)))
        start, self.at = self.at, end
        return self.between(start, end)

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> Table:
        parts = self.reader.partitions(start, end)
        return [row for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]


def test_partitions_together_are_the_log(cluster: LocalCluster) -> None:
    whole = read_batch(addresses(cluster))
    assert essence(whole) == client_rows(cluster)
    assert [row["log_time"] for row in whole] == sorted(row["log_time"] for row in whole)
    for options in ({"partitions": 7}, {"rowsPerPartition": 50}, {"partitions": 1}):
        assert read_batch(addresses(cluster), **options) == whole
    assert len(batch_reader(addresses(cluster), partitions=7).partitions()) == 7
    assert read_batch(addresses(cluster, "c"), startingPosition=250, endingPosition=417) == whole[250:417]
    assert read_batch(addresses(cluster), startingPosition="latest") == []


def test_each_replica_gives_the_same(cluster: LocalCluster) -> None:
    assert (
        read_batch(addresses(cluster, "a"))
        == read_batch(addresses(cluster, "b"))
        == read_batch(addresses(cluster, "c"))
    )


def test_what_the_log_does_not_have_is_one_line(cluster: LocalCluster, tmp_path: Path) -> None:
    where = addresses(cluster)
    end = len(client_rows(cluster))
    with pytest.raises(Rejected, match=f"startingPosition 9999: beyond the log's end, which is at {end}"):
        read_batch(where, startingPosition=9_999)
    with pytest.raises(Rejected, match=f"endingPosition 9999: beyond the log's end, which is at {end}"):
        read_batch(where, endingPosition=9_999)
    with pytest.raises(Rejected, match="startingPosition 9999: beyond the log's end"):
        Query(stream_reader(where, startingPosition=9_999)).step()
    nowhere = f"{tmp_path}/x.sock,127.0.0.1:{choose(1)[0]}"
    with pytest.raises(Unavailable) as told:
        read_batch(nowhere, timeout=1)
    assert "x.sock: No such file" in str(told.value)
    assert "Connection refused; start one, or correct `addresses`" in str(told.value)


@pytest.mark.long("starts three sites")
def test_a_read_goes_on_where_a_replica_dies_or_lags(cluster: LocalCluster) -> None:
    expected = client_rows(cluster)
    # Larger than what is read ahead, so that the death of the first site is noticed.
    cluster.partition([["a", "b"], ["c"]])
    cluster.wait_for()
    append(cluster, "b", [b"%d" % at + bytes(4_000) for at in range(1_500)])
    wait_green(cluster, "a", len(expected) + 1_500)
    try:
        reader = batch_reader(addresses(cluster, "cab"), timeout=20)
        (part,) = reader.partitions()
        rows: Table = []
        for batch in reader.read(part):
            rows += batch.to_pylist()
            if len(rows) > 700 and cluster.state("a") == "up":
                # The read began at c, which has the first 600, and is at a now.
                cluster.crash("a")
    finally:
        if cluster.state("a") == "down":
            cluster.restart("a")
        cluster.heal()
        cluster.wait_for([cluster.names], 30)
    assert essence(rows) == client_rows(cluster, "b")
    wait_green(cluster, "ac", len(rows))


def test_pending_messages_of_a_minority(cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.partition([["a", "b"], ["c"]])
    cluster.wait_for()
    try:
        ids = append(cluster, "c", [b"red %d" % at for at in range(20)], ordered=False)
        ordered = append(cluster, "a", [b"meanwhile"])
        rows = read_batch(addresses(cluster), tentative="true", startingPosition="latest")
        assert [row["id"] for row in rows] == ids
        assert {(row["position"], row["color"]) for row in rows} == {(None, "red")}
        assert [row["payload"] for row in rows] == [b"red %d" % at for at in range(20)]
        whole = read_batch(addresses(cluster), tentative="true")
        assert (whole[-21]["id"], whole[-21]["color"]) == (ordered[0], "green")
        assert whole[-20:] == rows
        assert "not ordered" not in caplog.text
        append(cluster, "c", [bytes(1_000)] * 2_000, ordered=False)
        some = read_batch(addresses(cluster), tentative="true", startingPosition="latest")
        assert some[:20] == rows
        assert f"site c has 2020 messages that are not ordered: it listed the first {len(some)}" in caplog.text
        # In the majority they are not known.
        assert read_batch(addresses(cluster, "ab"), tentative="true", startingPosition="latest") == []
    finally:
        cluster.heal()
        cluster.wait_for([cluster.names], 30)
    wait_green(cluster, "abc", len(whole) + 2_000)
    assert [row["id"] for row in read_batch(addresses(cluster), startingPosition=len(whole) - 20)][:20] == ids
    assert read_batch(addresses(cluster), tentative="true", startingPosition="latest") == []


def stage(log: blocking.Log, messages: list[bytes]) -> tuple[tuple[int, int], ...]:
    staging = log.staging(20)
    staging.put(messages)
    return staging.ordered().runs


def test_a_transaction_is_shown_where_it_was_committed(cluster: LocalCluster) -> None:
    with blocking.connect(cluster.addresses["b"]) as client:
        log = client.log
        start = log.barrier(20)
        ranges = [stage(log, [b"s%d %d" % (part, at) for at in range(400)]) for part in range(2)]
        log.append(b"between").ordered(20)
        stage(log, [b"never committed"])
        log.commit([pair for some in reversed(ranges) for pair in some], name="q", version=1)
        expected = list(log.follow(start, stop=log.barrier(20)))
    rows = read_batch(addresses(cluster), startingPosition=start, rowsPerPartition=300)
    assert sorted(essence(rows)) == sorted((entry.position, entry.id, entry.data) for entry in expected)
    assert len(rows) == 801
    shown = [row for row in rows if row["payload"].startswith(b"s")]
    assert len({row["log_time"] for row in shown}) == 1
    assert all(row["time"] <= row["log_time"] for row in shown)
    # A stream with a limit shows all of it at once, or nothing yet.
    query = Query(stream_reader(addresses(cluster), startingPosition=start), ReadMaxRows(10))
    sizes = [len(query.step()) for _ in range(4)]
    query.reader.stop()
    assert sizes == [1, 800, 0, 0]


def test_headings_and_ranges_are_the_same_rows(cluster: LocalCluster) -> None:
    """Also of a transaction, whose rows have positions before its commit."""
    with blocking.connect(cluster.addresses["a"]) as client:
        staging = client.log.staging()
        staging.put([b"s%d" % at for at in range(40)])
        places = staging.ordered()
        append(cluster, "b", [b"between"])
        client.log.commit(places)
    whole = sorted(read_batch(addresses(cluster)), key=itemgetter("position"))
    bare = [{name: value for name, value in row.items() if name != "payload"} for row in whole]
    found = read_batch(addresses(cluster), payload="false", rowsPerPartition=70)
    assert sorted(found, key=itemgetter("position")) == bare
    (first, _), *_ = places.runs
    for low, high in ((0, 10), (595, first + 5), (first + 3, first + 7), (first + 39, 1 << 40)):
        reader = batch_reader(addresses(cluster), partitions=2)
        filters: list[Filter] = [GreaterThanOrEqual(("position",), low), LessThan(("position",), high)]
        assert reader.pushFilters(filters) == filters
        found = [row for part in reader.partitions() for some in reader.read(part) for row in some.to_pylist()]
        found.sort(key=itemgetter("position"))
        assert found == [row for row in whole if low <= row["position"] < high]


def test_a_limited_batch_is_read_by_as_many_tasks_as_asked_for(cluster: LocalCluster) -> None:
    reader = stream_reader(addresses(cluster), partitions=4, maxRowsPerTrigger=100)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    found = [part for part in reader.partitions(start, end) if isinstance(part, LogPartition)]
    assert [sum(piece.rows for piece in part.pieces) for part in found] == [25] * 4
    reader.stop()


def test_a_stream_in_steps_is_the_log(cluster: LocalCluster) -> None:
    whole = read_batch(addresses(cluster), endingPosition=600)
    query = Query(stream_reader(addresses(cluster)), ReadMaxRows(70))
    found: Table = []
    marks = [query.at]
    while len(found) < 600:
        rows = query.step()
        assert 0 < len(rows) <= 70
        found += rows
        marks.append(query.at)
    query.reader.stop()
    assert found[:600] == whole
    # What is repeated after a restart is the same, also the first batch, whose start was a word.
    again = Query(stream_reader(addresses(cluster, "b")))
    repeated = [row for start, end in pairwise(marks[:5]) for row in again.between(start, end)]
    again.reader.stop()
    assert repeated == found[: len(repeated)]


@pytest.mark.long("starts three sites and a stream on Spark")
def test_a_stream_waits_for_replicas(tmp_path: Path) -> None:
    with running(tmp_path / "c", nodes=1) as cluster:
        where = addresses(cluster)
        append(cluster, "a", [b"1", b"2"])
        cluster.crash("a")
        reader, once = stream_reader(where, timeout=2), stream_reader(where, timeout=2)
        query, all_at_once = Query(reader), Query(once, ReadMaxRows(1))
        assert query.step() == []
        assert query.at == reader.initialOffset()
        # With availableNow the same offset would be the end.
        once.prepareForTriggerAvailableNow()
        assert all_at_once.step() == []
        assert all_at_once.at != once.initialOffset()
        cluster.restart("a")
        assert [row["payload"] for row in all_at_once.step()] == [b"1"]
        append(cluster, "a", [b"3"])
        assert [row["payload"] for row in query.step()] == [b"1", b"2", b"3"]
        assert [row["payload"] for row in all_at_once.step()] == [b"2"]
        assert once.latestOffset(all_at_once.at, ALL) == all_at_once.at

        append(cluster, "a", [b"4"])
        before = query.at
        after = reader.latestOffset(before, ALL)
        cluster.crash("a")
        # The batch is planned already: its task waits, and so does the plan of one that is repeated.
        found: list[Table] = []
        threads = [
            threading.Thread(target=lambda one=one: found.append(Query(one).between(before, after)), daemon=True)
            for one in (reader, once)
        ]
        for thread in threads:
            thread.start()
        assert reader.latestOffset(after, ALL) == after
        time.sleep(2.5)
        assert found == []
        cluster.restart("a")
        for thread in threads:
            thread.join(30)
        assert [[row["payload"] for row in rows] for rows in found] == [[b"4"], [b"4"]]
        reader.stop()
        once.stop()


def test_what_was_truncated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path / "c", nodes=1, settings={"log": {"retain_bytes": 1 << 16}}) as cluster:
        where = addresses(cluster)
        stale = Query(stream_reader(where))
        append(cluster, "a", [b"%04d" % at + bytes(100) for at in range(500)])
        stale.step()
        for start in range(500, 4_000, 500):
            append(cluster, "a", [b"%04d" % at + bytes(100) for at in range(start, start + 500)])
        base = _settled_base(cluster)
        assert 500 < base < 4_000
        line = (
            f"position 3 is not in the log any more: it was truncated, and begins at {base}; start at {base} or later"
        )
        with pytest.raises(Rejected, match=line):
            read_batch(where, startingPosition=3)
        with pytest.raises(Rejected, match=line):
            Query(stream_reader(where, startingPosition=3)).step()
        with pytest.raises(Rejected, match="position 500 is not in the log any more"):
            stale.step()
        stale.reader.stop()
        kept = read_batch(where)
        assert [int(row["payload"][:4]) for row in kept] == list(range(base, 4_000))
        with caplog.at_level(logging.WARNING, "reconvene.source"):
            assert read_batch(where, startingPosition=3, failOnDataLoss="false") == kept
            lenient = Query(stream_reader(where, failOnDataLoss="false"))
            lenient.at = stale.at
            assert lenient.step() == kept
            lenient.reader.stop()
        assert f"positions 3 to {base - 1} were truncated, and are left out" in caplog.text
        assert f"positions 500 to {base - 1} were truncated, and are left out" in caplog.text


def _settled_base(cluster: LocalCluster) -> int:
    with blocking.connect(cluster.addresses["a"]) as client:
        bases = [-1, -2]
        while bases[-1] != bases[-2] or bases[-1] <= 0:
            time.sleep(0.2)
            bases.append(client.log.status().base)
        return bases[-1]


def test_keys_and_clusters(tmp_path: Path, cluster: LocalCluster) -> None:
    keys = tmp_path / "keys.toml"
    add_client_key(keys, "reader", "read")
    (port,) = choose(1)
    settings = {"clients": {"tcp": f"127.0.0.1:{port}", "keys": str(keys)}}
    with running(tmp_path / "c", nodes=1, settings=settings) as secured:
        append(secured, "a", [b"secret"])
        where = f"127.0.0.1:{port}"
        assert [row["payload"] for row in read_batch(where, keyFile=keys)] == [b"secret"]
        with pytest.raises(Rejected, match=r"no replica lets this reader in: .* site a requires a client key"):
            read_batch(where)
        with pytest.raises(Rejected, match=r"missing\.toml"):
            read_batch(where, keyFile=tmp_path / "missing.toml")
        with pytest.raises(Rejected, match="addresses: expected replicas of one log, not of the clusters"):
            read_batch(f"{where},{addresses(cluster)}", keyFile=keys)
        query = Query(stream_reader(addresses(cluster)))
        query.step()
        query.reader.stop()
        other = Query(stream_reader(where, keyFile=keys))
        other.at = query.at
        with pytest.raises(Rejected, match="the checkpoint is of the log of cluster"):
            other.step()
        other.reader.stop()
