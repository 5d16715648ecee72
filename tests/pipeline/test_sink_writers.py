"""The writers on a real cluster, called as Spark calls them: tasks, then commit, or abort, or both, and again."""

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from tests.pipeline.log_places import addresses, running

from reconvene import blocking
from reconvene.errors import Malformed, OutcomeUnknown, Unavailable
from reconvene.local import LocalCluster
from reconvene.pipeline.sink.batch import BatchWriter
from reconvene.pipeline.sink.options import parse_options
from reconvene.pipeline.sink.staged import Staged, stage
from reconvene.pipeline.sink.stream import StreamWriter

SCHEMA = StructType().add("id", "long").add("payload", "string")
BUSY_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with tempfile.TemporaryDirectory(prefix="rs") as directory, running(Path(directory, "c")) as cluster:
        yield cluster


def batches(*texts: str, first: int = 0) -> Iterator[pa.RecordBatch]:
    """Two, where there is more than one row."""
    rows = [{"id": first + at, "payload": text} for at, text in enumerate(texts)]
    for some in (rows[:1], rows[1:]):
        yield pa.RecordBatch.from_pylist(some, pa.schema([("id", pa.int64()), ("payload", pa.string())]))


def batch_writer(cluster: LocalCluster, **told: str) -> BatchWriter:
    return BatchWriter({"addresses": addresses(cluster), **told}, SCHEMA, False)


class Query:
    """A stream as Spark writes it: a new writer for each batch, and another one for its commit."""

    def __init__(self, cluster: LocalCluster, name: str, **told: str) -> None:
        self._given = {"addresses": addresses(cluster), **told}
        self._name = f"spark query {name}"
        self._query = name

    def stage(self, number: int, *parts: Sequence[str]) -> list[WriterCommitMessage | None]:
        options = parse_options(self._given, SCHEMA, False, stream=True)
        staged = [stage(options, batches(*part), self._name, number, self._query) for part in parts]
        return [Staged(at, one.query, one.rows, one.places, done=one.done) for at, one in enumerate(staged)]

    def writer(self) -> StreamWriter:
        return StreamWriter(self._given, SCHEMA, False)


def texts(cluster: LocalCluster, start: int = 0) -> list[str]:
    with blocking.connect(list(cluster.addresses.values()), wait=BUSY_S) as site:
        site.log.barrier(BUSY_S)
        return [entry.data.decode() for entry in site.log.read(start)]


def end(cluster: LocalCluster) -> int:
    with blocking.connect(list(cluster.addresses.values()), wait=BUSY_S) as site:
        return site.log.barrier(BUSY_S)


@pytest.mark.long("starts three sites")
def test_a_batch_is_seen_when_it_is_committed_and_once_by_its_version(cluster: LocalCluster) -> None:
    start = end(cluster)
    writer = batch_writer(cluster, txnAppId="once", txnVersion="5")
    parts = [writer.write(batches("a", "b", "c")), writer.write(batches("d")), writer.write(iter(()))]
    again = batch_writer(cluster, txnAppId="once", txnVersion="5")
    late = [again.write(batches("a", "b")), again.write(batches("c", "d"))]
    assert texts(cluster, start) == []
    writer.commit(parts)
    assert texts(cluster, start) == ["a", "b", "c", "d"]
    writer.commit(parts)
    writer.abort(parts)
    again.commit(late)
    # Who comes later stages nothing; a lower version is no other.
    for version in ("5", "4"):
        done = batch_writer(cluster, txnAppId="once", txnVersion=version)
        told = done.write(batches("a", "b", "c", "d"))
        assert isinstance(told, Staged)
        assert (told.done, told.places) == (True, [])
        done.commit([told])
    higher = batch_writer(cluster, txnAppId="once", txnVersion="20260101")
    higher.commit([higher.write(batches("e"))])
    other = batch_writer(cluster, txnAppId="another", txnVersion="5")
    other.commit([other.write(batches("f"))])
    assert texts(cluster, start) == ["a", "b", "c", "d", "e", "f"]


def test_what_fails_or_is_aborted_is_never_seen(cluster: LocalCluster) -> None:
    start = end(cluster)
    writer = batch_writer(cluster)
    failed = writer.write(batches("of a task that failed after all"))
    retried = writer.write(batches("x", "y"))
    writer.abort([failed, None])
    assert texts(cluster, start) == []
    writer.commit([retried, None])
    writer.commit([])
    assert texts(cluster, start) == ["x", "y"]
    again = batch_writer(cluster)  # without a name each write is another one
    again.commit([again.write(batches("x"))])
    assert texts(cluster, start) == ["x", "y", "x"]
    with pytest.raises(Malformed, match="column payload: 1 of 1 rows are null"):
        batch_writer(cluster).write(iter([pa.RecordBatch.from_pydict({"payload": pa.array([None], pa.string())})]))


