"""Rows of the log as Arrow batches, built column by column from whole batches of the log."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from reconvene.client.log_entries import Entry, EntryBatch
from reconvene.pipeline.source.decode import Decoder
from reconvene.pipeline.source.options import Decoding

__all__ = ["COLUMNS", "Rows", "Run", "column_ddl"]

COLUMNS = {
    "position": "BIGINT",
    "id": "STRING",
    "author": "STRING",
    "time": "TIMESTAMP",
    "log_time": "TIMESTAMP",
    "color": "STRING",
    "payload": "BINARY",
}
"""What every message has; `color` only where tentative rows are read."""

_MOST_ROWS = 32_768
_MOST_BYTES = 8 << 20
"""In one Arrow batch, but for one message that is longer."""
_NS_PER_US = 1_000


def column_ddl(tentative: bool, decoding: Decoding | None) -> str:
    """The schema as Spark is told."""
    columns = [f"`{name}` {kind}" for name, kind in COLUMNS.items() if tentative or name != "color"]
    if decoding is not None:
        if decoding.into is None:
            columns.append(decoding.schema)
        else:
            columns.append(f"`{decoding.into.replace('`', '``')}` STRUCT<{decoding.schema}>")
    return ", ".join(columns)


class Run(Struct, frozen=True, gc=False):
    """Messages of one author with counters that follow each other, at one time of the log."""

    position: int | None
    """Of the first; None: they are not ordered."""
    author: str
    incarnation: int
    first: int
    time: int
    log_time: int
    messages: Sequence[bytes]
    color: str = "green"


def runs_of(batch: EntryBatch, log_time: int) -> Iterator[Run]:
    """Without what is void."""
    at = 0
    for void in (*batch.void, len(batch.messages)):
        if void > at:
            messages = batch.messages if void - at == len(batch.messages) else batch.messages[at:void]
            yield Run(
                batch.position + at, batch.author, batch.incarnation, batch.first + at, batch.time, log_time, messages
            )
        at = void + 1


def run_of(entry: Entry, log_time: int) -> Run:
    """One that is not ordered."""
    return Run(
        None, entry.author, entry.incarnation, entry.counter, entry.time, log_time, [entry.data], entry.color.value
    )


class Rows:
    """Makes Arrow batches of exactly this schema."""

    def __init__(self, schema: pa.Schema, decoder: Decoder | None) -> None:
        self._schema = schema
        self._decoder = decoder
        self._tentative = "color" in schema.names

    def batches(self, runs: Iterable[Run]) -> Iterator[pa.RecordBatch]:
        """Of a size that any reader has room for; whole runs, since a run is at most one batch of the log."""
        gathered: list[Run] = []
        rows = size = 0
        for run in runs:
            length = sum(map(len, run.messages))
            if gathered and (rows + len(run.messages) > _MOST_ROWS or size + length > _MOST_BYTES):
                yield self._batch(gathered)
                gathered, rows, size = [], 0, 0
            gathered.append(run)
            rows += len(run.messages)
            size += length
        if gathered:
            yield self._batch(gathered)

    def _batch(self, runs: list[Run]) -> pa.RecordBatch:
        counts = np.fromiter((len(run.messages) for run in runs), np.int64, len(runs))
        which = np.repeat(np.arange(len(runs)), counts)
        # The place of each row in its run: what makes positions and counters of the first ones.
        place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)

        def each(values: "Iterable[int]") -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
            return np.fromiter(values, np.int64, len(runs))[which]

        payloads = [message for run in runs for message in run.messages]
        prefixes = pa.array([f"{run.author}:{run.incarnation}:" for run in runs], pa.string())
        counters = pa.array(each(run.first for run in runs) + place)
        positions = pa.array(
            each(run.position or 0 for run in runs) + place,
            mask=np.fromiter((run.position is None for run in runs), np.bool_, len(runs))[which],
        )
        columns = {
            "position": positions,
            "id": pc.binary_join_element_wise(prefixes.take(pa.array(which)), counters.cast(pa.string()), ""),
            "author": pa.array([run.author for run in runs], pa.string()).take(pa.array(which)),
            "time": _timestamps(each(run.time // _NS_PER_US for run in runs)),
            "log_time": _timestamps(each(run.log_time // _NS_PER_US for run in runs)),
            "payload": pa.array(payloads, pa.binary()),
        }
        if self._tentative:
            columns["color"] = pa.array([run.color for run in runs], pa.string()).take(pa.array(which))
        if self._decoder is not None:
            columns.update(self._decoder.columns(payloads, columns["id"]))
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)


def _timestamps(us: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    return pa.array(us, pa.timestamp("us", tz="UTC"))
