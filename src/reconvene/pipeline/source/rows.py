"""Rows of the log as Arrow batches, built column by column from whole batches of the log."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from reconvene.corel.batch import Kind
from reconvene.entries import Entry, EntryBatch
from reconvene.pipeline.source.decode import Decoder
from reconvene.pipeline.source.options import PAYLOAD

__all__ = ["Dated", "Rows", "pending_row", "without_void"]

_MOST_ROWS = 32_768
_MOST_BYTES = 8 << 20
"""In one Arrow batch, but for one message that is longer."""
_NS_PER_US = 1_000


class Dated(Struct, frozen=True, gc=False):
    """A batch of the log without void messages, at one time of the log."""

    batch: EntryBatch
    log_time: int
    color: str = "green"
    """Of another colour: it is not ordered, and has no position."""


def without_void(batch: EntryBatch, log_time: int) -> Iterator[Dated]:
    """What is between the void messages, in order."""
    at = batch.position
    for void in (*batch.void, len(batch)):
        if batch.position + void > at:
            yield Dated(batch.cut(at, batch.position + void), log_time)
        at = batch.position + void + 1


def pending_row(entry: Entry, log_time: int) -> Dated:
    """Of an entry that is not ordered."""
    batch = EntryBatch(
        entry.position, entry.author, entry.incarnation, entry.counter, entry.time, Kind.DATA, [entry.data]
    )
    return Dated(batch, log_time, entry.color.value)


class Rows:
    """Makes Arrow batches of exactly this schema."""

    def __init__(self, schema: pa.Schema, decoder: Decoder | None, payload_column: str | None = PAYLOAD) -> None:
        self._schema = schema
        self._payload_column = payload_column
        self._decoder = decoder
        self._tentative = "color" in schema.names

    def batches(self, dated: Iterable[Dated]) -> Iterator[pa.RecordBatch]:
        """Of a size that any reader has room for; batches of the log are not cut."""
        gathered: list[Dated] = []
        rows = size = 0
        for one in dated:
            length = sum(map(len, one.batch.messages))
            if gathered and (rows + len(one.batch) > _MOST_ROWS or size + length > _MOST_BYTES):
                yield self._arrow(gathered)
                gathered, rows, size = [], 0, 0
            gathered.append(one)
            rows += len(one.batch)
            size += length
        if gathered:
            yield self._arrow(gathered)

    def _arrow(self, dated: list[Dated]) -> pa.RecordBatch:
        batches = [one.batch for one in dated]
        counts = np.fromiter(map(len, batches), np.int64, len(batches))
        which = np.repeat(np.arange(len(batches)), counts)
        # The index of each row in its batch: what makes positions and counters of the first ones.
        index = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)

        def each(values: "Iterable[int]") -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
            return np.fromiter(values, np.int64, len(batches))[which]

        payloads = [message for batch in batches for message in batch.messages]
        prefixes = pa.array([f"{batch.author}:{batch.incarnation}:" for batch in batches], pa.string())
        counters = pa.array(each(batch.first for batch in batches) + index)
        positions = pa.array(
            each(batch.position for batch in batches) + index,
            mask=np.fromiter((one.color != "green" for one in dated), np.bool_, len(dated))[which],
        )
        columns = {
            "position": positions,
            "id": pc.binary_join_element_wise(prefixes.take(pa.array(which)), counters.cast(pa.string()), ""),
            "author": pa.array([batch.author for batch in batches], pa.string()).take(pa.array(which)),
            "time": _timestamps(each(batch.time // _NS_PER_US for batch in batches)),
            "log_time": _timestamps(each(one.log_time // _NS_PER_US for one in dated)),
        }
        if self._payload_column is not None:
            columns[self._payload_column] = pa.array(payloads, pa.binary())
        if self._tentative:
            columns["color"] = pa.array([one.color for one in dated], pa.string()).take(pa.array(which))
        if self._decoder is not None:
            columns.update(self._decoder.columns(payloads, columns["id"]))
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)


def _timestamps(us: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    return pa.array(us, pa.timestamp("us", tz="UTC"))
