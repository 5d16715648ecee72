"""Rows into the log's messages: one column as it is, or the whole row as JSON or msgpack."""

from collections.abc import Callable

import msgspec
import pyarrow as pa

from reconvene.errors import Malformed
from reconvene.pipeline.sink.options import SinkOptions

__all__ = ["payloads_of"]

_ENCODE: dict[str, Callable[[object], bytes]] = {
    "json": msgspec.json.Encoder().encode,
    "msgpack": msgspec.msgpack.Encoder().encode,
}


def payloads_of(batch: pa.RecordBatch, options: SinkOptions) -> list[bytes]:
    """A message for each row. Raises Malformed for a null, or a value that the format can't hold."""
    if options.payload_column is not None:
        return column_of(batch, options.payload_column)
    assert options.format is not None, "one of the two is given"
    encode = _ENCODE[options.format]
    rows = batch.to_pylist(maps_as_pydicts="strict")
    try:
        return list(map(encode, rows))
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"format {options.format}: a row can't be encoded: {error}") from None


def column_of(batch: pa.RecordBatch, name: str) -> list[bytes]:
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count:
        raise Malformed(f"column {name}: {column.null_count} of {len(column)} rows are null; a message can't be")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    found: list[bytes] = column.to_pylist()
    return found
