"""Digests of rows' ids, as they are kept in the log."""

from hashlib import blake2b

import pyarrow as pa

from reconvene.errors import Malformed

__all__ = ["DIGEST_BYTES", "IDS_TOGETHER", "digests_of"]

DIGEST_BYTES = 16
"""So long that no two ids have the same."""
IDS_TOGETHER = 4_096
"""Digests in one message of the index, but for the last."""


def digests_of(batch: pa.RecordBatch, column: str) -> list[bytes]:
    """Of each row's id. Ids are compared as text, but for binary ones. Raises Malformed for a null."""
    ids = batch.column(batch.schema.get_field_index(column))
    if ids.null_count:
        raise Malformed(f"idColumn {column}: {ids.null_count} of {len(ids)} rows have none; each row needs one")
    if not pa.types.is_binary(ids.type) and not pa.types.is_large_binary(ids.type):
        ids = ids.cast(pa.string()).cast(pa.binary())
    return [blake2b(found, digest_size=DIGEST_BYTES).digest() for found in ids.to_pylist()]
