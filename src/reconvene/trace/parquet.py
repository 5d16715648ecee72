"""The Parquet form of traces: many runs in one directory, read here without Spark, one run at a time.

Given: pyarrow, which the extra `spark` brings. Promised: the same runs and rows as from trace directories, and the
same refusals, with a file and a row where those name a file and a line.

A node's events are in the order of their file. Where they are in several files, these follow each other by `n`; where
the numbers of two overlap, `n` itself is the order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import UNSET

from reconvene.errors import Malformed
from reconvene.trace.events import SCHEMA, Row, Run
from reconvene.trace.parquet_form import (
    ALWAYS,
    EVENT_TYPES,
    EVENTS_DIR,
    RUN_TYPES,
    RUNS_DIR,
    check_file,
    documents,
    event_files,
    run_directory,
    run_files,
)
from reconvene.trace.reader import BadLine, check_run, find_start, other_schema
from reconvene.trace.shapes import check_row

__all__ = ["Listed", "list_runs", "no_order", "problem_of", "read_parquet_runs", "row_of", "run_of"]

_LISTS = ("members", "ts", "dests")


@dataclass(frozen=True, slots=True)
class Listed:
    """A run of the form, and where it is."""

    run: Run
    told_by: Path
    """The file of the table of runs."""
    files: list[Path]
    """Of its events. A run in which nothing happened may have none."""


def list_runs(root: Path) -> list[Listed]:
    """The runs, by their names, each with its events' files, which are whole Parquet files. May raise Malformed."""
    files = event_files(root)
    runs: dict[str, tuple[Path, Run]] = {}
    for file in run_files(root):
        for document in documents(file, RUN_TYPES):
            run = run_of(str(file), document)
            if run.run in runs:
                other, _ = runs[run.run]
                raise Malformed(f"{file}: has the run {run.run!r}, and so has {other}; expected one run of a name")
            runs[run.run] = file, run
    for name, found in files.items():
        if name not in runs:
            raise Malformed(f"{run_directory(root, name)}: {RUNS_DIR} has no run {name!r}; expected a row for it")
        for file in found:
            check_file(file)
    for name, (file, _) in runs.items():
        if name not in files:
            expected = run_directory(root, name)
            raise Malformed(f"{file}: {EVENTS_DIR} has nothing of the run {name!r}; expected {expected}")
    return [Listed(run, file, files[name]) for name, (file, run) in sorted(runs.items())]


def run_of(file: str, document: Mapping[str, object]) -> Run:
    """A row of the table of runs. Raises Malformed, which names the file, where it is none."""
    schema = document.get("schema")
    if schema != SCHEMA:
        raise Malformed(f"{file}: {other_schema(schema)}")
    told = {name: value for name, value in document.items() if value is not None}
    try:
        if isinstance(quorum := told.get("quorum"), str):
            told["quorum"] = msgspec.json.decode(quorum)
        run = msgspec.convert(told, Run)
        check_run(run)
    except (Malformed, msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"{file}: {error}") from None
    return run


def row_of(document: Mapping[str, object]) -> Row:
    """An event that `problem_of` has nothing against."""
    return Row(**{name: UNSET if value is None else value for name, value in document.items()})  # type: ignore[arg-type]


def problem_of(document: Mapping[str, object]) -> str | None:
    """What is wrong with the shape of an event, of which columns have the right types."""
    for name in ALWAYS:
        if document.get(name) is None:
            return f"`{name}` is missing; every event has it"
    for name in _LISTS:
        values = document.get(name)
        if isinstance(values, Iterable) and any(value is None for value in values):
            return f"`{name}` has a null in it"
    return check_row(row_of(document))


@dataclass(slots=True)
class _Piece:
    """A node's rows in one file, and which rows they are."""

    file: Path
    rows: list[Row]
    places: list[int]

    @property
    def low(self) -> int:
        return min(row.n for row in self.rows)

    @property
    def high(self) -> int:
        return max(row.n for row in self.rows)


def read_parquet_runs(root: Path, only: str | None = None) -> Iterator[tuple[Run, dict[str, list[Row]]]]:
    """Each run (or the one of this name) with its rows by node, by the runs' names; one at a time is in memory.

    May raise Malformed.
    """
    listed = list_runs(root)
    if only is not None:
        listed = [each for each in listed if each.run.run == only]
        if not listed:
            raise Malformed(f"{root / RUNS_DIR}: has no run {only!r}")
    for each in listed:
        yield each.run, _rows(each.run, each.files)


def _rows(run: Run, files: list[Path]) -> dict[str, list[Row]]:
    pieces: dict[str, list[_Piece]] = {node: [] for node in run.recorded}
    for file in files:
        of: dict[str, _Piece] = {}
        for place, document in enumerate(documents(file, EVENT_TYPES)):
            problem = problem_of(document)
            if problem is None and document["node"] not in pieces:
                problem = f"`node` is {document['node']}; the run's nodes are {', '.join(run.recorded)}"
            if problem is not None:
                raise Malformed(f"{file}: row {place + 1}: {problem}")
            row = row_of(document)
            piece = of.get(row.node)
            if piece is None:
                piece = of[row.node] = _Piece(file, [], [])
            piece.rows.append(row)
            piece.places.append(place)
        for node, piece in of.items():
            pieces[node].append(piece)
    return {node: _in_order(node, found) for node, found in pieces.items()}


def _in_order(node: str, pieces: list[_Piece]) -> list[Row]:
    pieces.sort(key=lambda piece: (piece.low, piece.high))
    located = [(piece, place) for piece in pieces for place in range(len(piece.rows))]
    if any(one.high >= other.low for one, other in pairwise(pieces)):
        located.sort(key=lambda at: at[0].rows[at[1]].n)
        for (one, i), (other, j) in pairwise(located):
            if one.rows[i].n == other.rows[j].n:
                raise Malformed(f"{other.file}: row {other.places[j] + 1}: {no_order(node, other.rows[j].n)}")
    rows = [piece.rows[place] for piece, place in located]
    try:
        find_start(rows)
    except BadLine as bad:
        piece, place = located[bad.line]
        raise Malformed(f"{piece.file}: row {piece.places[place] + 1}: {bad.problem}") from None
    return rows


def no_order(node: str, n: int) -> str:
    """The refusal of two rows with one number in files whose numbers overlap."""
    return (
        f"the rows of {node} are spread over files whose `n` overlap, and {n} stands twice: nothing tells their order"
    )