def test_rows_by_their_ids(cluster: LocalCluster) -> None:
    start = end(cluster)

    def write(*parts: tuple[int, str], name: str = "by id") -> list[str]:
        writer = batch_writer(cluster, txnAppId=name, idColumn="id")
        before = end(cluster)
        writer.commit([writer.write(batches(*words.split(), first=first)) for first, words in parts])
        return texts(cluster, before)

    assert write((0, "a b c"), (10, "k l")) == ["a", "b", "c", "k", "l"]
    assert write((0, "a b c"), (10, "k l")) == []
    assert write((1, "b c d"), (3, "d e"), (9, "j k l m")) == ["d", "e", "j", "m"]
    assert write((0, "a b"), name="another") == ["a", "b"]
    # Two writes at once: the later one looks at what the other has committed meanwhile.
    first, second = (batch_writer(cluster, txnAppId="by id", idColumn="id") for _ in range(2))
    staged = [first.write(batches("x", "y", first=100)), second.write(batches("y", "z", first=101))]
    first.commit(staged[:1])
    second.commit(staged[1:])
    assert texts(cluster, start)[-3:] == ["x", "y", "z"]
    many = batch_writer(cluster, txnAppId="many", idColumn="id")
    words = [f"w{at % 7_000}" for at in range(9_000)]
    rows = pa.RecordBatch.from_pydict({"id": [at % 7_000 for at in range(9_000)], "payload": words})
    before = end(cluster)
    many.commit([many.write(iter([rows]))])
    assert texts(cluster, before) == words[:7_000]


def test_a_streams_batch_once_however_it_is_replayed(cluster: LocalCluster) -> None:
    start = end(cluster)
    query = Query(cluster, "q1")
    first = query.stage(0, ["a", "b"], ["c"])
    query.writer().commit(first, 0)
    # The driver died before Spark noted that, and its replay has other partitions; some of them had staged before.
    replay = query.stage(0, ["a"], ["b"], ["c"])
    assert all(isinstance(message, Staged) and message.done for message in replay)
    query.writer().commit(replay, 0)
    query.writer().commit(first, 0)
    query.writer().abort(first, 0)
    early, late = query.stage(1, ["d", "e"]), query.stage(1, ["d"], ["e"])
    query.writer().commit(late, 1)
    query.writer().commit(early, 1)
    query.writer().abort(early, 1)
    mixed = [*early[:1], *query.stage(1, ["e"])]
    query.writer().commit(mixed, 1)
    query.writer().commit([None], 2)
    empty = query.stage(2, [], [])
    query.writer().commit(empty, 2)
    query.writer().commit(query.stage(3, ["f"]), 3)
    other = Query(cluster, "q2")
    other.writer().commit(other.stage(0, ["of another query"]), 0)
    assert texts(cluster, start) == ["a", "b", "c", "d", "e", "f", "of another query"]


@contextmanager
def partitioned(cluster: LocalCluster, *components: str) -> Iterator[None]:
    cluster.partition([list(names) for names in components])
    try:
        cluster.wait_for(timeout_s=BUSY_S)
        yield
    finally:
        cluster.heal()
        cluster.wait_for(timeout_s=BUSY_S)


def test_a_minority_is_passed_by_and_where_nobody_orders_it_is_one_line(cluster: LocalCluster) -> None:
    start = end(cluster)
    alone = {"addresses": addresses(cluster, "c"), "timeout": "1"}
    before = batch_writer(cluster, **alone, txnAppId="alone", txnVersion="0")
    staged = before.write(batches("a"))
    with partitioned(cluster, "ab", "c"):
        with pytest.raises(Unavailable, match=r"for 1 s no replica could take and order.* in no component that can"):
            batch_writer(cluster, **alone).write(batches("x"))
        with pytest.raises((Unavailable, OutcomeUnknown)):
            before.commit([staged])
        writer = batch_writer(cluster, addresses=addresses(cluster, "cab"))
        writer.commit([writer.write(batches("b", "c"))])
    with pytest.raises(Unavailable, match="no replica could take and order"):
        batch_writer(cluster, addresses="127.0.0.1:9", timeout="0.5").write(batches("x"))
    after = batch_writer(cluster, txnAppId="alone", txnVersion="0")
    after.commit([after.write(batches("a"))])
    assert sorted(texts(cluster, start)) == ["a", "b", "c"]


@pytest.mark.long("starts three sites")
def test_a_replica_dies_while_a_task_writes(cluster: LocalCluster) -> None:
    start = end(cluster)
    going = threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        for at in range(60):
            yield pa.RecordBatch.from_pydict({"payload": [f"{at} {each}" for each in range(50)]})
            time.sleep(0.02)
            if at == 10:
                going.set()

    def crash() -> None:
        going.wait(BUSY_S)
        cluster.crash("a")

    thread = threading.Thread(target=crash)
    thread.start()
    try:
        for attempt in range(4):  # as Spark does
            writer = batch_writer(cluster, txnAppId="dying", txnVersion="0", timeout="10")
            try:
                writer.commit([writer.write(rows())])
                break
            except (OutcomeUnknown, Unavailable):
                assert attempt < 3
    finally:
        thread.join()
        cluster.restart("a")
        cluster.wait_for(timeout_s=BUSY_S)
    assert texts(cluster, start) == [f"{at} {each}" for at in range(60) for each in range(50)]
