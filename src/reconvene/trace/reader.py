"""Reads a trace directory, strictly: what can't be judged is refused with one line that says where and why.

Only one thing is forgiven, since a crash makes it: a last line that was torn while it was written. It is dropped.
Anything else that is not a trace of this schema, or lacks its start, raises `Malformed`. A trace that can be read
but records something impossible (a delivery without a sending) is not refused: the checks report it.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from reconvene.errors import Malformed
from reconvene.trace.events import SCHEMA, WIDE_STACK, Row, Run, is_changed
from reconvene.trace.shapes import check_row, check_wide_row
from reconvene.trace.writer import RUN_FILE, node_file, stopped_file

__all__ = [
    "BadLine",
    "Trace",
    "check_row",
    "check_run",
    "check_schema",
    "decode_rows",
    "find_start",
    "other_schema",
    "read_file",
    "read_rows",
    "read_run",
    "read_trace",
    "was_changed",
    "whole_lines",
]

_ROWS = msgspec.json.Decoder(Row)
_RUN = msgspec.json.Decoder(Run)

_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises, whatever the bytes are."""


class BadLine(Malformed):
    """What is wrong with one line, by its place among the lines that were looked at, from 0."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line + 1}: {problem}")
        self.line = line
        self.problem = problem


@dataclass(slots=True)
class Trace:
    """A whole trace in memory."""

    run: Run
    rows: dict[str, list[Row]]


def read_trace(directory: Path, *, wide: bool = False) -> Trace:
    run = read_run(directory, wide=wide)
    return Trace(run, {node: read_rows(directory, node) for node in run.recorded})


def read_run(directory: Path, *, wide: bool = False) -> Run:
    """run.json, and whether the directory's node files are those that it names.

    `wide`: of the part of a trace of domains that has the layer `wide`, which is no trace by itself.
    """
    if not directory.is_dir():
        raise Malformed(f"{directory}: expected a trace directory with {RUN_FILE} and a file for each node")
    path = directory / RUN_FILE
    if not _is_file(path):
        raise Malformed(f"{path}: is missing or no file; expected a trace directory")
    data = read_file(path)
    check_schema(path, data)
    try:
        run = _RUN.decode(data)
    except _NOT_JSON as error:
        raise Malformed(f"{path}: {error}") from None
    if (run.stack == WIDE_STACK) is not wide:
        if wide:
            raise Malformed(f"{path}: `stack` is {run.stack!r}; expected {WIDE_STACK!r}")
        raise Malformed(f"{path}: is a part of a trace of domains; expected the directory above {directory}")
    try:
        check_run(run)
    except Malformed as error:
        raise Malformed(f"{path}: {error}") from None
    known = set(run.recorded)
    for node in run.recorded:
        if not _is_file(node_file(directory, node)):
            raise Malformed(f"{node_file(directory, node)}: is missing or no file; {RUN_FILE} names node {node}")
        mark = stopped_file(directory, node)
        if mark.exists():
            # Others deliver what it sent after that: its own end, judged as an end, would accuse them.
            raise Malformed(
                f"{node_file(directory, node)}: the trace of {node} is not whole; it was stopped: {_why(mark)}"
            )
    for file in sorted((directory.rglob if wide else directory.glob)("*.jsonl")):
        if str(file.relative_to(directory)).removesuffix(".jsonl") not in known:
            raise Malformed(f"{file}: belongs to no node; {RUN_FILE} names {', '.join(run.recorded)}")
    return run


def was_changed(directory: Path) -> bool:
    """Has a site noted here that the log's replicas or its quorum have changed?"""
    try:
        return is_changed(read_run(directory))
    except Malformed:
        return False  # there is none yet


def _why(mark: Path) -> str:
    """The first line of the mark that a stopped trace has."""
    try:
        return mark.read_text(errors="replace").partition("\n")[0][:200]
    except OSError as error:
        return str(error)


def read_rows(directory: Path, node: str) -> list[Row]:
    """One node's rows, in the order of its file."""
    path = node_file(directory, node)
    try:
        rows = decode_rows(whole_lines(read_file(path)), node)
        if "/" not in node:  # a file of layer wide has no rows of evs, which show the start
            find_start(rows)
    except BadLine as bad:
        raise Malformed(f"{path}:{bad.line + 1}: {bad.problem}") from None
    return rows


