"""Logs of real sites for tests of the source, and its readers without a Spark session."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from reconvene import blocking
from reconvene.local import LocalCluster
from reconvene.pipeline.source.batch import BatchReader
from reconvene.pipeline.source.stream import StreamReader

__all__ = ["Table", "addresses", "append", "batch_reader", "own_schema", "read_batch", "running", "stream_reader"]

Table = list[dict[str, Any]]
BUSY_S = 30.0


@contextmanager
def running(directory: Path, nodes: int = 3, settings: Mapping[str, object] | None = None) -> Iterator[LocalCluster]:
    with LocalCluster.create(directory, nodes=nodes, trace=False, settings=settings) as cluster:
        cluster.start(BUSY_S)
        yield cluster


def addresses(cluster: LocalCluster, names: str = "") -> str:
    return ",".join(cluster.addresses[name] for name in names or cluster.names)


def append(cluster: LocalCluster, site: str, messages: list[bytes], *, ordered: bool = True) -> list[str]:
    """Their ids. One batch of the log, or a few."""
    with blocking.connect(cluster.addresses[site], wait=BUSY_S) as client:
        receipts = client.log.append_many(messages)
        if ordered:
            receipts.ordered(BUSY_S)
        return [known for known in receipts.ids if known is not None]


def wait_green(cluster: LocalCluster, names: str, green: int) -> None:
    """Until each of them has as much of the log."""
    for name in names:
        with blocking.connect(cluster.addresses[name], wait=BUSY_S) as client:
            end = time.monotonic() + BUSY_S
            while client.log.status().green != green:
                assert time.monotonic() < end
                time.sleep(0.02)


def own_schema(tentative: bool = False) -> StructType:
    fields = [
        StructField("position", LongType()),
        StructField("id", StringType()),
        StructField("author", StringType()),
        StructField("time", TimestampType()),
        StructField("log_time", TimestampType()),
        StructField("color", StringType()),
        StructField("payload", BinaryType()),
    ]
    return StructType([field for field in fields if tentative or field.name != "color"])


def batch_reader(where: str, **options: object) -> BatchReader:
    told = {"addresses": where, **{name: str(value) for name, value in options.items()}}
    schema = own_schema(options.get("tentative") == "true")
    if options.get("payload") == "false":
        schema = StructType([field for field in schema.fields if field.name != "payload"])
    return BatchReader(told, schema)


def stream_reader(where: str, **options: object) -> StreamReader:
    told = {"addresses": where, **{name: str(value) for name, value in options.items()}}
    return StreamReader(told, own_schema())


def read_batch(where: str, **options: object) -> Table:
    """As Spark does it, in this process."""
    reader = batch_reader(where, **options)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
