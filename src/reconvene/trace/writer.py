"""Writes a trace directory: run.json and one NODE.jsonl for each node.

The same run is written as the same bytes: fields in the schema's order, no spaces, one newline a row.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from reconvene.trace.events import Row, Run

__all__ = ["RUN_FILE", "encode_document", "encode_row", "encode_run", "node_file", "stopped_file", "write_trace"]

RUN_FILE = "run.json"

_ENCODER = msgspec.json.Encoder()
_FLUSH_BYTES = 1 << 20


def encode_row(row: Row) -> bytes:
    """One line of a node's file, its newline included."""
    return _ENCODER.encode(row) + b"\n"


def encode_run(run: Run) -> bytes:
    return encode_document(run)


def encode_document(document: msgspec.Struct) -> bytes:
    """run.json or domains.json: one JSON object, indented, for people too."""
    return msgspec.json.format(_ENCODER.encode(document), indent=2) + b"\n"


def node_file(directory: Path, node: str) -> Path:
    return directory / f"{node}.jsonl"


def stopped_file(directory: Path, node: str) -> Path:
    """Exists where the node's trace was stopped, and says why: it lacks what came after."""
    return directory / f"{node}.stopped"


def write_trace(directory: Path, run: Run, rows_by_node: Mapping[str, Iterable[Row]]) -> None:
    """Writes the whole trace. A node of the run without rows (it never started) gets an empty file.

    run.json is written last: a directory whose writing was cut short is no trace.
    """
    unknown = sorted(set(rows_by_node) - set(run.recorded))
    assert not unknown, f"rows of nodes that are not in the run: {unknown}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / RUN_FILE).unlink(missing_ok=True)
    for node in run.recorded:
        path = node_file(directory, node)
        path.parent.mkdir(exist_ok=True)  # of DOMAIN/SITE, the domain's
        with path.open("wb") as file:
            buffer = bytearray()
            for row in rows_by_node.get(node, ()):
                buffer += _ENCODER.encode(row)
                buffer += b"\n"
                if len(buffer) >= _FLUSH_BYTES:
                    file.write(buffer)
                    buffer.clear()
            file.write(buffer)
    (directory / RUN_FILE).write_bytes(encode_run(run))