def whole_lines(data: bytes) -> bytes:
    """A file without its last line, where that was torn: it lacks its newline, and is no complete object."""
    whole, newline, last = data.rpartition(b"\n")
    if not last:
        return data
    try:
        msgspec.json.decode(last)
    except _NOT_JSON:
        return whole + newline
    return data


def decode_rows(data: bytes, node: str) -> list[Row]:
    """The rows of whole lines of a node's file. Raises `BadLine` where one is no event of that node."""
    rows = _decode_lines(data)
    check = check_wide_row if "/" in node else check_row
    for line, row in enumerate(rows):
        problem = check(row)
        if problem is None and row.node != node:
            problem = f"`node` is {row.node}; expected {node}"
        if problem is not None:
            raise BadLine(line, problem)
    return rows


def _is_file(path: Path) -> bool:
    """A regular file: reading a pipe or a device would never end."""
    try:
        return path.is_file()
    except OSError as error:
        raise Malformed(f"{str(path)[:200]}: can't be read ({error.strerror})") from None


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Malformed(f"{path}: can't be read ({error.strerror})") from None


def check_run(run: Run) -> None:
    """Is run.json about one run? Raises `Malformed` where it contradicts itself."""
    known = set(run.recorded)
    if not run.nodes or len(set(run.nodes)) != len(run.nodes):
        raise Malformed("`nodes` expected to name each node once, and at least one")
    parts = 2 if run.stack == WIDE_STACK else 1
    for field, names in (("nodes", run.nodes), ("followers", run.followers), ("outposts", run.outposts)):
        for node in names:
            if not _names_a_file(node, parts):
                what = "DOMAIN/SITE" if parts == 2 else "a name that can name a file"
                raise Malformed(f"`{field}` has {node!r}; expected {what}")
    if len(known) != len(run.recorded):
        raise Malformed("`followers` and `outposts` expected to name each of them once, and no node")
    if run.stack == WIDE_STACK:
        return  # domains.json says who was connected
    connected = [node for component in run.components for node in component]
    for field, names in (("components", connected), ("down", run.down)):
        strange = sorted(set(names) - known)
        if strange:
            raise Malformed(f"`{field}` names {strange[0]}, which is not in `nodes`")
    if len(set(connected)) != len(connected):
        raise Malformed("`components` expected to name a node once at most")


def _names_a_file(node: str, parts: int) -> bool:
    found = node.split("/")
    return len(found) == parts and all(part and not part.startswith(".") for part in found)


def other_schema(schema: object) -> str:
    """What is wrong with a trace of another schema."""
    older = schema == 1 and type(schema) is int
    hint = "; an earlier version of Reconvene wrote this trace, and can read it" if older else ""
    return f"`schema` is {schema!r}; expected {SCHEMA}{hint}"


def check_schema(path: Path, data: bytes) -> None:
    """The schema number comes first: a later schema's run.json may differ in everything else."""
    try:
        document = msgspec.json.decode(data)
    except _NOT_JSON as error:
        raise Malformed(f"{path}: expected a JSON object ({error})") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise Malformed(f"{path}: is not a trace's; expected a JSON object with `schema`")
    schema = document["schema"]
    if type(schema) is not int or schema != SCHEMA:
        raise Malformed(f"{path}: {other_schema(schema)}")


def _decode_lines(data: bytes) -> list[Row]:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    try:
        rows = _ROWS.decode_lines(data)
    except _NOT_JSON:
        rows = []
    if len(rows) == lines:
        return rows
    # Something is wrong (or blank): find the line.
    return [_decode_line(number, line) for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"))]


def _decode_line(number: int, line: bytes) -> Row:
    try:
        document = msgspec.json.decode(line)
        if isinstance(document, dict):
            # Writers that know only tables fill the columns that an event does not have with null.
            document = {key: value for key, value in document.items() if value is not None}
        return msgspec.convert(document, Row)
    except _NOT_JSON as error:
        raise BadLine(number, f"expected an event ({error})") from None


def find_start(rows: list[Row]) -> int | None:
    """Where the node started: in a configuration that no other one leads to. None: these rows do not show it yet.

    Raises `BadLine` where it is not the first thing that happened.
    """
    for line, row in enumerate(rows):
        if row.layer != "evs" or row.conf_kind == "hidden":
            continue
        if row.kind != "conf" or row.conf_kind == "transitional":
            what = f"{row.conf_kind} configuration" if row.kind == "conf" else row.kind
            raise BadLine(
                line, f"the trace lacks its start: its first event is a {what}; expected a regular configuration"
            )
        return line
    return None
