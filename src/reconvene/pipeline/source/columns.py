"""The columns that a reader has, by its options."""

from reconvene.errors import Malformed
from reconvene.pipeline.source.options import PAYLOAD, SourceOptions

__all__ = ["COLUMNS", "column_ddl", "own_columns"]

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


def own_columns(options: SourceOptions) -> dict[str, str]:
    """Those of the log itself that a reader with these options has, and their types. Raises Malformed."""
    others = [name for name in COLUMNS if name != PAYLOAD]
    if options.payload_column is not None and options.payload_column.lower() in others:
        raise Malformed(f"payloadColumn {options.payload_column}: a column of the log itself; expected another name")
    left_out = set() if options.tentative else {"color"}
    if options.payload_column is None:
        left_out.add(PAYLOAD)
    shown = {PAYLOAD: options.payload_column or PAYLOAD}
    return {shown.get(name, name): kind for name, kind in COLUMNS.items() if name not in left_out}


def column_ddl(options: SourceOptions) -> str:
    """The schema as Spark is told."""
    columns = [f"{_quoted(name)} {kind}" for name, kind in own_columns(options).items()]
    decoding = options.decoding
    if decoding is not None:
        if decoding.into is None:
            columns.append(decoding.schema)
        else:
            columns.append(f"{_quoted(decoding.into)} STRUCT<{decoding.schema}>")
    return ", ".join(columns)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
